//! Memory that C names.

use core::ffi::c_void;
use core::ptr::NonNull;

use shim::Part;

use crate::entry::Called;
use crate::failure::Failure;

/// Bytes that C answers for, as the engine sees them.
#[inline(always)]
pub(crate) fn part(base: *const c_void, bytes: usize) -> Called<Part> {
    match NonNull::new(base.cast_mut().cast::<u8>()) {
        Some(base) if bytes <= isize::MAX as usize => Ok(Part { base, length: bytes }),
        None if bytes == 0 => Ok(Part { base: NonNull::dangling(), length: 0 }),
        _ => Err(no_buffer(base, bytes)),
    }
}

#[cold]
#[inline(never)]
fn no_buffer(base: *const c_void, bytes: usize) -> Box<Failure> {
    Failure::argument(format!(
        "there are no {bytes} bytes at {base:?}: pass a buffer of that length"
    ))
}

/// The bytes, to be read during the call.
///
/// # Safety
///
/// They are valid for reads, and nobody writes them, for 'a.
#[inline(always)]
pub(crate) unsafe fn readable<'a>(base: *const c_void, bytes: usize) -> Called<&'a [u8]> {
    let Part { base, length } = part(base, bytes)?;
    // SAFETY: by the contract; a slice is no longer than `isize::MAX`, as `part` checks.
    Ok(unsafe { core::slice::from_raw_parts(base.as_ptr(), length) })
}

/// The bytes, to be written during the call.
///
/// # Safety
///
/// They are valid for reads and writes, and nobody else reaches them, for 'a.
#[inline(always)]
pub(crate) unsafe fn writable<'a>(base: *mut c_void, bytes: usize) -> Called<&'a mut [u8]> {
    let Part { base, length } = part(base, bytes)?;
    // SAFETY: as in `readable`.
    Ok(unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), length) })
}

/// Where C wants an answer.
///
/// # Safety
///
/// A pointer that is not null is valid for a write of `T`.
#[inline(always)]
pub(crate) unsafe fn answer<T>(place: *mut T, value: T) -> Called {
    let Some(place) = NonNull::new(place) else { return Err(no_place()) };
    // SAFETY: by the contract.
    unsafe { place.write(value) };
    Ok(())
}

/// As [`answer`], where C may do without.
///
/// # Safety
///
/// As for [`answer`].
#[inline(always)]
pub(crate) unsafe fn answer_if_wanted<T>(place: *mut T, value: T) {
    if let Some(place) = NonNull::new(place) {
        // SAFETY: by the contract.
        unsafe { place.write(value) };
    }
}

/// Refuses a call that has nowhere to answer, before it does anything.
#[inline(always)]
pub(crate) fn need<T>(place: *const T) -> Called {
    if place.is_null() { Err(no_place()) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn no_place() -> Box<Failure> {
    Failure::argument("a pointer that must lead somewhere is null: see strait.h for which may be")
}
