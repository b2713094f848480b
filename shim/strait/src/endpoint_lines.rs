//! Sends and receives of messages that take several lines.

use strait_core::buffer::Part;
use strait_core::engine::{Bypass, Owner, ReceivedShort, SentShort, Status, Want};
use strait_core::wire::Key;
use strait_platform::Rank;

use crate::{Endpoint, Tag};

impl Endpoint<'_> {
    /// Does the work of [`crate::raw::RawEndpoint::send_straight`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn send_straight(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        self.world().engine().send_straight(destination, Key::new(self.context(), tag), data)
    }

    /// Does the work of [`crate::raw::RawEndpoint::send_medium`].
    #[inline(always)]
    #[must_use]
    pub(crate) fn send_medium(&self, data: &[u8], destination: Rank, tag: Tag) -> SentShort {
        self.world().engine().send_medium(destination, Key::new(self.context(), tag), data)
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
        let found = engine.recv_straight(source, Want::exactly(self.context(), tag), buffer);
        if let Bypass::Received(status) = found {
            return Some(status);
        }
        // The message may be in the baton, or reach the end of the ring, or any tag is wanted.
        match engine.recv_medium(source, Want::new(self.context(), tag), buffer) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Does the work of [`crate::raw::RawEndpoint::recv_lines`].
    #[inline(always)]
    pub(crate) fn recv_lines(&self, buffer: &mut [u8], source: Rank, tag: Tag) -> Option<Status> {
        let world = self.world();
        if world.serves_windows() {
            return None;
        }
        match world.engine().recv_lines(self.pattern(source, tag), buffer) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
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
        if world.serves_windows() {
            return ReceivedShort::Declined;
        }
        // SAFETY: the caller guarantees the same (contract of `irecv_short`).
        unsafe { world.engine().irecv_short(self.pattern(source, tag), buffer, owner) }
    }
}
