//! RTRs for *named* messages: each has a key that no other message of its pair has.
//!
//! An embedder with its own matching promises its receiver the key of a coming message, and sends
//! that message with the key or none. So an RTR needs no turn: its key says which message it is
//! for. If that message does not come, the RTR is never used.

use core::fmt;

use super::RECORDS;
use super::recent::Recent;
use crate::memory::Memory;
use crate::wire::Key;

/// The RTRs that wait for named messages of this rank. `T` is the contents of an RTR.
///
/// It has room for [`RECORDS`] RTRs, and drops the oldest beyond that: its message is announced.
/// Every call but [`NamedRtrs::forget`] takes constant time.
///
/// ```
/// use strait_core::rndv::NamedRtrs;
/// use strait_core::wire::Key;
/// # use core::{alloc::Layout, ptr::NonNull};
/// # #[derive(Clone)]
/// # struct System;
/// # // SAFETY: the memory comes from the system allocator with the layout that was asked for.
/// # unsafe impl strait_core::memory::Memory for System {
/// #     fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
/// #         // SAFETY: the layout is not empty (contract of `Memory`).
/// #         NonNull::new(unsafe { std::alloc::alloc(layout) })
/// #     }
/// #     unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
/// #         // SAFETY: the memory came from `allocate` with this layout.
/// #         unsafe { std::alloc::dealloc(memory.as_ptr(), layout) }
/// #     }
/// # }
///
/// let mut rtrs = NamedRtrs::new(System);
/// let key = Key::new(2, 77);
/// rtrs.rtr(1, key, "address of the buffer");
/// assert!(rtrs.is_asked(1, key));
/// assert_eq!(rtrs.take(1, key), Some("address of the buffer"));
/// assert_eq!(rtrs.take(1, key), None);
/// ```
///
/// # Source
///
/// `[SpecRndv09]` §3.3.1, with a name in place of the order of RTRs.
pub struct NamedRtrs<T: Copy, M: Memory> {
    kept: Recent<T, M>,
}

impl<T: Copy, M: Memory> NamedRtrs<T, M> {
    /// Creates an empty table.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self { kept: Recent::new(memory, RECORDS) }
    }

    /// Keeps an RTR from `peer` for the message with this key. Without memory, it is dropped.
    pub fn rtr(&mut self, peer: u32, key: Key, target: T) {
        match self.kept.get_mut(peer, key) {
            Some(kept) => *kept = target,
            None => drop(self.kept.insert(peer, key, target)),
        }
    }

    /// Takes the RTR for the message to `peer` with this key, if it is here.
    pub fn take(&mut self, peer: u32, key: Key) -> Option<T> {
        self.kept.remove(peer, key)
    }

    /// Returns whether the RTR for this message is here.
    #[must_use]
    pub fn is_asked(&self, peer: u32, key: Key) -> bool {
        self.kept.get(peer, key).is_some()
    }

    /// Forgets the RTRs of `peer`, which has failed or finished.
    pub fn forget(&mut self, peer: u32) {
        self.kept.forget(peer, drop);
    }
}

impl<T: Copy + fmt::Debug, M: Memory> fmt::Debug for NamedRtrs<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedRtrs").field("kept", &self.kept).finish()
    }
}
