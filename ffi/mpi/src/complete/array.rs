//! Arrays of requests, which may be ours and the host's.

use core::ffi::c_int;

use strait::raw::wait_for_one_of;
use strait::{Call, Wait};

use super::super::host::HandlePtr;
use super::super::request_view::RequestView;
use super::super::state::Front;
use crate::abi;

/// Array of requests of the program.
#[derive(Clone, Copy)]
pub(super) struct RequestArray {
    requests: HandlePtr,
    pub(super) count: usize,
}

impl RequestArray {
    pub(super) const fn new(n: c_int, requests: HandlePtr) -> Self {
        Self { requests, count: if n < 0 { 0 } else { n as usize } }
    }

    pub(super) fn place(self, number: usize) -> HandlePtr {
        self.requests.wrapping_add(number)
    }

    /// Returns the places of the requests.
    pub(super) fn places(self) -> impl Iterator<Item = (usize, HandlePtr)> {
        (0..self.count).map(move |number| (number, self.place(number)))
    }

    /// Describes a wait for one of the requests that are not over, for observers.
    pub(super) fn wait_of(self, front: &Front, call: Call) -> Wait {
        let mut of = 0;
        // SAFETY: the program passes an array of that many requests.
        let handles = self.places().map(|(_, place)| unsafe { *place });
        let open: Vec<Wait> = handles
            .filter(|handle| *handle != abi::request_null())
            .inspect(|_| of += 1)
            .filter_map(|handle| match abi::request_slot(handle) {
                Some(slot) => (front.requests.view(front, slot) == RequestView::Pending)
                    .then(|| front.requests.wait_of(front, slot)),
                None => Some(Wait::new(Call::Request)),
            })
            .collect();
        let over = Some((of - (open.len() as u32).min(of), of));
        Wait { over, ..wait_for_one_of(call, open.into_iter()) }
    }

    /// Returns whether no request of the array is ours. Stops at the first that is.
    #[inline]
    pub(super) fn is_hosts(self) -> bool {
        // SAFETY: the program passes an array of that many requests.
        !self.places().any(|(_, place)| abi::request_slot(unsafe { *place }).is_some())
    }
}
