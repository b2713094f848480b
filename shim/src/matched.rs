//! Messages that a probe has matched.

use std::io::IoSliceMut;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::layout::{Call, Wait};
use strait_core::progress::{Cursor, MessageId, Owner, Part, Received, Status};

use crate::endpoint::{part_of_mut, probe_of, vectored};
use crate::{Endpoint, Error, Rank, Tag, Unscoped, World};

/// A message that [`Endpoint::mprobe`] or [`Endpoint::improbe`] has taken out of matching: no other receive or probe finds it, so
/// between the probe and the receive nobody takes it away, whatever threads there are above.
///
/// Dropped without being received, it goes back to matching, as if it came only now: the oldest receive that was posted meanwhile takes
/// it, if one matches; else it waits where it waited before. So nothing is lost, and no sender waits for ever.
///
/// If its sender dies before all of it could be had, receiving it ends with [`crate::Fault::PeerFailed`].
#[derive(Debug)]
#[must_use = "a message that is dropped goes back to matching"]
pub struct Message<'world> {
    world: &'world World,
    matched: Matched,
    /// A receive of it has begun.
    received: bool,
}

impl<'world> Message<'world> {
    const fn new(world: &'world World, matched: Matched) -> Self {
        Self { world, matched, received: false }
    }

    /// What the probe found: source, tag and length.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.matched.status
    }

    /// Receives it into `buffer`; waits until it is here.
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when it is longer than `buffer`, whose bytes then hold its beginning, or when its sender died;
    /// [`Error::Start`] for want of memory, and then it goes back to matching.
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.3, `MPI_MRECV`.
    pub fn recv<T: NoUninit + AnyBitPattern>(self, buffer: &mut [T]) -> Result<Status, Error> {
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        // SAFETY: `recv_into` ends its use of the cursor before it returns, and `buffer` is borrowed as long.
        unsafe { self.recv_into(Cursor::contiguous(buffer)) }
    }

    /// Receives it into `parts`, one after the other.
    ///
    /// # Errors
    ///
    /// As [`Message::recv`].
    pub fn recv_vectored(self, parts: &mut [IoSliceMut<'_>]) -> Result<Status, Error> {
        let parts = vectored(parts);
        // SAFETY: as in `recv`; the list lives as long, too.
        unsafe { self.recv_into(Cursor::parts(&parts)) }
    }

    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by nobody else until this returns.
    unsafe fn recv_into(mut self, buffer: Cursor) -> Result<Status, Error> {
        // SAFETY: by the contract.
        let received = unsafe { self.world.wait_mrecv(&self.matched, buffer) };
        self.received = !matches!(received, Err(Error::Start(_)));
        received
    }

    /// Begins to receive it, for a scope of `world`. One of another world is received at once.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv_vectored`].
    pub(crate) unsafe fn begin(
        mut self,
        world: &World,
        owner: Owner,
        buffer: Cursor,
    ) -> Result<Unscoped, Error> {
        if !core::ptr::eq(world, self.world) {
            // SAFETY: by the contract.
            let status = unsafe { self.recv_into(buffer) }?;
            return Ok(Unscoped::done(Ok(status)));
        }
        // SAFETY: by the contract.
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

/// As [`Message`], for interfaces of languages that know no borrows: dropping it does nothing. It is to be received once, or put back, in
/// the world in which it was matched, and not used after.
#[derive(Debug)]
#[must_use = "nobody else can receive the message"]
pub struct Matched {
    id: MessageId,
    status: Status,
}

impl Matched {
    /// As [`Message::status`].
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }
}

impl<'world> Endpoint<'world> {
    /// Waits until a message that matches has arrived, and takes it out of matching.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.2, `MPI_MPROBE`.
    pub fn mprobe(&self, source: Rank, tag: Tag) -> Result<Message<'world>, Error> {
        Ok(Message::new(self.world(), self.match_one(source, tag)?))
    }

    /// Takes a message that matches out of matching, if one has arrived.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §3.8.2, `MPI_IMPROBE`.
    pub fn improbe(&self, source: Rank, tag: Tag) -> Result<Option<Message<'world>>, Error> {
        let matched = self.try_to_match(source, tag)?;
        Ok(matched.map(|matched| Message::new(self.world(), matched)))
    }

    /// As [`Endpoint::mprobe`], for who gives the message back by hand.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::mprobe`].
    pub fn match_one(&self, source: Rank, tag: Tag) -> Result<Matched, Error> {
        let (world, pattern) = (self.world(), self.pattern(source, tag));
        world.await_from(source);
        let what = || probe_of(pattern);
        let found = world.wait_until(what, || world.turn().improbe(pattern).transpose())?;
        let (id, status) = found?;
        Ok(Matched { id, status })
    }

    /// As [`Endpoint::improbe`], likewise.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::improbe`].
    pub fn try_to_match(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error> {
        let (world, pattern) = (self.world(), self.pattern(source, tag));
        world.await_from(source);
        world.poll()?;
        let found = world.turn().improbe(pattern)?;
        Ok(found.map(|(id, status)| Matched { id, status }))
    }
}

impl World {
    /// As [`Message::recv`]. Unless it ends with [`Error::Start`], the message is received.
    ///
    /// # Errors
    ///
    /// As [`Message::recv`].
    pub fn mrecv(&self, message: &Matched, buffer: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: `wait_mrecv` ends its use of the cursor before it returns, and `buffer` is borrowed as long.
        unsafe { self.wait_mrecv(message, Cursor::contiguous(part_of_mut(buffer))) }
    }

    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by nobody else until this returns.
    unsafe fn wait_mrecv(&self, message: &Matched, buffer: Cursor) -> Result<Status, Error> {
        // SAFETY: `wait` ends the operation's claim before this returns.
        match unsafe { self.imrecv(message.id, buffer, Owner::BLOCKING) }? {
            Received::Done(outcome) => Ok(outcome?),
            Received::Pending(id) => Ok(self.wait(id)??),
        }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv_vectored`].
    unsafe fn start_mrecv(
        &self,
        message: &Matched,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract; the engine's claim ends with the operation.
        Ok(Unscoped::received(unsafe { self.imrecv(message.id, buffer, owner) }?))
    }

    /// Begins to receive a matched message into `buffer`, for a caller who keeps that. Unless this fails, the message is received.
    ///
    /// # Errors
    ///
    /// [`Error::Start`], for want of memory.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv`].
    pub unsafe fn begin_mrecv(&self, message: &Matched, buffer: Part) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.start_mrecv(message, Cursor::contiguous(buffer), Owner::UNSCOPED) }
    }

    /// The same into `parts`, one after the other.
    ///
    /// # Errors
    ///
    /// [`Error::Start`], for want of memory.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::begin_recv_vectored`].
    pub unsafe fn begin_mrecv_vectored(
        &self,
        message: &Matched,
        parts: &[Part],
    ) -> Result<Unscoped, Error> {
        // SAFETY: by the contract.
        unsafe { self.start_mrecv(message, Cursor::parts(parts), Owner::UNSCOPED) }
    }

    /// Gives a matched message back to matching, as dropping a [`Message`] does.
    pub fn put_back(&self, message: &Matched) {
        // Where there is no memory for it now, there will be when others are received. And if no progress can be made, nothing more is.
        let what = || Wait::new(Call::Settle);
        let _ = self.wait_until(what, || self.turn().motor().put_back(message.id).ok());
    }
}
