//! Access by loads and stores to parts that are mapped into this process.

use core::marker::PhantomData;
use core::ptr::NonNull;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::rma::{SharedNumber, transfer};

use crate::buffer::{part_of, part_of_mut};
use crate::{Number, WindowError};

/// A mapped part of a window, for the lifetime of the window. It is no slice, because other ranks
/// access it at the same time. Bytes are copied in and out; numbers are read and written as a
/// whole.
#[derive(Clone, Copy, Debug)]
pub struct Local<'window> {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
    pub(super) place: u32,
    pub(super) window: PhantomData<&'window ()>,
}

impl Local<'_> {
    /// Returns the length of the part in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Returns true for a part of 0 bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns a pointer to the first byte. The caller is responsible for its accesses: other ranks
    /// access these bytes at the same time.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Copies `data` to the part, starting at byte `offset`.
    ///
    /// # Errors
    ///
    /// [`WindowError::Bounds`] when the bytes do not all lie in the part.
    pub fn write<T: NoUninit>(&self, offset: usize, data: &[T]) -> Result<(), WindowError> {
        let data = part_of(bytemuck::must_cast_slice(data));
        let place = self.at(offset, data.length)?;
        // SAFETY: `at` has checked that the bytes lie in the part; `data` is borrowed, so it does
        // not overlap the part.
        unsafe { transfer(data.base, place, data.length) };
        Ok(())
    }

    /// Copies bytes of the part, starting at byte `offset`, to `buffer`.
    ///
    /// # Errors
    ///
    /// [`WindowError::Bounds`] when the bytes do not all lie in the part.
    pub fn read<T: NoUninit + AnyBitPattern>(
        &self,
        offset: usize,
        buffer: &mut [T],
    ) -> Result<(), WindowError> {
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        let place = self.at(offset, buffer.length)?;
        // SAFETY: `at` has checked that the bytes lie in the part. `buffer` is borrowed, so it does
        // not overlap the part, and any bytes are valid for its type.
        unsafe { transfer(place, buffer.base, buffer.length) };
        Ok(())
    }

    /// Reads the number at byte `offset` as a whole.
    ///
    /// # Errors
    ///
    /// [`WindowError::Bounds`] when the number does not lie in the part, [`WindowError::Alignment`]
    /// when it is not aligned.
    #[inline]
    pub fn load<T: Number>(&self, offset: usize) -> Result<T, WindowError> {
        Ok(self.number(offset)?.load())
    }

    /// Writes the number at byte `offset` as a whole.
    ///
    /// # Errors
    ///
    /// Fails as [`Local::load`] does.
    #[inline]
    pub fn store<T: Number>(&self, offset: usize, value: T) -> Result<(), WindowError> {
        self.number(offset)?.store(value);
        Ok(())
    }

    #[inline]
    fn number<T: Number>(&self, offset: usize) -> Result<SharedNumber<T>, WindowError> {
        let place = self.at(offset, size_of::<T>())?;
        if !place.addr().get().is_multiple_of(size_of::<T>()) {
            return Err(WindowError::Alignment { offset, of: T::NAME });
        }
        // SAFETY: `at` has checked that the number lies in the part, and its alignment was checked.
        Ok(unsafe { SharedNumber::new(place) })
    }

    #[inline]
    fn at(&self, offset: usize, extent: usize) -> Result<NonNull<u8>, WindowError> {
        if offset.checked_add(extent).is_none_or(|end| end > self.length) {
            let (target, displacement, unit, part) = (self.place, offset, 1, self.length);
            return Err(WindowError::Bounds { target, displacement, unit, extent, part });
        }
        // SAFETY: the offset lies in the part, or one past its end.
        Ok(unsafe { self.base.add(offset) })
    }
}
