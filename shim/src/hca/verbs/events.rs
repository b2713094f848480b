//! The completion channel: how a device announces what it was armed for.

use core::ptr;
use core::time::Duration;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rdma_mummy_sys as ibv;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use strait_core::hca::HcaError;

use super::Verbs;
use super::owned::Owned;
use crate::hca::cq::{EventDriven, Events};

impl EventDriven for Verbs {
    type Events = VerbsEvents;

    fn events(&self) -> VerbsEvents {
        VerbsEvents(Arc::clone(&self.bell))
    }
}

/// Where a device announces what it was armed for.
#[derive(Clone, Debug)]
pub struct VerbsEvents(Arc<OwnedFd>);

impl Events for VerbsEvents {
    fn wait(&self, longest: Duration) -> Result<bool, HcaError> {
        let longest = Timespec::try_from(longest).ok();
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut descriptors, longest.as_ref()) {
            // The event stays until the device is armed again.
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(HcaError::Device { code: error.raw_os_error() }),
        }
    }
}

/// Takes the events that are there: they told of completions that the caller has seen, or is about to look for.
pub(super) fn forget(events: &Owned<ibv::ibv_comp_channel>) {
    let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the channel is live and does not block, and so is the one queue that it serves.
    unsafe {
        while ibv::ibv_get_cq_event(events.as_ptr(), &raw mut queue, &raw mut context) == 0 {
            ibv::ibv_ack_cq_events(queue, 1);
        }
    }
}

/// The channel's descriptor.
pub(super) fn descriptor(events: &Owned<ibv::ibv_comp_channel>) -> BorrowedFd<'_> {
    // SAFETY: the channel is live as long as its owner is borrowed, and its descriptor open.
    unsafe { BorrowedFd::borrow_raw((*events.as_ptr()).fd) }
}
