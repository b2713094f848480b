//! Buffers of the user, in one part or several.

use core::ffi::c_void;
use core::ptr::NonNull;

use strait_core::buffer::copy::copy_short;
use strait_core::buffer::{Cursor, Part};
use strait_core::shm::SHORT_MAX;

use crate::abi::{IoVec, LengthArg, ListArg, MemoryArg, Ssize, errno};
use crate::wire::IOV_MAX;

/// A buffer that the user lends to an operation.
///
/// Invariant: its memory is valid until the completion, or until the call returns if it injects.
#[derive(Debug)]
pub(crate) struct UserBuffer {
    /// The first part, or the only part.
    first: Part,
    /// All parts, when there are several.
    parts: Option<Box<[Part]>>,
}

impl UserBuffer {
    /// Makes a part.
    #[inline(always)]
    pub(crate) fn one(base: MemoryArg, length: LengthArg) -> Self {
        Self { first: part(base.as_ptr(), length.get()), parts: None }
    }

    /// Makes a buffer of this part alone.
    #[inline(always)]
    pub(crate) const fn of_part(part: Part) -> Self {
        Self { first: part, parts: None }
    }

    /// Returns the part of a buffer that has only one.
    #[inline(always)]
    pub(crate) const fn only_part(&self) -> Option<Part> {
        if self.parts.is_none() { Some(self.first) } else { None }
    }

    /// Makes a buffer of the parts of a list.
    ///
    /// # Errors
    ///
    /// Fails when there are too many parts.
    pub(crate) fn list(list: ListArg<'_, IoVec>, count: LengthArg) -> Result<Self, Ssize> {
        if count.get() > IOV_MAX {
            return Err(-(errno::EINVAL as Ssize));
        }
        let part = |vector: &IoVec| part(vector.iov_base, vector.iov_len);
        Ok(match list.slice(count) {
            [only] => Self { first: part(only), parts: None },
            [first, .., _] => Self {
                first: part(first),
                parts: Some(list.slice(count).iter().map(part).collect()),
            },
            [] => Self { first: Part { base: NonNull::dangling(), length: 0 }, parts: None },
        })
    }

    /// Returns the size in bytes.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        match &self.parts {
            None => self.first.length,
            Some(parts) => parts.iter().map(|part| part.length).sum(),
        }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub(crate) const fn base(&self) -> *mut c_void {
        self.first.base.as_ptr().cast()
    }

    /// Returns all parts.
    #[inline(always)]
    pub(crate) fn parts(&self) -> &[Part] {
        match &self.parts {
            None => core::slice::from_ref(&self.first),
            Some(parts) => parts,
        }
    }

    /// Returns a cursor at the start of the buffer. The cursor is valid while the buffer stays in
    /// place or, with several parts, while it exists.
    ///
    /// # Safety
    ///
    /// The user's memory is valid as long as the cursor is used.
    #[inline(always)]
    pub(crate) unsafe fn cursor(&self) -> Cursor {
        // SAFETY: the user's memory outlasts the cursor (contract of `cursor`).
        unsafe {
            match &self.parts {
                None => Cursor::contiguous(self.first),
                Some(parts) => Cursor::parts(parts),
            }
        }
    }

    /// Copies as much of the beginning of `bytes` into the buffer as fits.
    ///
    /// # Safety
    ///
    /// The user's memory may be written.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, bytes: &[u8]) {
        if self.parts.is_none() {
            let (length, to) = (bytes.len().min(self.first.length), self.first.base.as_ptr());
            // SAFETY: the user's memory is valid (contract of `fill`), and does not overlap this
            // library's.
            unsafe {
                if length <= SHORT_MAX {
                    copy_short(bytes.as_ptr(), to, length);
                } else {
                    to.copy_from_nonoverlapping(bytes.as_ptr(), length);
                }
            }
            return;
        }
        // SAFETY: the user's memory is valid (contract of `fill`), and does not overlap this
        // library's.
        unsafe { self.cursor().scatter(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Copies the whole buffer to the beginning of `to`.
    ///
    /// # Safety
    ///
    /// The user's memory may be read, and `to` has room for it.
    pub(crate) unsafe fn copy_to(&self, to: *mut u8) {
        let mut to = to;
        for part in self.parts() {
            // SAFETY: the user's memory is valid (contract of `copy_to`), and does not overlap this
            // library's.
            unsafe {
                to.copy_from_nonoverlapping(part.base.as_ptr(), part.length);
                to = to.add(part.length);
            }
        }
    }

    /// Splits off the first `length` bytes of a buffer of one part.
    pub(crate) fn split(&mut self, length: usize) -> Self {
        let length = length.min(self.first.length);
        let front = Part { base: self.first.base, length };
        // SAFETY: the address is within the buffer, or one past its end.
        self.first.base = unsafe { self.first.base.add(length) };
        self.first.length -= length;
        Self { first: front, parts: None }
    }
}

#[inline(always)]
fn part(base: *const c_void, length: usize) -> Part {
    let base = NonNull::new(base.cast_mut().cast());
    // A null pointer leads to no bytes: the length is zero, or the user made a mistake.
    base.map_or(Part { base: NonNull::dangling(), length: 0 }, |base| Part { base, length })
}
