//! The completion channel, through which a device announces the events that it was armed for.

use core::ptr;
use std::os::fd::BorrowedFd;

use rdma_mummy_sys as ibv;

use super::owned::VerbsObject;

/// Takes the pending events. Their completions were polled by the caller, or are about to be.
pub(super) fn forget(events: &VerbsObject<ibv::ibv_comp_channel>) {
    let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the channel is live and does not block, and the one queue that it serves is live.
    unsafe {
        while ibv::ibv_get_cq_event(events.as_ptr(), &raw mut queue, &raw mut context) == 0 {
            ibv::ibv_ack_cq_events(queue, 1);
        }
    }
}

/// Returns the channel's descriptor.
pub(super) fn descriptor(events: &VerbsObject<ibv::ibv_comp_channel>) -> BorrowedFd<'_> {
    // SAFETY: the channel is live as long as its owner is borrowed, and its descriptor is open.
    unsafe { BorrowedFd::borrow_raw((*events.as_ptr()).fd) }
}
