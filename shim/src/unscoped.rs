//! Operations that belong to no scope: what scopes, and interfaces of languages that know no borrows, are made of.

use strait_core::layout::{Call, Wait};
use strait_core::progress::{
    Bypass, Cursor, Fault, Outcome, Owner, Part, Received, RequestId, SendMode, Sent, Status, Want,
};
use strait_core::wire::Key;

use crate::network::TransferId;
use crate::{Endpoint, Error, Rank, Tag, WindowError, World};

/// An operation that was begun: a send, a receive, a put or a get.
///
/// Whoever began it answers for its buffer until the operation [is over](Unscoped::is_over); dropping this ends nothing. It is to be
/// given to the world in which it was begun, and to no other. Prefer [`crate::Scope`], where the compiler sees to both.
#[derive(Debug)]
#[must_use = "the operation goes on, and nobody can ask how it ended"]
pub struct Unscoped {
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Pending(RequestId),
    Transferring(TransferId),
    /// A message for a window.
    Moving(RequestId),
    Done(Outcome),
    /// A window's lane broke, although nobody is known to be gone.
    Broken(WindowError),
}

impl State {
    /// What an operation waits for.
    fn wait_of(self, world: &World) -> Wait {
        match self {
            Self::Pending(id) | Self::Moving(id) => world.turn().wait_of(id),
            Self::Transferring(_) => Wait::new(Call::WindowFlush),
            Self::Done(_) | Self::Broken(_) => Wait::new(Call::Request),
        }
    }
}

impl Unscoped {
    pub(crate) const fn done(outcome: Outcome) -> Self {
        Self { state: State::Done(outcome) }
    }

    #[inline]
    pub(crate) const fn received(received: Received) -> Self {
        match received {
            Received::Done(outcome) => Self::done(outcome),
            Received::Pending(id) => Self { state: State::Pending(id) },
        }
    }

    pub(crate) const fn transferring(id: TransferId) -> Self {
        Self { state: State::Transferring(id) }
    }

    /// The same, as one of the messages for a window, which are waited for where others are cancelled.
    pub(crate) fn moving(self, world: &World, owner: Owner) -> Self {
        let State::Pending(id) = self.state else { return self };
        world.with_baselines(|all| all.keep(owner, id));
        Self { state: State::Moving(id) }
    }

    /// True when its buffer is the caller's again.
    #[inline]
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Done(_) | State::Broken(_))
    }

    /// The status if the operation is known to be over, without making progress.
    ///
    /// # Errors
    ///
    /// How the operation ended badly.
    #[inline]
    pub fn status(&self) -> Result<Option<Status>, Error> {
        match self.state {
            State::Pending(_) | State::Transferring(_) | State::Moving(_) => Ok(None),
            State::Done(outcome) => Ok(Some(outcome?)),
            State::Broken(error) => Err(error.into()),
        }
    }

    /// The status if the operation is over; makes progress otherwise.
    ///
    /// # Errors
    ///
    /// How the operation ended badly.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_TEST`.
    pub fn test(&mut self, world: &World) -> Result<Option<Status>, Error> {
        if !self.look(world) {
            world.poll()?;
            self.look(world);
        }
        self.status()
    }

    /// Waits for the end. A send's status names its destination.
    ///
    /// # Errors
    ///
    /// How the operation ended badly. It is over then, too.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_WAIT`.
    pub fn wait(&mut self, world: &World) -> Result<Status, Error> {
        let state = self.state;
        let what = || state.wait_of(world);
        if let Err(error) = world.wait_until(what, || self.look(world).then_some(())) {
            // No progress can be made, and what ends the claim on the buffer ends the operation.
            self.settle(world);
            return Err(error);
        }
        Ok(self.status()?.ok_or(Fault::Cancelled)?)
    }

    /// What the operation waits for.
    #[must_use]
    pub fn wait_of(&self, world: &World) -> Wait {
        self.state.wait_of(world)
    }

    /// Cancels a receive that no message has matched: see [`crate::Request::cancel`]. Says whether it did.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.4, `MPI_CANCEL`.
    pub fn cancel(&mut self, world: &World) -> bool {
        match self.state {
            State::Pending(id) => world.turn().cancel(id),
            _ => false,
        }
    }

    /// Ends the operation's claim on its buffer, and with it the operation, as [`crate::Scope`] describes.
    pub fn settle(&mut self, world: &World) {
        match self.state {
            State::Pending(id) => world.settle(id),
            State::Transferring(id) => world.settle_transfer(id),
            State::Moving(id) => world.settle_moving(id),
            State::Done(_) | State::Broken(_) => return,
        }
        self.state = State::Done(Err(Fault::Cancelled));
    }

    /// True when the operation is over. Makes no progress.
    pub fn look(&mut self, world: &World) -> bool {
        let ended = match self.state {
            State::Pending(id) => world.turn().test(id).map(State::Done),
            State::Moving(id) => world.test_moving(id).map(State::Done),
            State::Transferring(id) => world.test_transfer(id).map(|ended| match ended {
                Ok(status) => State::Done(Ok(status)),
                Err(Error::Fault(fault)) => State::Done(Err(fault)),
                Err(Error::Window(error)) => State::Broken(error),
                Err(_) => State::Done(Err(Fault::Cancelled)),
            }),
            State::Done(_) | State::Broken(_) => return true,
        };
        let Some(state) = ended else { return false };
        self.state = state;
        true
    }
}

impl Endpoint<'_> {
    /// Begins to send `data` to `destination`, as [`crate::Scope::isend`] does, for a caller who keeps the buffer.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// The bytes of `data` are valid for reads and stay unchanged until the operation is over, or the world gone.
    #[inline]
    pub unsafe fn begin_send(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.begin_send_as(Owner::UNSCOPED, data, destination, tag) }
    }

    /// As [`Endpoint::begin_send`], of the concatenation of `parts`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_send`], for each part and for the list itself.
    pub unsafe fn begin_send_vectored(
        &self,
        parts: &[Part],
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe {
            let data = Cursor::parts(parts);
            self.push_send(SendMode::Standard, Owner::UNSCOPED, data, destination, tag)
        }
    }

    /// As [`Endpoint::begin_send_vectored`], over not before the receive has begun, as [`crate::Scope::issend`].
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_send_vectored`].
    pub unsafe fn begin_ssend_vectored(
        &self,
        parts: &[Part],
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe {
            let data = Cursor::parts(parts);
            self.push_send(SendMode::Synchronous, Owner::UNSCOPED, data, destination, tag)
        }
    }

    /// The same of `data`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_send`].
    pub unsafe fn begin_ssend(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe {
            let data = Cursor::contiguous(data);
            self.push_send(SendMode::Synchronous, Owner::UNSCOPED, data, destination, tag)
        }
    }

    /// Begins to receive from `source` with `tag` into `buffer`, as [`crate::Scope::irecv`] does, for a caller who keeps the
    /// buffer.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`], for what is known at the start.
    ///
    /// # Safety
    ///
    /// The bytes of `buffer` are valid for writes and nobody else touches them until the operation is over, or the world gone.
    #[inline]
    pub unsafe fn begin_recv(
        &self,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.begin_recv_as(Owner::UNSCOPED, buffer, source, tag) }
    }

    /// As [`Endpoint::begin_recv`], into `parts`, one after the other.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::begin_recv`].
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv`], for each part and for the list itself.
    pub unsafe fn begin_recv_vectored(
        &self,
        parts: &[Part],
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.push_recv(Owner::UNSCOPED, Cursor::parts(parts), source, tag) }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::begin_send`].
    #[inline]
    pub(crate) unsafe fn begin_send_as(
        &self,
        owner: Owner,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let key = Key::new(self.context(), tag);
        // SAFETY: by the contract.
        let bytes = unsafe { core::slice::from_raw_parts(data.base.as_ptr(), data.length) };
        let sent = self.world().short_ways().send_short(destination, key, bytes);
        if self.world().wake_after(sent, destination) {
            let status = Status { source: destination, tag, bytes: bytes.len() };
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: by the contract.
        unsafe { self.begin_longer(owner, data, destination, tag) }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::begin_send`].
    #[inline(never)]
    unsafe fn begin_longer(
        &self,
        owner: Owner,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let key = Key::new(self.context(), tag);
        // SAFETY: by the contract.
        let bytes = unsafe { core::slice::from_raw_parts(data.base.as_ptr(), data.length) };
        let sent = self.world().short_ways().send_medium(destination, key, bytes);
        if self.world().wake_after(sent, destination) {
            let status = Status { source: destination, tag, bytes: bytes.len() };
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: by the contract.
        unsafe {
            let data = Cursor::contiguous(data);
            self.push_send(SendMode::Standard, owner, data, destination, tag)
        }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::begin_send_vectored`].
    pub(crate) unsafe fn push_send(
        &self,
        mode: SendMode,
        owner: Owner,
        data: Cursor,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let key = Key::new(self.context(), tag);
        let bytes = data.remaining();
        // SAFETY: by the contract; the engine's claim ends with the operation.
        let sent = unsafe { self.world().isend(mode, destination, key, data, owner) }?;
        Ok(match sent {
            Sent::Done => Unscoped::done(Ok(Status { source: destination, tag, bytes })),
            Sent::Pending(id) => Unscoped { state: State::Pending(id) },
        })
    }

    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv`].
    pub(crate) unsafe fn begin_recv_as(
        &self,
        owner: Owner,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let want = Want::new(self.context(), tag);
        let engine = self.world().short_ways();
        engine.serve_posted(source);
        // SAFETY: by the contract; what the short way receives it copies during the call.
        let bytes = unsafe { core::slice::from_raw_parts_mut(buffer.base.as_ptr(), buffer.length) };
        if let Bypass::Received(status) = engine.recv_short(source, want, bytes) {
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: by the contract.
        unsafe { self.push_recv(owner, Cursor::contiguous(buffer), source, tag) }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv_vectored`].
    pub(crate) unsafe fn push_recv(
        &self,
        owner: Owner,
        buffer: Cursor,
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let pattern = self.pattern(source, tag);
        // SAFETY: by the contract; the engine's claim ends with the operation.
        Ok(Unscoped::received(unsafe { self.world().irecv(pattern, buffer, owner) }?))
    }
}
