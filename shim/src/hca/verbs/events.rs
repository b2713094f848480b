//! The completion channel: how a device announces what it was armed for.

use core::ptr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rdma_mummy_sys as ibv;

use super::Verbs;
use super::owned::Owned;
use crate::hca::cq::{EventDriven, Events};

impl EventDriven for Verbs {
    fn events(&self) -> Events {
        Events::new(Arc::clone(&self.bell))
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
