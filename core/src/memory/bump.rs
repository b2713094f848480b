//! Private memory from one borrowed run of bytes, for images without an allocator.

use core::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::Memory;

/// Private memory that is taken from the front of a borrowed slice.
///
/// Released memory is used again only if it was allocated last, or when everything is released.
/// So an engine that grows its tables leaves the shorter ones behind. Give it twice what it needs.
///
/// ```
/// use core::mem::MaybeUninit;
/// use strait_core::memory::{BumpMemory, Slab};
///
/// let mut bytes = [MaybeUninit::uninit(); 1024];
/// let memory = BumpMemory::new(&mut bytes);
/// let mut slab = Slab::new(&memory);
/// let key = slab.insert(7_u32)?;
/// assert_eq!(slab.get(key), Some(&7));
/// assert!(memory.left_bytes() < 1024);
/// # Ok::<(), strait_core::memory::OutOfMemory>(())
/// ```
#[derive(Debug)]
pub struct BumpMemory<'a> {
    base: NonNull<u8>,
    length: usize,
    /// Number of bytes at the front that are in use, or were.
    used: Cell<usize>,
    /// Number of allocations that are not released.
    live: Cell<usize>,
    bytes: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

impl<'a> BumpMemory<'a> {
    /// Lends out `bytes`.
    #[must_use]
    pub fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        let length = bytes.len();
        let base = NonNull::from(bytes).cast();
        Self { base, length, used: Cell::new(0), live: Cell::new(0), bytes: PhantomData }
    }

    /// Returns the number of bytes behind the last allocation.
    #[must_use]
    pub const fn left_bytes(&self) -> usize {
        self.length - self.used.get()
    }
}

// SAFETY: each allocation lies in the borrowed slice, behind all that are in use, and starts at a
// multiple of its alignment. The lender is not `Sync`, so one thread uses its cells.
unsafe impl Memory for &BumpMemory<'_> {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let front = self.base.addr().get().checked_add(self.used.get())?;
        let skipped = front.next_multiple_of(layout.align()) - front;
        let start = self.used.get().checked_add(skipped)?;
        let end = start.checked_add(layout.size())?;
        if end > self.length {
            return None;
        }
        self.used.set(end);
        self.live.set(self.live.get() + 1);
        // SAFETY: `start` is at most `end`, which lies in the slice.
        Some(unsafe { self.base.add(start) })
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        let start = memory.addr().get() - self.base.addr().get();
        self.live.set(self.live.get() - 1);
        if self.live.get() == 0 {
            self.used.set(0);
        } else if start + layout.size() == self.used.get() {
            self.used.set(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_apart_and_used_again() {
        let mut bytes = [MaybeUninit::uninit(); 256];
        let memory = &BumpMemory::new(&mut bytes);
        let layouts = [(1, 1), (8, 8), (32, 16)]
            .map(|(size, align)| Layout::from_size_align(size, align).unwrap());
        let places = layouts.map(|layout| memory.allocate(layout).unwrap());
        let mut end = 0;
        for (layout, place) in layouts.iter().zip(places) {
            assert!(place.addr().get().is_multiple_of(layout.align()));
            assert!(place.addr().get() >= end);
            end = place.addr().get() + layout.size();
        }
        let left = memory.left_bytes();
        assert_eq!(memory.allocate(Layout::from_size_align(left + 1, 1).unwrap()), None);
        // SAFETY: each place came from `allocate` with its layout and is released once.
        unsafe {
            memory.release(places[2], layouts[2]);
            assert_eq!(memory.allocate(layouts[2]), Some(places[2]));
            memory.release(places[0], layouts[0]);
            assert_eq!(memory.left_bytes(), left);
            memory.release(places[1], layouts[1]);
            memory.release(places[2], layouts[2]);
        }
        assert_eq!(memory.left_bytes(), 256);
    }
}
