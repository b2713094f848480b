//! Buffers as parameters.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice::{from_raw_parts, from_raw_parts_mut};
use std::io::{IoSlice, IoSliceMut};

use shim::Endpoint;
use shim::raw::{Part, ReceivedShort, Ticket};

use super::operation::{OperationMemory, WindowMemory};
use super::place::{ArrayArg, CountArg};
use crate::failure::{Called, Failure};

/// Memory that the call reads, with the length that its [`CountArg`] gives. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct DataArg<'call> {
    pub(super) base: *const c_void,
    call: PhantomData<&'call [u8]>,
}

impl<'call> DataArg<'call> {
    /// Returns the bytes. Null is allowed when the length is zero.
    #[inline(always)]
    pub(crate) fn readable(self, bytes: CountArg) -> Called<&'call [u8]> {
        self.at_most(bytes, usize::MAX).ok_or_else(|| no_buffer(self.base, bytes.get()))
    }

    /// Returns the bytes if there are exactly this many.
    #[inline(always)]
    pub(crate) fn exactly<const BYTES: usize>(self, bytes: CountArg) -> Option<&'call [u8; BYTES]> {
        if bytes.get() != BYTES {
            return None;
        }
        self.at_most(bytes, BYTES)?.try_into().ok()
    }

    /// Returns the bytes if there are at most `most`. Null is allowed when the length is zero.
    #[inline(always)]
    pub(crate) fn at_most(self, bytes: CountArg, most: usize) -> Option<&'call [u8]> {
        if bytes.get() > most {
            return None;
        }
        part_or_none(self.base, bytes.get()).map(|Part { base, length }| {
            // SAFETY: the call may read this many bytes (invariant), and the length has been
            // checked.
            unsafe { from_raw_parts(base.as_ptr(), length) }
        })
    }
}

/// Memory that the call writes, with the length that its [`CountArg`] gives. It may be null.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct BufferArg<'call> {
    pub(super) base: *mut c_void,
    call: PhantomData<&'call mut [u8]>,
}

impl<'call> BufferArg<'call> {
    /// Returns the bytes. Null is allowed when the length is zero.
    #[inline(always)]
    pub(crate) fn writable(self, bytes: CountArg) -> Called<&'call mut [u8]> {
        let base = self.base;
        self.whole(bytes).ok_or_else(|| no_buffer(base, bytes.get()))
    }

    /// Returns the bytes if there are exactly this many.
    #[inline(always)]
    pub(crate) fn exactly<const BYTES: usize>(
        &mut self,
        bytes: CountArg,
    ) -> Option<&mut [u8; BYTES]> {
        if bytes.get() != BYTES {
            return None;
        }
        self.at_most(bytes, BYTES)?.try_into().ok()
    }

    /// Returns the bytes if there are at most `most`. Null is allowed when the length is zero.
    #[inline(always)]
    pub(crate) fn at_most(&mut self, bytes: CountArg, most: usize) -> Option<&mut [u8]> {
        if bytes.get() > most {
            return None;
        }
        let lent = BufferArg { base: self.base, call: PhantomData };
        lent.whole(bytes)
    }

    #[inline(always)]
    fn whole(self, bytes: CountArg) -> Option<&'call mut [u8]> {
        part_or_none(self.base, bytes.get()).map(|Part { base, length }| {
            // SAFETY: only the call uses these bytes (invariant), `self` is consumed, and the
            // length has been checked.
            unsafe { from_raw_parts_mut(base.as_ptr(), length) }
        })
    }
}

/// Memory that C lends to an operation until the operation has ended. The call's [`CountArg`] gives
/// its length. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct LastingArg(*mut c_void);

impl LastingArg {
    /// Returns the memory of a message. Null is allowed when the length is zero.
    #[inline(always)]
    pub(crate) fn memory(self, bytes: CountArg) -> Called<OperationMemory> {
        // The promise of C about this type is the invariant of the memory.
        Ok(OperationMemory::One(part(self.0, bytes.get())?))
    }

    /// Returns the bytes to send, if there are at most `most`, for a send that is over when the
    /// call returns.
    #[inline(always)]
    pub(crate) fn at_most<'call>(self, bytes: CountArg, most: usize) -> Option<&'call [u8]> {
        DataArg { base: self.0, call: PhantomData }.at_most(bytes, most)
    }

    /// Returns the bytes to send as [`LastingArg::at_most`] does, if there are exactly this many.
    #[inline(always)]
    pub(crate) fn exactly<'call, const BYTES: usize>(
        self,
        bytes: CountArg,
    ) -> Option<&'call [u8; BYTES]> {
        DataArg { base: self.0, call: PhantomData }.exactly(bytes)
    }

    /// Posts a receive into the memory, if nothing else has to be done.
    #[inline(always)]
    pub(crate) fn post_first(
        self,
        bytes: CountArg,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> Option<Ticket> {
        OperationMemory::post_first(part_or_none(self.0, bytes.get())?, endpoint, from, tag)
    }

    /// Starts a receive into the memory, if its message is short or arrives later.
    #[inline(always)]
    pub(crate) fn recv_short(
        self,
        bytes: CountArg,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> ReceivedShort {
        match part_or_none(self.0, bytes.get()) {
            Some(part) => OperationMemory::recv_short(part, endpoint, from, tag),
            None => ReceivedShort::Declined,
        }
    }

    /// Returns the memory of an operation on a window, or of a window. Null is allowed when the
    /// length is zero.
    #[inline(always)]
    pub(crate) fn window_memory(self, bytes: CountArg) -> Called<WindowMemory> {
        // The promise of C about this type is the invariant of the memory.
        Ok(WindowMemory::new(part(self.0, bytes.get())?))
    }
}

/// Buffers that the call reads or writes; its [`CountArg`] gives their number. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct PartsArg<'call>(ArrayArg<'call, libc::iovec>);

impl<'call> PartsArg<'call> {
    pub(crate) fn list(self, count: CountArg<c_int>) -> Called<PartList<'call>> {
        Ok(PartList { parts: list(self.0, count)?, call: PhantomData })
    }
}

/// Buffers that C lends to an operation until the operation has ended. It may be null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct LastingPartsArg<'call>(ArrayArg<'call, libc::iovec>);

impl LastingPartsArg<'_> {
    pub(crate) fn memory(self, count: CountArg<c_int>) -> Called<OperationMemory> {
        // The promise of C about this type is the invariant of the memory.
        Ok(OperationMemory::List(list(self.0, count)?))
    }

    /// Returns the buffers themselves, for an operation that ends in a later call.
    pub(crate) fn list(self, count: CountArg<c_int>) -> Called<Box<[Part]>> {
        list(self.0, count)
    }
}

/// Checked buffers that only this call uses.
#[derive(Debug)]
pub(crate) struct PartList<'call> {
    parts: Box<[Part]>,
    call: PhantomData<&'call mut [u8]>,
}

impl PartList<'_> {
    pub(crate) fn readable(&self) -> Vec<IoSlice<'_>> {
        let bytes = |part: &Part| {
            // SAFETY: the call may read the buffer (invariant), and its length has been checked.
            IoSlice::new(unsafe { from_raw_parts(part.base.as_ptr(), part.length) })
        };
        self.parts.iter().map(bytes).collect()
    }

    pub(crate) fn writable(&mut self) -> Vec<IoSliceMut<'_>> {
        let bytes = |part: &Part| {
            // SAFETY: only the call uses the buffer (invariant), its length has been checked, and
            // the list stays borrowed for as long.
            IoSliceMut::new(unsafe { from_raw_parts_mut(part.base.as_ptr(), part.length) })
        };
        self.parts.iter().map(bytes).collect()
    }
}

/// Checks the buffers of a list: each length, and the total.
fn list(parts: ArrayArg<'_, libc::iovec>, count: CountArg<c_int>) -> Called<Box<[Part]>> {
    let parts = parts.slice(count.checked()?)?;
    let list =
        parts.iter().map(|each| part(each.iov_base, each.iov_len)).collect::<Called<Box<_>>>()?;
    let total = list.iter().try_fold(0_usize, |sum, part: &Part| sum.checked_add(part.length));
    match total {
        Some(total) if total <= isize::MAX as usize => Ok(list),
        _ => Err(Failure::argument(
            "the buffers of the list have more bytes than there are addresses",
        )),
    }
}

/// Converts a buffer to the engine's type.
#[inline(always)]
pub(super) fn part(base: *const c_void, bytes: usize) -> Called<Part> {
    part_or_none(base, bytes).ok_or_else(|| no_buffer(base, bytes))
}

#[inline(always)]
const fn part_or_none(base: *const c_void, bytes: usize) -> Option<Part> {
    match NonNull::new(base.cast_mut().cast::<u8>()) {
        Some(base) if bytes <= isize::MAX as usize => Some(Part { base, length: bytes }),
        None if bytes == 0 => Some(Part { base: NonNull::dangling(), length: 0 }),
        _ => None,
    }
}

#[cold]
#[inline(never)]
fn no_buffer(base: *const c_void, bytes: usize) -> Box<Failure> {
    Failure::argument(format!(
        "there are no {bytes} bytes at {base:?}: pass a buffer of that length"
    ))
}
