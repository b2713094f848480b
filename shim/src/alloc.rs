//! Memory that lies in the node's segment: peers copy from it and to it without the kernel's help.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::layout::PAGE;

use crate::segment::Heap;
use crate::{Error, World};

/// A slice in the heap that its rank has in the segment, freed on drop. It is used like a vector that does not grow.
///
/// Large messages from it or to it need no system call: both sides map it. It outlives its [`World`], and may be moved to
/// and shared between threads as a vector may.
///
/// ```
/// # fn main() -> Result<(), strait::Error> {
/// let world = &strait::World::in_process(1)?[0];
/// let mut field = world.alloc::<f64>(1000)?;
/// assert_eq!(field[..], [0.0; 1000]);
/// field[7] = 1.5;
/// # Ok(())
/// # }
/// ```
pub struct SharedMemory<T> {
    heap: Arc<Heap>,
    /// Where it lies in the segment; empty when there is nothing to hold.
    taken: Range<usize>,
    start: NonNull<T>,
    length: usize,
    values: PhantomData<T>,
}

// SAFETY: it owns its values, as a vector does; the heap's book has a lock.
unsafe impl<T: Send> Send for SharedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

impl World {
    /// Memory for `length` values, zeroed and aligned to a page, in the segment that all ranks of the node map.
    ///
    /// It takes whole pages, from 2 MiB on whole huge pages, so it is meant for large things. The memory is reserved: a
    /// touch does not fail later. `strait run --heap-bytes` says how much each rank may have at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Segment`] when the rank's heap has no room for it, or the node no memory.
    ///
    /// # Source
    ///
    /// MPI-4.1 §9.2, `MPI_ALLOC_MEM`.
    pub fn alloc<T: AnyBitPattern + NoUninit>(
        &self,
        length: usize,
    ) -> Result<SharedMemory<T>, Error> {
        const { assert!(align_of::<T>() <= PAGE) };
        let heap = Arc::clone(&self.heap);
        // More bytes than there are addresses are more than any heap has.
        let bytes = length.saturating_mul(size_of::<T>());
        let (taken, start) = if bytes == 0 {
            (0..0, NonNull::dangling())
        } else {
            let taken = heap.take(bytes)?;
            let start = heap.place(&taken).cast();
            (taken, start)
        };
        Ok(SharedMemory { heap, taken, start, length, values: PhantomData })
    }
}

impl<T> SharedMemory<T> {
    /// The first value, for those who share it with others.
    pub(crate) const fn start(&self) -> NonNull<T> {
        self.start
    }
}

impl<T> Deref for SharedMemory<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many values of a type that any bytes are valid for, in mapped and zeroed memory that nobody else of
        // this process has; aligned to a page. Another process touches it only while an operation has it claimed, and the
        // operation holds a borrow as long.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.length).as_ref() }
    }
}

impl<T> DerefMut for SharedMemory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and borrowed by us alone.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.length).as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        if !self.taken.is_empty() {
            self.heap.give_back(self.taken.clone());
        }
    }
}
