//! Memory that becomes part of a window.

use core::any::Any;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use bytemuck::{AnyBitPattern, NoUninit};

use crate::SharedMemory;

/// Memory over which a window may be made: vectors, boxed slices, and slices in the segment. Peers
/// reach slices in the segment fastest.
pub trait Exposable: sealed::Expose {}

pub(super) mod sealed {
    use core::any::Any;
    use core::ptr::NonNull;

    pub trait Expose {
        /// Returns the start of the memory, its length in bytes, and the owner to drop when no rank
        /// reaches it any more.
        fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>);
    }
}

/// The memory of a vector, without a Rust reference to it.
struct Exposed<T> {
    start: NonNull<T>,
    length: usize,
    capacity: usize,
}

impl<T> Drop for Exposed<T> {
    fn drop(&mut self) {
        // SAFETY: `expose` took these from a vector, and they are given back once.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.length, self.capacity) });
    }
}

impl<T: AnyBitPattern + NoUninit> Exposable for Vec<T> {}

impl<T: AnyBitPattern + NoUninit> sealed::Expose for Vec<T> {
    fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>) {
        let mut vector = ManuallyDrop::new(self);
        let (length, capacity) = (vector.len(), vector.capacity());
        let start = NonNull::from(&mut vector[..]).cast::<T>();
        (start.cast(), length * size_of::<T>(), Box::new(Exposed { start, length, capacity }))
    }
}

impl<T: AnyBitPattern + NoUninit> Exposable for Box<[T]> {}

impl<T: AnyBitPattern + NoUninit> sealed::Expose for Box<[T]> {
    fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>) {
        self.into_vec().expose()
    }
}

impl<T: AnyBitPattern + NoUninit> Exposable for SharedMemory<T> {}

impl<T: AnyBitPattern + NoUninit> sealed::Expose for SharedMemory<T> {
    fn expose(self) -> (NonNull<u8>, usize, Box<dyn Any>) {
        (self.start().cast(), size_of_val(&*self), Box::new(self))
    }
}
