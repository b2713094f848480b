//! Operations outside scopes: the base of scopes, and of interfaces of languages without borrows.

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{
    Fault, Outcome, Owner, Received, ReceivedShort, RequestId, SendMode, Sent, Status,
};
use strait_core::layout::{Call, Wait};
use strait_platform::Rank;

mod state;

use crate::network::TransferId;
use crate::{Endpoint, Error, Tag, World};
use state::{OpenOperation, OperationState};

/// An operation that has started: a send, a receive, a put or a get.
///
/// The code that started it keeps the buffer valid until the operation [is
/// over](Unscoped::is_over). Dropping this value ends nothing. It is used with the world in which
/// it was started; with another one it fails. Prefer [`crate::Scope`], where the compiler checks
/// the buffer.
#[derive(Debug)]
#[must_use = "the operation goes on, and its outcome is lost"]
pub struct Unscoped {
    state: OperationState,
}

impl Unscoped {
    pub(crate) const fn done(outcome: Outcome) -> Self {
        Self { state: OperationState::Done(outcome) }
    }

    const fn open(world: &World, operation: OpenOperation) -> Self {
        Self { state: OperationState::Open(world.number(), operation) }
    }

    #[inline]
    pub(crate) const fn received(world: &World, received: Received) -> Self {
        match received {
            Received::Done(outcome) => Self::done(outcome),
            Received::Pending(id) => Self::open(world, OpenOperation::Message(id)),
        }
    }

    pub(crate) const fn transferring(world: &World, id: TransferId) -> Self {
        Self::open(world, OpenOperation::Transfer(id))
    }

    /// Returns this operation of `world` as a message for a window. Such messages are waited for
    /// where others are cancelled.
    pub(crate) fn moving(self, world: &World, owner: Owner) -> Self {
        let OperationState::Open(_, OpenOperation::Message(id)) = self.state else { return self };
        world.with_baselines(|all| all.keep(owner, id));
        Self::open(world, OpenOperation::WindowMessage(id))
    }

    /// Returns the operation of `world` that has this request, which ends when the operation is
    /// known to be over.
    pub const fn of_request(world: &World, request: RequestId) -> Self {
        Self::open(world, OpenOperation::Message(request))
    }

    /// Returns the request of a message that goes on.
    #[must_use]
    pub const fn request(&self) -> Option<RequestId> {
        match self.state {
            OperationState::Open(_, OpenOperation::Message(id)) => Some(id),
            _ => None,
        }
    }

    /// Returns the outcome of an operation that is over, unless it ended without one.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match self.state {
            OperationState::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns true when the operation is over and its buffer is the caller's again.
    #[inline]
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self.state, OperationState::Open(..))
    }

    /// Returns the operation while it goes on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherWorld`] when it goes on in another world than `world`.
    fn open_in(&self, world: &World) -> Result<Option<OpenOperation>, Error> {
        let OperationState::Open(number, operation) = self.state else { return Ok(None) };
        number.check(world.number())?;
        Ok(Some(operation))
    }

    /// Returns the status if the operation is known to be over, without making progress.
    ///
    /// # Errors
    ///
    /// The cause, when the operation failed.
    #[inline]
    pub fn status(&self) -> Result<Option<Status>, Error> {
        match self.state {
            OperationState::Open(..) => Ok(None),
            OperationState::Done(outcome) => Ok(Some(outcome?)),
            OperationState::Broken(cause) => Err(cause.into()),
        }
    }

    /// Returns the status if the operation is over. Otherwise makes progress.
    ///
    /// # Errors
    ///
    /// The cause, when the operation failed; [`Error::OtherWorld`] when it was started in another
    /// world.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_TEST`.
    pub fn test(&mut self, world: &World) -> Result<Option<Status>, Error> {
        self.open_in(world)?;
        if !self.look(world) {
            world.poll()?;
            self.look(world);
        }
        self.status()
    }

    /// Waits for the operation to complete. The status of a send names its destination.
    ///
    /// # Errors
    ///
    /// The cause, when the operation failed. The operation is then over, too.
    /// [`Error::OtherWorld`] when it was started in another world, and then it goes on.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.7.3, `MPI_WAIT`.
    pub fn wait(&mut self, world: &World) -> Result<Status, Error> {
        if let Some(operation) = self.open_in(world)? {
            if let OpenOperation::Message(id) = operation
                && let Some(status) = world.wait_for_lines(id)
            {
                self.state = OperationState::Done(Ok(status));
                return Ok(status);
            }
            let what = || operation.wait_of(world);
            if let Err(error) = world.wait_until(what, || self.look(world).then_some(())) {
                // No progress can be made, so the operation ends together with the claim on its
                // buffer.
                self.end(world, OperationState::ended_by(&error));
                return Err(error);
            }
        }
        Ok(self.status()?.ok_or(Fault::Cancelled)?)
    }

    /// Returns the description of a wait for this operation.
    #[must_use]
    pub fn wait_of(&self, world: &World) -> Wait {
        match self.open_in(world) {
            Ok(Some(operation)) => operation.wait_of(world),
            _ => Wait::new(Call::Request),
        }
    }

    /// Cancels a receive without a matched message, as [`crate::Request::cancel`] does. Returns
    /// whether it did. Returns false for an operation of another world.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.4, `MPI_CANCEL`.
    pub fn cancel(&mut self, world: &World) -> bool {
        match self.open_in(world) {
            Ok(Some(OpenOperation::Message(id))) => world.lock_progress().cancel(id),
            _ => false,
        }
    }

    /// Ends the operation and its claim on the buffer, as [`crate::Scope`] describes.
    ///
    /// # Panics
    ///
    /// When the operation goes on in another world than `world`: its claim cannot end here.
    pub fn settle(&mut self, world: &World) {
        self.end(world, OperationState::Done(Err(Fault::Cancelled)));
    }

    /// Ends the operation's claim on the buffer. The operation is then in this state.
    fn end(&mut self, world: &World, state: OperationState) {
        match self.open_in(world) {
            Ok(Some(OpenOperation::Message(id))) => world.settle(id),
            Ok(Some(OpenOperation::Transfer(id))) => world.settle_transfer(id),
            Ok(Some(OpenOperation::WindowMessage(id))) => world.settle_moving(id),
            Ok(None) => return,
            Err(error) => panic!("{error}"),
        }
        self.state = state;
    }

    /// Returns true when the operation is over. Makes no progress. An operation that goes on in
    /// another world than `world` is not over.
    pub fn look(&mut self, world: &World) -> bool {
        let ended = match self.open_in(world) {
            Ok(Some(OpenOperation::Message(id))) => {
                world.lock_progress().test(id).map(OperationState::Done)
            }
            Ok(Some(OpenOperation::WindowMessage(id))) => {
                world.test_moving(id).map(OperationState::Done)
            }
            Ok(Some(OpenOperation::Transfer(id))) => {
                world.test_transfer(id).map(|ended| match ended {
                    Ok(status) => OperationState::Done(Ok(status)),
                    Err(error) => OperationState::ended_by(&error),
                })
            }
            Ok(None) => return true,
            Err(_) => return false,
        };
        let Some(state) = ended else { return false };
        self.state = state;
        true
    }
}

impl Endpoint<'_> {
    /// Does the work of [`crate::raw::RawEndpoint::begin_send`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    #[inline]
    pub(crate) unsafe fn begin_send(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_send`).
        unsafe { self.begin_send_as(Owner::UNSCOPED, data, destination, tag) }
    }

    /// Does the work of [`crate::raw::RawEndpoint::begin_recv`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    #[inline]
    pub(crate) unsafe fn begin_recv(
        &self,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_recv`).
        unsafe { self.begin_recv_as(Owner::UNSCOPED, buffer, source, tag) }
    }

    /// # Safety
    ///
    /// The caller guarantees the contract of [`Endpoint::begin_send`].
    #[inline]
    pub(crate) unsafe fn begin_send_as(
        &self,
        owner: Owner,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let key = self.key(tag);
        // SAFETY: the caller guarantees the same (contract of `begin_send_as`).
        let bytes = unsafe { core::slice::from_raw_parts(data.base.as_ptr(), data.length) };
        let sent = self.world().engine().send_short(destination, key, bytes);
        if self.world().wake_after(sent, destination) {
            let status = Status { source: destination, tag, bytes: bytes.len() };
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: the caller guarantees the same (contract of `begin_send_as`).
        unsafe { self.begin_longer(owner, data, destination, tag) }
    }

    /// # Safety
    ///
    /// The caller guarantees the contract of [`Endpoint::begin_send`].
    #[inline(never)]
    unsafe fn begin_longer(
        &self,
        owner: Owner,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let key = self.key(tag);
        // SAFETY: the caller guarantees the same (contract of `begin_longer`).
        let bytes = unsafe { core::slice::from_raw_parts(data.base.as_ptr(), data.length) };
        let sent = self.world().engine().send_medium(destination, key, bytes);
        if self.world().wake_after(sent, destination) {
            let status = Status { source: destination, tag, bytes: bytes.len() };
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: the caller guarantees the same (contract of `begin_longer`).
        unsafe {
            let data = Cursor::contiguous(data);
            self.push_send(SendMode::Standard, owner, data, destination, tag)
        }
    }

    /// # Safety
    ///
    /// The caller guarantees the contract of [`crate::raw::RawEndpoint::begin_send_vectored`].
    pub(crate) unsafe fn push_send(
        &self,
        mode: SendMode,
        owner: Owner,
        data: Cursor,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let key = self.key(tag);
        let bytes = data.remaining();
        // SAFETY: the caller guarantees the same (contract of `push_send`), and the engine's claim
        // ends with the operation.
        let sent = unsafe { self.world().isend(mode, destination, key, data, owner) }?;
        Ok(match sent {
            Sent::Done => Unscoped::done(Ok(Status { source: destination, tag, bytes })),
            Sent::Pending(id) => Unscoped::open(self.world(), OpenOperation::Message(id)),
        })
    }

    /// # Safety
    ///
    /// The caller guarantees the contract of [`Endpoint::begin_recv`].
    pub(crate) unsafe fn begin_recv_as(
        &self,
        owner: Owner,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_recv_as`).
        match unsafe { self.irecv_short(owner, buffer, source, tag) } {
            ReceivedShort::Done(status) => return Ok(Unscoped::done(Ok(status))),
            ReceivedShort::Pending(id, _) => return Ok(Unscoped::of_request(self.world(), id)),
            ReceivedShort::Declined => {}
        }
        // SAFETY: the caller guarantees the same (contract of `begin_recv_as`).
        unsafe { self.push_recv(owner, Cursor::contiguous(buffer), source, tag) }
    }

    /// # Safety
    ///
    /// The caller guarantees the contract of [`crate::raw::RawEndpoint::begin_recv_vectored`].
    pub(crate) unsafe fn push_recv(
        &self,
        owner: Owner,
        buffer: Cursor,
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        let pattern = self.pattern(source, tag);
        // SAFETY: the caller guarantees the same (contract of `push_recv`), and the engine's claim
        // ends with the operation.
        let received = unsafe { self.world().irecv(pattern, buffer, owner) }?;
        Ok(Unscoped::received(self.world(), received))
    }
}

#[cfg(test)]
mod tests;
