//! A value that has memory from its first use on.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::{Memory, OutOfMemory};

/// A value in memory of its own, made at its first use. Its owner has the [`Memory`] and releases
/// it, so that a table of such values has no copy of the lender in each.
#[derive(Debug)]
pub(crate) struct OnFirstUse<T: Copy>(Option<NonNull<T>>);

// SAFETY: the place is the only way to the value, as a box is.
unsafe impl<T: Copy + Send> Send for OnFirstUse<T> {}

impl<T: Copy> Default for OnFirstUse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy> OnFirstUse<T> {
    /// Returns the value, if it was used.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the place leads to a value of this one, and is borrowed with it.
        self.0.map(|place| unsafe { place.as_ref() })
    }

    /// Returns the value to change, if it was used.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the place leads to a value of this one, and `&mut self` makes the borrow
        // exclusive.
        self.0.map(|mut place| unsafe { place.as_mut() })
    }

    /// Returns the value. Makes it if this is its first use.
    #[inline]
    pub(crate) fn get_or_make(&mut self, memory: &impl Memory) -> Result<&mut T, OutOfMemory>
    where
        T: Default,
    {
        let mut place = match self.0 {
            Some(place) => place,
            None => self.make(memory)?,
        };
        // SAFETY: the place leads to a value of this one, and `&mut self` makes the borrow
        // exclusive.
        Ok(unsafe { place.as_mut() })
    }

    #[cold]
    fn make(&mut self, memory: &impl Memory) -> Result<NonNull<T>, OutOfMemory>
    where
        T: Default,
    {
        const { assert!(size_of::<T>() != 0, "a zero-sized value needs no memory") };
        let layout = Layout::new::<T>();
        let bytes = layout.size();
        let place = memory.allocate(layout).ok_or(OutOfMemory { bytes })?.cast::<T>();
        // SAFETY: `allocate` returned exclusive, aligned memory for a `T`.
        unsafe { place.write(T::default()) };
        self.0 = Some(place);
        Ok(place)
    }

    /// Forgets the value and releases its memory. Without this call the memory stays allocated.
    ///
    /// # Safety
    ///
    /// `memory` is that of all calls of [`OnFirstUse::get_or_make`].
    pub(crate) unsafe fn release(&mut self, memory: &impl Memory) {
        if let Some(place) = self.0.take() {
            // SAFETY: the memory came from `allocate` of this `memory` (contract of `release`) with
            // this layout, and no way to it is left.
            unsafe { memory.release(place.cast(), Layout::new::<T>()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn a_value_takes_memory_from_its_first_use_on() {
        Counted::lend(|memory| {
            let mut value = OnFirstUse::<u64>::default();
            assert!(value.get().is_none() && value.get_mut().is_none());
            memory.refuse(true);
            assert_eq!(value.get_or_make(&memory), Err(OutOfMemory { bytes: 8 }));
            memory.refuse(false);
            *value.get_or_make(&memory).unwrap() += 7;
            *value.get_or_make(&memory).unwrap() += 1;
            assert_eq!((value.get(), memory.asked()), (Some(&8), 2));
            // SAFETY: the memory is that of the other calls.
            unsafe { value.release(&memory) };
            assert!(value.get().is_none());
        });
    }
}
