//! Sends and receives of messages that take several lines.

use strait_core::buffer::Part;
use strait_core::engine::{
    Bypass, Owner, ReceivedShort, RequestId, SentShort, Status, Ticket, Want,
};
use strait_core::matching::ANY_SOURCE;
use strait_core::sync::{finish_look, spin_hint};
use strait_core::wire::SHORT_MAX;
use strait_platform::Rank;
use strait_platform::backoff::{POLLS_PER_PROGRESS, POLLS_PER_QUEUE};

use crate::{Endpoint, Tag};

/// Number of short pauses, each of a few nanoseconds, between two looks for a message of several
/// lines.
const LONG_REST: u32 = 4;

impl Endpoint<'_> {
    /// Does the work of [`crate::raw::RawEndpoint::send_straight`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn send_straight(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        self.world().engine().send_straight(destination, self.key(tag), data)
    }

    /// Does the work of [`crate::raw::RawEndpoint::send_medium`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn send_medium(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        self.world().engine().send_medium(destination, self.key(tag), data)
    }

    /// Does the work of [`crate::raw::RawEndpoint::recv_straight`].
    #[inline(always)]
    pub(crate) fn recv_straight(
        &self,
        buffer: &mut [u8],
        source: Rank,
        tag: Tag,
    ) -> Option<Status> {
        let engine = self.world().engine();
        let found = engine.recv_straight(source, Want::exactly_of(self.key(tag)), buffer);
        if let Bypass::Received(status) = found {
            return Some(status);
        }
        // The message may be in the baton, or reach the end of the ring, or any tag is wanted.
        match engine.recv_medium(source, Want::of(self.key(tag)), buffer) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Waits a short time for a message. While no other packet can come, it polls only the baton
    /// and fastbox of its source (`[Nemesis07]` §3.3). Returns `None` when the message has not
    /// come, or has to be received in another way.
    #[inline(always)]
    pub(crate) fn poll_lines(&self, bytes: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        let (want, engine) = (Want::of(self.key(tag)), self.world().engine());
        let pattern = self.pattern(source, tag);
        let is_long = bytes.len() > SHORT_MAX;
        if is_long && let Some(status) = self.recv_straight(bytes, source, tag) {
            return Some(status);
        }
        // The short ways leave unexpected messages alone, and with them those of windows.
        let needs_rounds = self.world().needs_rounds();
        let has_messages_of_windows = || needs_rounds && engine.has_unexpected();
        let recv_lines = |bytes: &mut [u8], otherwise| {
            if needs_rounds { otherwise } else { engine.recv_lines(pattern, bytes) }
        };
        // A line without a message is looked at as seldom as possible: a look takes it from the
        // cache of the peer, which is about to write it.
        let is_empty = !is_long && source != ANY_SOURCE && !engine.has_next(source);
        if !is_empty || engine.has_unexpected() {
            match recv_lines(bytes, Bypass::Nothing) {
                Bypass::Received(status) => return Some(status),
                Bypass::Closed => return None,
                Bypass::Nothing => {}
            }
        }
        let (mut look, polls) = (0, self.world().spin().polls());
        loop {
            if look >= polls {
                if !self.world().yield_in_lines(look - polls, source) {
                    break;
                }
            } else if look % POLLS_PER_QUEUE != 0 {
                engine.prefetch_next(source, bytes.len());
                // The lines of a long message take longer to be written than a look.
                (0..if is_long { LONG_REST } else { 1 }).for_each(|_| finish_look());
            } else if engine.has_queued() {
                match engine.recv_queued(source, want, bytes) {
                    Bypass::Received(status) => return Some(status),
                    Bypass::Closed => break,
                    Bypass::Nothing => finish_look(),
                }
            } else if look % POLLS_PER_PROGRESS != 0 {
                finish_look();
            } else if engine.has_work_outside_lines()
                || has_messages_of_windows()
                || engine.others_have_lines(source)
            {
                break;
            } else {
                spin_hint();
            }
            look += 1;
            // What was received is returned at once. A status that is kept for the next round of
            // the loop is read in wider pieces than it was written, and waits for all writes.
            match engine.recv_short(source, want, bytes) {
                Bypass::Received(status) => return Some(status),
                Bypass::Nothing => continue,
                Bypass::Closed => {}
            }
            if let Some(status) = self.recv_straight(bytes, source, tag) {
                return Some(status);
            }
            match recv_lines(bytes, Bypass::Closed) {
                Bypass::Received(status) => return Some(status),
                Bypass::Closed => break,
                Bypass::Nothing => {}
            }
        }
        None
    }

    /// Waits a short time for a short message from any source, with shorter looks than
    /// [`Self::poll_lines`]. They are not for longer messages: they would take the lines from the
    /// peer that writes them.
    #[inline(always)]
    pub(crate) fn poll_short_from_any(&self, bytes: &mut [u8], tag: Tag) -> Option<Status> {
        let (want, world) = (Want::of(self.key(tag)), self.world());
        let engine = world.engine();
        if bytes.len() > SHORT_MAX || world.needs_rounds() || engine.has_unexpected() {
            return None;
        }
        for look in 1..world.spin().polls() {
            finish_look();
            match engine.recv_short_from_any(want, bytes) {
                Bypass::Received(status) => return Some(status),
                Bypass::Closed => return None,
                Bypass::Nothing => {}
            }
            if look % POLLS_PER_QUEUE == 0 && engine.has_queued() {
                return None;
            }
            if look % POLLS_PER_PROGRESS == 0 && engine.has_work_outside_lines() {
                return None;
            }
        }
        None
    }

    /// Does the work of [`crate::raw::RawEndpoint::recv_lines`].
    #[inline(always)]
    pub(crate) fn recv_lines(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        let world = self.world();
        if world.needs_rounds() {
            return None;
        }
        match world.engine().recv_lines(self.pattern(source, tag), buffer) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Does the work of [`crate::raw::RawEndpoint::recv_exactly_from_any`].
    #[inline(always)]
    pub(crate) fn recv_exactly_from_any<const BYTES: usize>(
        &self,
        buffer: &mut [u8; BYTES],
        tag: Tag,
    ) -> Option<Status> {
        let world = self.world();
        if world.needs_rounds() {
            return None;
        }
        world.engine().recv_exactly_from_any(Want::exactly_of(self.key(tag)), buffer)
    }

    /// Does the work of [`crate::raw::RawEndpoint::post_first`].
    ///
    /// # Safety
    ///
    /// The contract of [`strait_core::engine::Engine::post_first`] holds for the bytes of `buffer`.
    #[inline(always)]
    pub(crate) unsafe fn post_first(
        &self,
        owner: Owner,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> Option<(RequestId, Ticket)> {
        let world = self.world();
        if world.needs_rounds() {
            return None;
        }
        // SAFETY: the caller guarantees the same (contract of `post_first`).
        unsafe { world.engine().post_first(self.pattern(source, tag), buffer, owner) }
    }

    /// Starts a receive of a message that is short or arrives later, without a round of progress.
    ///
    /// # Safety
    ///
    /// The contract of [`strait_core::engine::Engine::irecv_short`] holds for the bytes of
    /// `buffer`.
    #[inline(always)]
    pub(crate) unsafe fn irecv_short(
        &self,
        owner: Owner,
        buffer: Part,
        source: Rank,
        tag: Tag,
    ) -> ReceivedShort {
        let world = self.world();
        if world.needs_rounds() {
            return ReceivedShort::Declined;
        }
        // SAFETY: the caller guarantees the same (contract of `irecv_short`).
        unsafe { world.engine().irecv_short(self.pattern(source, tag), buffer, owner) }
    }
}
