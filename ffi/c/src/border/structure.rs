//! Structures that begin with their size, so that older programs may pass shorter ones.

use core::marker::PhantomData;

use super::place::no_place;
use crate::failure::{Called, Code, Failure};

/// A structure that begins with its size.
///
/// # Safety
///
/// The type is `#[repr(C)]`, its first field is a `usize`, and all-zero bytes are a value of it.
pub(crate) unsafe trait Structure: Copy {}

/// A structure that the call reads. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct StructInArg<'call, T> {
    place: *const T,
    call: PhantomData<&'call T>,
}

impl<T: Structure> StructInArg<'_, T> {
    /// Reads the structure. Returns `None` when it is null.
    pub(crate) fn read(self) -> Called<Option<T>> {
        // SAFETY: the address is null, or leads to a structure that begins with its size
        // (invariant).
        unsafe { read_structure(self.place) }
    }
}

/// Reads the structure at `place`. Fields that a shorter structure lacks are zero.
///
/// # Safety
///
/// `place` is null, or leads to as many bytes as its first field says.
pub(crate) unsafe fn read_structure<T: Structure>(place: *const T) -> Called<Option<T>> {
    if place.is_null() {
        return Ok(None);
    }
    // SAFETY: the first field is a size (trait), and it is readable (contract of `read_structure`).
    let size = unsafe { place.cast::<usize>().read() };
    check_size(size, size_of::<T>())?;
    // SAFETY: `size` bytes are readable, and at most as many as `T` has. All-zero bytes are a valid
    // `T` (trait).
    unsafe {
        let mut value = core::mem::zeroed::<T>();
        core::ptr::copy_nonoverlapping(place.cast::<u8>(), (&raw mut value).cast(), size);
        Ok(Some(value))
    }
}

/// A structure that the call fills. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct StructOutArg<'call, T> {
    place: *mut T,
    call: PhantomData<&'call mut T>,
}

impl<T: Structure> StructOutArg<'_, T> {
    /// Fills the fields that the program knows, and leaves its size unchanged.
    pub(crate) fn write(self, value: &T) -> Called {
        if self.place.is_null() {
            return Err(no_place());
        }
        // SAFETY: the structure begins with its size (invariant).
        let size = unsafe { self.place.cast::<usize>().read() };
        check_size(size, size_of::<T>())?;
        let head = size_of::<usize>();
        // SAFETY: `size` bytes are writable (invariant), and at most as many as `value` has.
        unsafe {
            let from = core::ptr::from_ref(value).cast::<u8>().add(head);
            let to = self.place.cast::<u8>().add(head);
            core::ptr::copy_nonoverlapping(from, to, size - head);
        }
        Ok(())
    }
}

fn check_size(size: usize, known: usize) -> Called {
    if size < size_of::<usize>() {
        let text = format!("the structure's size is {size}: set it to its sizeof");
        return Err(Failure::argument(text));
    }
    if size > known {
        let text = format!(
            "the structure has {size} bytes and this library knows {known}: \
             the library is older than the header"
        );
        return Err(Failure::new(Code::Version, text));
    }
    Ok(())
}
