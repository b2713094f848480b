//! Matched messages, which a probe has taken out of matching.

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{MessageId, Owner, Received, Status};
use strait_core::layout::{Call, Wait};
use strait_platform::Rank;

use crate::buffer::{RecvBuffer, part_of_mut};
use crate::endpoint::probe_of;
use crate::world::number::WorldNumber;
use crate::{Endpoint, Error, Source, Tag, Unscoped, World};

/// A message that [`Endpoint::mprobe`] or [`Endpoint::improbe`] has taken out of matching. No other
/// receive or probe finds it, so no thread can take it between the probe and the receive.
///
/// A message that is dropped without a receive goes back to matching, as if it arrived only now.
/// The oldest matching receive that was posted meanwhile takes it. Without such a receive, it waits
/// in its old place. So no message is lost, and no sender waits for ever.
///
/// If the sender dies before the whole message was available, its receive ends with
/// [`crate::Fault::PeerFailed`].
#[derive(Debug)]
#[must_use = "a message that is dropped goes back to matching"]
pub struct Message<'world> {
    world: &'world World,
    matched: Matched,
    /// A receive of the message has started.
    received: bool,
}

impl<'world> Message<'world> {
    const fn new(world: &'world World, matched: Matched) -> Self {
        Self { world, matched, received: false }
    }

    /// Returns what the probe found: source, tag and length.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.matched.status
    }

    /// Receives the message into `buffer`, and waits until it has arrived.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let message = endpoint.mprobe(1, 0)?;
    ///     let mut bytes = vec![0_u8; message.status().bytes];
    ///     message.recv(&mut bytes)?;
    ///     assert_eq!(bytes, b"data");
    /// } else {
    ///     endpoint.send(b"data", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when the message is longer than `buffer`, which then holds its beginning,
    /// or when the sender died; [`Error::Start`] for lack of memory, and then the message goes back
    /// to matching.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.3, `MPI_MRECV`.
    pub fn recv<B: RecvBuffer + ?Sized>(self, buffer: &mut B) -> Result<Status, Error> {
        // SAFETY: `recv_into` ends its use of the cursor before it returns, and `buffer` is
        // borrowed as long.
        unsafe { self.recv_into(buffer.bytes_mut().cursor()) }
    }

    /// # Safety
    ///
    /// The bytes of `buffer` stay valid, and nothing else accesses them, until this returns.
    unsafe fn recv_into(mut self, buffer: Cursor) -> Result<Status, Error> {
        // SAFETY: the caller guarantees the same (contract of `recv_into`).
        let received = unsafe { self.world.wait_mrecv(&self.matched, buffer) };
        self.received = !matches!(received, Err(Error::Start(_)));
        received
    }

    /// Starts the receive of the message, for a scope of `world`. A message of another world is
    /// received at once.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Endpoint::begin_recv_vectored`].
    pub(crate) unsafe fn begin(
        mut self,
        world: &World,
        owner: Owner,
        buffer: Cursor,
    ) -> Result<Unscoped, Error> {
        if !core::ptr::eq(world, self.world) {
            // SAFETY: the caller guarantees the same (contract of `begin`).
            let status = unsafe { self.recv_into(buffer) }?;
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: the caller guarantees the same (contract of `begin`).
        let begun = unsafe { world.start_mrecv(&self.matched, buffer, owner) }?;
        self.received = true;
        Ok(begun)
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        if !self.received {
            self.world.put_back(&self.matched);
        }
    }
}

/// A matched message like [`Message`], for interfaces of languages without borrows. Dropping it
/// does nothing. The caller receives it or puts it back once, in the world that matched it, and
/// does not use it afterwards. With another world it fails.
#[derive(Debug)]
#[must_use = "no other receive finds the message"]
pub struct Matched {
    world: WorldNumber,
    id: MessageId,
    status: Status,
}

impl Matched {
    /// Returns what the probe found: source, tag and length.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }
}

impl<'world> Endpoint<'world> {
    /// Waits until a matching message has arrived, and takes it out of matching.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::{ANY_TAG, Source};
    /// if world.rank() == 0 {
    ///     let message = endpoint.mprobe(Source::Any, ANY_TAG)?;
    ///     assert_eq!((message.status().tag, message.status().bytes), (7, 4));
    ///     message.recv(&mut [0_u8; 4])?;
    /// } else {
    ///     endpoint.send(b"data", 0, 7)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.2, `MPI_MPROBE`.
    pub fn mprobe(&self, source: impl Into<Source>, tag: Tag) -> Result<Message<'world>, Error> {
        Ok(Message::new(self.world(), self.match_one(source.into().number(), tag)?))
    }

    /// Takes a matching message out of matching, if one has arrived.
    ///
    /// ```
    /// # strait::World::run_in_process(2, |world| {
    /// # let endpoint = world.endpoint();
    /// if world.rank() == 0 {
    ///     let message = loop {
    ///         if let Some(message) = endpoint.improbe(1, 0)? {
    ///             break message;
    ///         }
    ///         // Compute something else.
    ///     };
    ///     message.recv(&mut [0_u8; 4])?;
    /// } else {
    ///     endpoint.send(b"data", 0, 0)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.2, `MPI_IMPROBE`.
    pub fn improbe(
        &self,
        source: impl Into<Source>,
        tag: Tag,
    ) -> Result<Option<Message<'world>>, Error> {
        let matched = self.try_to_match(source.into().number(), tag)?;
        Ok(matched.map(|matched| Message::new(self.world(), matched)))
    }

    /// Does the work of [`crate::raw::RawEndpoint::match_one`].
    pub(crate) fn match_one(&self, source: Rank, tag: Tag) -> Result<Matched, Error> {
        let (world, pattern) = (self.world(), self.pattern(source, tag));
        world.await_from(source);
        let what = || probe_of(pattern);
        let found =
            world.wait_until(what, || world.lock_progress().improbe(pattern).transpose())?;
        let (id, status) = found?;
        Ok(Matched { world: world.number(), id, status })
    }

    /// Does the work of [`crate::raw::RawEndpoint::try_to_match`].
    pub(crate) fn try_to_match(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error> {
        self.world().await_from(source);
        self.world().poll()?;
        self.match_arrived(source, tag)
    }

    /// Does the work of [`crate::raw::RawEndpoint::match_arrived`].
    pub(crate) fn match_arrived(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error> {
        let (world, pattern) = (self.world(), self.pattern(source, tag));
        let found = world.lock_progress().improbe(pattern)?;
        Ok(found.map(|(id, status)| Matched { world: world.number(), id, status }))
    }
}

impl World {
    /// Does the work of [`crate::raw::RawWorld::mrecv`].
    pub(crate) fn mrecv(&self, message: &Matched, buffer: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: `wait_mrecv` ends its use of the cursor before it returns, and `buffer` is
        // borrowed as long.
        unsafe { self.wait_mrecv(message, Cursor::contiguous(part_of_mut(buffer))) }
    }

    /// # Safety
    ///
    /// The bytes of `buffer` stay valid, and nothing else accesses them, until this returns.
    unsafe fn wait_mrecv(&self, message: &Matched, buffer: Cursor) -> Result<Status, Error> {
        message.world.check(self.number())?;
        // SAFETY: `wait` ends the operation's claim before this returns.
        match unsafe { self.imrecv(message.id, buffer, Owner::BLOCKING) }? {
            Received::Done(outcome) => Ok(outcome?),
            Received::Pending(id) => Ok(self.wait(id)??),
        }
    }

    /// # Safety
    ///
    /// The caller guarantees the contract of [`Endpoint::begin_recv_vectored`].
    unsafe fn start_mrecv(
        &self,
        message: &Matched,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Unscoped, Error> {
        message.world.check(self.number())?;
        // SAFETY: the caller guarantees the same (contract of `start_mrecv`), and the engine's
        // claim ends with the operation.
        let received = unsafe { self.imrecv(message.id, buffer, owner) }?;
        Ok(Unscoped::received(self, received))
    }

    /// Does the work of [`crate::raw::RawWorld::begin_mrecv`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(crate) unsafe fn begin_mrecv(
        &self,
        message: &Matched,
        buffer: Part,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_mrecv`).
        unsafe { self.start_mrecv(message, Cursor::contiguous(buffer), Owner::UNSCOPED) }
    }

    /// Does the work of [`crate::raw::RawWorld::begin_mrecv_vectored`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of that function.
    pub(crate) unsafe fn begin_mrecv_vectored(
        &self,
        message: &Matched,
        parts: &[Part],
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_mrecv_vectored`).
        unsafe { self.start_mrecv(message, Cursor::parts(parts), Owner::UNSCOPED) }
    }

    /// Does the work of [`crate::raw::RawWorld::put_back`].
    pub(crate) fn put_back(&self, message: &Matched) {
        assert_eq!(message.world, self.number(), "a message goes back to the world of its probe");
        // Memory that is missing now becomes free when other messages are received. If no progress
        // can be made, no message can be received any more.
        let what = || Wait::new(Call::Settle);
        let _ = self.wait_until(what, || self.lock_progress().context().put_back(message.id).ok());
    }
}
