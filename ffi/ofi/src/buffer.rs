//! Buffers of the user's, in one part or several.

use core::ffi::c_void;
use core::ptr::NonNull;

use strait_core::progress::{Cursor, Part};
use strait_core::shm::{SHORT_MAX, copy_short};

use crate::abi::{IoVec, Ssize, errno};
use crate::wire::IOV_MAX;

/// A buffer that the user leaves to an operation until its completion.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// The only part, or the first.
    first: Part,
    /// All parts, where there are several.
    parts: Option<Box<[Part]>>,
}

impl Buffer {
    /// One part.
    #[inline(always)]
    pub(crate) fn one(base: *const c_void, length: usize) -> Self {
        Self { first: part(base, length), parts: None }
    }

    /// The parts of a list.
    ///
    /// # Errors
    ///
    /// There are too many.
    ///
    /// # Safety
    ///
    /// `list` points to `count` of them.
    pub(crate) unsafe fn list(list: *const IoVec, count: usize) -> Result<Self, Ssize> {
        if count > IOV_MAX {
            return Err(-(errno::EINVAL as Ssize));
        }
        if count == 0 {
            return Ok(Self::one(core::ptr::null(), 0));
        }
        // SAFETY: by the contract.
        let list = unsafe { core::slice::from_raw_parts(list, count) };
        let part = |vector: &IoVec| part(vector.iov_base, vector.iov_len);
        Ok(match list {
            [only] => Self { first: part(only), parts: None },
            [first, ..] => {
                Self { first: part(first), parts: Some(list.iter().map(part).collect()) }
            }
            [] => Self::one(core::ptr::null(), 0),
        })
    }

    /// Bytes.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        match &self.parts {
            None => self.first.length,
            Some(parts) => parts.iter().map(|part| part.length).sum(),
        }
    }

    /// The first byte.
    #[inline(always)]
    pub(crate) const fn base(&self) -> *mut c_void {
        self.first.base.as_ptr().cast()
    }

    /// All parts.
    #[inline(always)]
    pub(crate) fn parts(&self) -> &[Part] {
        match &self.parts {
            None => core::slice::from_ref(&self.first),
            Some(parts) => parts,
        }
    }

    /// A cursor at its start, to be used no longer than the buffer stays where it is, or, of several parts, is kept.
    ///
    /// # Safety
    ///
    /// The user's memory is valid as long as the cursor is used.
    #[inline(always)]
    pub(crate) unsafe fn cursor(&self) -> Cursor {
        // SAFETY: by the contract.
        unsafe {
            match &self.parts {
                None => Cursor::contiguous(self.first),
                Some(parts) => Cursor::parts(parts),
            }
        }
    }

    /// Copies the beginning of `bytes` into it, as much as has room.
    ///
    /// # Safety
    ///
    /// The user's memory may be written.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, bytes: &[u8]) {
        if self.parts.is_none() {
            let (length, to) = (bytes.len().min(self.first.length), self.first.base.as_ptr());
            // SAFETY: by the contract; a user's buffer does not overlap ours.
            unsafe {
                if length <= SHORT_MAX {
                    copy_short(bytes.as_ptr(), to, length);
                } else {
                    to.copy_from_nonoverlapping(bytes.as_ptr(), length);
                }
            }
            return;
        }
        // SAFETY: as above.
        unsafe { self.cursor().scatter(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Copies at most [`SHORT_MAX`] bytes into a buffer of one part that has room for all of them. False: it is no such case, and
    /// nothing was done.
    ///
    /// # Safety
    ///
    /// The user's memory may be written.
    #[inline(always)]
    pub(crate) unsafe fn fill_short(&self, bytes: &[u8]) -> bool {
        let suits = self.parts.is_none() & (bytes.len() <= self.first.length);
        if suits && bytes.len() <= SHORT_MAX {
            // SAFETY: by the contract; a user's buffer does not overlap ours.
            unsafe { copy_short(bytes.as_ptr(), self.first.base.as_ptr(), bytes.len()) };
            return true;
        }
        false
    }

    /// Copies all of it to the beginning of `to`.
    ///
    /// # Safety
    ///
    /// The user's memory may be read, and `to` has room for it.
    pub(crate) unsafe fn copy_to(&self, to: *mut u8) {
        let mut to = to;
        for part in self.parts() {
            // SAFETY: by the contract; a user's buffer does not overlap ours.
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
        // SAFETY: within the buffer, or one past its end.
        self.first.base = unsafe { self.first.base.add(length) };
        self.first.length -= length;
        Self { first: front, parts: None }
    }
}

#[inline(always)]
fn part(base: *const c_void, length: usize) -> Part {
    let base = NonNull::new(base.cast_mut().cast());
    // Nobody reads or writes behind a null pointer: then the length is zero, or the user's mistake.
    base.map_or(Part { base: NonNull::dangling(), length: 0 }, |base| Part { base, length })
}
