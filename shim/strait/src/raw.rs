//! What interfaces of other languages and other libraries need, and Rust programs do not.
//!
//! The functions here leave to their caller what [`Scope`](crate::Scope), [`crate::Message`] and
//! [`OwnedRequest`](crate::OwnedRequest) make the compiler check: that buffers stay valid, and that
//! each operation and each matched message is ended. The C interface is built on them.

use strait_core::buffer::Cursor;
use strait_core::engine::{Owner, SendMode, Status};
use strait_platform::Rank;

use crate::{Endpoint, Error, Tag, sealed};

pub use crate::collective::raw::RawBlocks;
pub use crate::collective::raw_group::RawGroup;
pub use crate::collective::{Operator, TypedOperator, in_pieces};
pub use crate::matched::Matched;
pub use crate::rdma_channel::RdmaChannel;
pub use crate::request::several::wait_for_one_of;
pub use crate::unscoped::Unscoped;

pub use crate::world::LoopRecord;
pub use matched::RawWorld;
pub use records::RawRecords;
pub use requests::RawRequests;
pub use strait_core::buffer::Part;
pub use strait_core::engine::{
    Bypass, LINES_FIRST, ReceivedShort, RequestId, SentShort, Ticket, Ticketed,
};
pub use strait_core::handles::{HandleSlot, SlotTable};
pub use strait_core::layout::{Communicator, ShortName};
pub use strait_core::matching::ANY_SOURCE;
pub use strait_core::wire::SHORT_MAX;
pub use windows::RawWindow;

mod matched;
mod records;
mod requests;
mod windows;

impl sealed::Sealed for Endpoint<'_> {}

/// Messages of an [`Endpoint`] without borrows.
pub trait RawEndpoint: sealed::Sealed {
    /// Sends `data` if a free line suffices. [`Endpoint::send`] tries this first. It serves
    /// interfaces to other languages. Depending on the result, the caller has to
    /// [wake](RawEndpoint::wake) the destination.
    #[must_use]
    fn send_short(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort;

    /// Wakes a rank that [sleeps](SentShort::ToSleeper).
    fn wake(&self, rank: Rank);

    /// Receives a message of exactly this length and tag if it is in the next line.
    /// [`Endpoint::recv`] tries a similar step first. It serves interfaces to other languages. With
    /// [`crate::ANY_TAG`] it receives nothing.
    fn recv_exactly<const BYTES: usize>(
        &self,
        buffer: &mut [u8; BYTES],
        source: Rank,
        tag: Tag,
    ) -> Option<Status>;

    /// Receives a message of at most [`SHORT_MAX`] bytes that fits `buffer`, if
    /// it is in the next line. It serves interfaces to other languages, which fall back to
    /// [`Endpoint::recv`]. With [`crate::ANY_TAG`] it receives nothing.
    fn recv_short(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status>;

    /// Receives a message that is unexpected and short, or lies in lines, from any source and with
    /// any tag. It serves interfaces to other languages, which fall back to [`Endpoint::recv`].
    fn recv_lines(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status>;

    /// Receives a message of exactly this length and tag from any source, if it is in a next line
    /// and no other message can be older. With [`crate::ANY_TAG`] it receives nothing.
    fn recv_exactly_from_any<const BYTES: usize>(
        &self,
        buffer: &mut [u8; BYTES],
        tag: Tag,
    ) -> Option<Status>;

    /// Waits a short time for a message as [`Endpoint::recv`] does before it posts the receive.
    /// Returns `None` when the message has not come, or has to be received in another way. It
    /// serves interfaces to other languages.
    fn poll_lines(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status>;

    /// Waits a short time for a message of at most [`SHORT_MAX`] bytes from any source. Its looks
    /// are shorter than those of [`RawEndpoint::poll_lines`], which goes on after `None`.
    fn poll_short_from_any(&self, buffer: &mut [u8], tag: Tag) -> Option<Status>;

    /// Describes the message that a receive would get, if it lies in lines and no other can be
    /// older. It stays where it is. `None`: [`Endpoint::iprobe`] may find one.
    fn probe_lines(&self, source: Rank, tag: Tag) -> Option<Status>;

    /// Waits a short time until [`RawEndpoint::probe_lines`] finds a message. `None`:
    /// [`Endpoint::probe`] goes on.
    fn poll_probe(&self, source: Rank, tag: Tag) -> Option<Status>;

    /// Posts a receive like [`RawEndpoint::begin_recv`], if it is the only one and nothing else has
    /// to be done. `None`: nothing was posted, and [`RawEndpoint::begin_recv_short`] starts it.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_recv`].
    unsafe fn post_first(
        &self,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Option<(RequestId, Ticket)>;

    /// Starts a receive like [`RawEndpoint::begin_recv`], if its message is short or arrives later.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_recv`].
    unsafe fn begin_recv_short(&self, buffer: Part, source: Rank, tag: Tag) -> ReceivedShort;

    /// Sends `data` of more than [`SHORT_MAX`] and at most [`LINES_FIRST`] bytes if free lines
    /// suffice, as [`RawEndpoint::send_short`] sends shorter messages.
    #[must_use]
    fn send_straight(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort;

    /// Sends `data` if the short paths have room, also where [`RawEndpoint::send_short`] and
    /// [`RawEndpoint::send_straight`] stop: at the end of the ring, or to look at the credit.
    #[must_use]
    fn send_medium(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort;

    /// Sends `data` by [`RawEndpoint::send_medium`], for which it waits a short time while the
    /// receiver takes packets, as [`Endpoint::send`] does. Wakes the destination if it sleeps.
    /// Returns whether the message was sent.
    #[must_use]
    fn send_soon(&self, data: &[u8], destination: Rank, tag: Tag) -> bool;

    /// Receives a message of at most [`LINES_FIRST`] bytes that fits `buffer`, if it is in the next
    /// lines, as [`RawEndpoint::recv_short`] receives shorter messages.
    fn recv_straight(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status>;

    /// Starts a send of `data` to `destination` like [`crate::Scope::isend`], for a caller that
    /// keeps the buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// The bytes of `data` stay valid for reads and unchanged until the operation is over, or the
    /// world is gone.
    unsafe fn begin_send(&self, data: Part, destination: Rank, tag: Tag)
    -> Result<Unscoped, Error>;

    /// Starts a send like [`RawEndpoint::begin_send`], for a caller to which
    /// [`RawEndpoint::send_medium`] has just said no.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_send`].
    unsafe fn begin_send_after_medium(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error>;

    /// Starts a send of the concatenation of `parts`, like [`RawEndpoint::begin_send`].
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_send`], for each part and for the
    /// list itself.
    unsafe fn begin_send_vectored(
        &self,
        parts: &[Part],
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error>;

    /// Starts a synchronous send of `data`. The operation is over after the matching receive has
    /// started.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_send`].
    unsafe fn begin_ssend(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error>;

    /// Starts a synchronous send of the concatenation of `parts`. The operation is over after the
    /// matching receive has started, as in [`crate::Scope::issend`].
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::send`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_send_vectored`].
    unsafe fn begin_ssend_vectored(
        &self,
        parts: &[Part],
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error>;

    /// Starts a receive from `source` with `tag` into `buffer` like [`crate::Scope::irecv`], for a
    /// caller that keeps the buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::recv`], for what is known at the start.
    ///
    /// # Safety
    ///
    /// The bytes of `buffer` stay valid for writes, and nothing else accesses them, until the
    /// operation is over, or the world is gone.
    unsafe fn begin_recv(&self, buffer: Part, source: Rank, tag: Tag) -> Result<Unscoped, Error>;

    /// Starts a receive like [`RawEndpoint::begin_recv`], into `parts`, one after the other.
    ///
    /// # Errors
    ///
    /// The errors of [`RawEndpoint::begin_recv`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`RawEndpoint::begin_recv`], for each part and for the
    /// list itself.
    unsafe fn begin_recv_vectored(
        &self,
        parts: &[Part],
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error>;

    /// Matches a message like [`Endpoint::mprobe`], for callers that put it back explicitly.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::mprobe`].
    fn match_one(&self, source: Rank, tag: Tag) -> Result<Matched, Error>;

    /// Matches a message like [`Endpoint::improbe`], for callers that put it back explicitly.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::improbe`].
    fn try_to_match(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error>;

    /// Describes a matching message like [`Endpoint::iprobe`], without progress. It is for
    /// loops that make progress themselves.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::iprobe`].
    fn find_arrived(&self, source: Rank, tag: Tag) -> Result<Option<Status>, Error>;

    /// Matches a message like [`RawEndpoint::try_to_match`], without progress.
    ///
    /// # Errors
    ///
    /// The errors of [`Endpoint::improbe`].
    fn match_arrived(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error>;
}

impl RawEndpoint for Endpoint<'_> {
    #[inline(always)]
    fn send_short(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        Endpoint::send_short(self, data, destination, tag)
    }

    #[inline(always)]
    fn wake(&self, rank: Rank) {
        Endpoint::wake(self, rank);
    }

    #[inline(always)]
    fn recv_exactly<const BYTES: usize>(
        &self,
        buffer: &mut [u8; BYTES],
        source: Rank,
        tag: Tag,
    ) -> Option<Status> {
        Endpoint::recv_exactly(self, buffer, source, tag)
    }

    #[inline(always)]
    fn recv_short(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        Endpoint::recv_short(self, buffer, source, tag)
    }

    #[inline(always)]
    fn recv_lines(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        Endpoint::recv_lines(self, buffer, source, tag)
    }

    #[inline(always)]
    fn recv_exactly_from_any<const BYTES: usize>(
        &self,
        buffer: &mut [u8; BYTES],
        tag: Tag,
    ) -> Option<Status> {
        Endpoint::recv_exactly_from_any(self, buffer, tag)
    }

    #[inline(always)]
    fn poll_lines(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        Endpoint::poll_lines(self, buffer, source, tag)
    }

    #[inline(always)]
    fn probe_lines(&self, source: Rank, tag: Tag) -> Option<Status> {
        Endpoint::probe_lines(self, source, tag)
    }

    #[inline(always)]
    fn poll_probe(&self, source: Rank, tag: Tag) -> Option<Status> {
        Endpoint::poll_probe(self, source, tag)
    }

    #[inline(always)]
    fn poll_short_from_any(&self, buffer: &mut [u8], tag: Tag) -> Option<Status> {
        Endpoint::poll_short_from_any(self, buffer, tag)
    }

    #[inline(always)]
    unsafe fn post_first(
        &self,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Option<(RequestId, Ticket)> {
        // SAFETY: the caller guarantees the same (contract of `post_first`), and the engine's claim
        // ends with the operation.
        unsafe { self.post_first(Owner::UNSCOPED, buffer, source, tag) }
    }

    #[inline(always)]
    unsafe fn begin_recv_short(&self, buffer: Part, source: Rank, tag: Tag) -> ReceivedShort {
        // SAFETY: the caller guarantees the same (contract of `begin_recv_short`), and the engine's
        // claim ends with the operation.
        unsafe { self.irecv_short(Owner::UNSCOPED, buffer, source, tag) }
    }

    #[inline(always)]
    fn send_straight(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        Endpoint::send_straight(self, data, destination, tag)
    }

    #[inline(always)]
    fn send_medium(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        Endpoint::send_medium(self, data, destination, tag)
    }

    fn send_soon(&self, data: &[u8], destination: Rank, tag: Tag) -> bool {
        self.world().send_medium(destination, self.key(tag), data)
    }

    #[inline(always)]
    fn recv_straight(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        Endpoint::recv_straight(self, buffer, source, tag)
    }

    #[inline(always)]
    unsafe fn begin_send(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_send`).
        unsafe { Endpoint::begin_send(self, data, destination, tag) }
    }

    unsafe fn begin_send_after_medium(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_send_after_medium`).
        unsafe {
            let data = Cursor::contiguous(data);
            self.push_send(SendMode::Standard, Owner::UNSCOPED, data, destination, tag)
        }
    }

    #[inline(always)]
    unsafe fn begin_send_vectored(
        &self,
        parts: &[Part],
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_send_vectored`).
        unsafe {
            let data = Cursor::parts(parts);
            self.push_send(SendMode::Standard, Owner::UNSCOPED, data, destination, tag)
        }
    }

    #[inline(always)]
    unsafe fn begin_ssend(
        &self,
        data: Part,
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_ssend`).
        unsafe {
            let data = Cursor::contiguous(data);
            self.push_send(SendMode::Synchronous, Owner::UNSCOPED, data, destination, tag)
        }
    }

    #[inline(always)]
    unsafe fn begin_ssend_vectored(
        &self,
        parts: &[Part],
        destination: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_ssend_vectored`).
        unsafe {
            let data = Cursor::parts(parts);
            self.push_send(SendMode::Synchronous, Owner::UNSCOPED, data, destination, tag)
        }
    }

    #[inline(always)]
    unsafe fn begin_recv(&self, buffer: Part, source: Rank, tag: Tag) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_recv`).
        unsafe { Endpoint::begin_recv(self, buffer, source, tag) }
    }

    #[inline(always)]
    unsafe fn begin_recv_vectored(
        &self,
        parts: &[Part],
        source: Rank,
        tag: Tag,
    ) -> Result<Unscoped, Error> {
        // SAFETY: the caller guarantees the same (contract of `begin_recv_vectored`).
        unsafe { self.push_recv(Owner::UNSCOPED, Cursor::parts(parts), source, tag) }
    }

    #[inline(always)]
    fn match_one(&self, source: Rank, tag: Tag) -> Result<Matched, Error> {
        Endpoint::match_one(self, source, tag)
    }

    #[inline(always)]
    fn try_to_match(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error> {
        Endpoint::try_to_match(self, source, tag)
    }

    #[inline(always)]
    fn find_arrived(&self, source: Rank, tag: Tag) -> Result<Option<Status>, Error> {
        Endpoint::find_arrived(self, source, tag)
    }

    #[inline(always)]
    fn match_arrived(&self, source: Rank, tag: Tag) -> Result<Option<Matched>, Error> {
        Endpoint::match_arrived(self, source, tag)
    }
}
