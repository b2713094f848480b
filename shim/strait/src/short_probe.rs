//! Probes that look at lines alone, which are shorter than rounds of progress.

use strait_core::engine::{Bypass, Status, Want};
use strait_core::sync::finish_look;
use strait_platform::Rank;
use strait_platform::backoff::{POLLS_PER_PROGRESS, POLLS_PER_QUEUE};

use crate::{Endpoint, Tag};

impl Endpoint<'_> {
    /// Does the work of [`crate::raw::RawEndpoint::probe_lines`].
    #[inline(always)]
    pub(crate) fn probe_lines(&self, source: Rank, tag: Tag) -> Option<Status> {
        match self.world().engine().probe_lines(source, Want::of(self.key(tag))) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing | Bypass::Closed => None,
        }
    }

    /// Does the work of [`crate::raw::RawEndpoint::poll_probe`].
    #[inline(always)]
    pub(crate) fn poll_probe(&self, source: Rank, tag: Tag) -> Option<Status> {
        let (want, world) = (Want::of(self.key(tag)), self.world());
        let engine = world.engine();
        for look in 0..world.spin().polls() {
            match engine.probe_lines(source, want) {
                Bypass::Received(status) => return Some(status),
                Bypass::Closed => return None,
                Bypass::Nothing => {}
            }
            if look % POLLS_PER_QUEUE == 0 && engine.has_queued() {
                return None;
            }
            let is_due = look % POLLS_PER_PROGRESS == 0;
            if is_due && (!world.has_only_lines() || engine.others_have_lines(source)) {
                return None;
            }
            finish_look();
        }
        None
    }
}
