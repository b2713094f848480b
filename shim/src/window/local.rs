//! A part that is mapped into this process, to be reached by loads and stores.

use core::marker::PhantomData;
use core::ptr::NonNull;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::rma::{Place, transfer};

use super::part::Reach;
use super::{Window, WindowError};
use crate::Number;
use crate::endpoint::{part_of, part_of_mut};

/// A part of a window, for as long as the window is there. Others reach it at the same time, so it is no slice: bytes are
/// copied in and out, and numbers are read and written whole.
#[derive(Clone, Copy, Debug)]
pub struct Local<'window> {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
    pub(super) place: u32,
    pub(super) window: PhantomData<&'window ()>,
}

impl Window<'_> {
    /// This rank's own part.
    #[must_use]
    pub fn local(&self) -> Local<'_> {
        let own = self.mapped(self.group.place());
        own.unwrap_or(Local { base: NonNull::dangling(), length: 0, place: 0, window: PhantomData })
    }

    /// The part of the member in `place`, if loads and stores reach it: it lies in the segment, or is this rank's own.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.3, `MPI_WIN_SHARED_QUERY`.
    #[must_use]
    pub fn mapped(&self, place: u32) -> Option<Local<'_>> {
        let part = self.part(place).ok().filter(|part| !part.is_dynamic)?;
        let Reach::Mapped(base) = part.reach.get() else { return None };
        Some(Local { base, length: part.length, place, window: PhantomData })
    }
}

impl Local<'_> {
    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// True for a part of no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first byte, for code that answers for its own accesses: others reach these bytes at the same time.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Copies `data` to byte `offset`.
    ///
    /// # Errors
    ///
    /// [`WindowError::Bounds`].
    pub fn write<T: NoUninit>(&self, offset: usize, data: &[T]) -> Result<(), WindowError> {
        let data = part_of(bytemuck::must_cast_slice(data));
        let place = self.at(offset, data.length)?;
        // SAFETY: in the part; `data` is borrowed, and so no part of it.
        unsafe { transfer(data.base, place, data.length) };
        Ok(())
    }

    /// Copies to `buffer` from byte `offset`.
    ///
    /// # Errors
    ///
    /// [`WindowError::Bounds`].
    pub fn read<T: NoUninit + AnyBitPattern>(
        &self,
        offset: usize,
        buffer: &mut [T],
    ) -> Result<(), WindowError> {
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(buffer));
        let place = self.at(offset, buffer.length)?;
        // SAFETY: as in `write`; any bytes are good for the buffer.
        unsafe { transfer(place, buffer.base, buffer.length) };
        Ok(())
    }

    /// Reads the number at byte `offset`, whole.
    ///
    /// # Errors
    ///
    /// [`WindowError::Bounds`], [`WindowError::Alignment`].
    #[inline]
    pub fn load<T: Number>(&self, offset: usize) -> Result<T, WindowError> {
        Ok(self.number(offset)?.load())
    }

    /// Writes the number at byte `offset`, whole.
    ///
    /// # Errors
    ///
    /// As [`Local::load`].
    #[inline]
    pub fn store<T: Number>(&self, offset: usize, value: T) -> Result<(), WindowError> {
        self.number(offset)?.store(value);
        Ok(())
    }

    #[inline]
    fn number<T: Number>(&self, offset: usize) -> Result<Place<T>, WindowError> {
        let place = self.at(offset, size_of::<T>())?;
        if !place.addr().get().is_multiple_of(size_of::<T>()) {
            return Err(WindowError::Alignment { offset, of: T::NAME });
        }
        // SAFETY: in the part, and aligned.
        Ok(unsafe { Place::new(place) })
    }

    #[inline]
    fn at(&self, offset: usize, extent: usize) -> Result<NonNull<u8>, WindowError> {
        if offset.checked_add(extent).is_none_or(|end| end > self.length) {
            let (target, displacement, unit, part) = (self.place, offset, 1, self.length);
            return Err(WindowError::Bounds { target, displacement, unit, extent, part });
        }
        // SAFETY: in the part.
        Ok(unsafe { self.base.add(offset) })
    }
}
