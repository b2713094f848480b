//! Sends and receives of messages that take several lines.

use strait_core::engine::{Bypass, SentShort, Status, Want};
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
}
