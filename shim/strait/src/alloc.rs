//! Memory in the node's segment, which peers copy from and to without system calls.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::layout::PAGE;
use strait_platform::segment::Heap;

use crate::{Error, World};

/// A slice in the rank's heap in the segment, freed on drop. It behaves like a vector of fixed
/// length.
///
/// Large messages from or to this memory need no system call, because both sides map it. The slice
/// may outlive its [`World`]. It can be moved to other threads and shared between them like a
/// vector.
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
    /// The bytes in the segment. The range is empty when the slice holds no bytes.
    taken: Range<usize>,
    start: NonNull<T>,
    length: usize,
    values: PhantomData<T>,
}

// SAFETY: the slice owns its values, as a vector does, so it may move to another thread if they
// may. A lock guards the bookkeeping of the heap.
unsafe impl<T: Send> Send for SharedMemory<T> {}
// SAFETY: a shared slice gives only shared access to its values, and a lock guards the bookkeeping
// of the heap.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

impl World {
    /// Allocates `length` values in the segment that all ranks of the node map. The memory is
    /// zeroed and aligned to a page.
    ///
    /// An allocation takes whole pages, and whole huge pages from 2 MiB on, so it is meant for
    /// large buffers. The memory is reserved, so a later access to it does not fail. `strait run
    /// --heap-bytes` sets the size of each rank's heap.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// let mut row = world.alloc::<f32>(4096)?;
    /// row.fill(1.0);
    /// assert_eq!(row.iter().sum::<f32>(), 4096.0);
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Segment`] when the rank's heap has no room, or the node has no memory.
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
        // A product that saturates is larger than any heap, so `take` refuses it.
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
    /// Returns the address of the first value, for callers that share the memory with other ranks.
    pub(crate) const fn start(&self) -> NonNull<T> {
        self.start
    }
}

impl<T> Deref for SharedMemory<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the range holds `length` values of a type for which any bytes are valid. It is
        // mapped, zeroed, aligned to a page, and reserved for this slice in this process. Another
        // process accesses it only while an operation has a claim on it, and that operation holds a
        // borrow of the slice as long.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.length).as_ref() }
    }
}

impl<T> DerefMut for SharedMemory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the memory is valid for the reasons given in `deref`, and `self` is borrowed
        // mutably.
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
