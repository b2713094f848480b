//! Buffers of the user, in one part or several.

use core::ffi::c_void;
use core::ptr::NonNull;

use strait_core::buffer::copy::copy_short;
use strait_core::buffer::{Cursor, Part};
use strait_core::shm::SHORT_MAX;

use crate::abi::{IoVec, Ioc, LengthArg, ListArg, MemoryArg, Ssize, errno};
use crate::wire::IOV_MAX;

/// A part of a buffer that the user lends to an operation.
///
/// Invariant: its memory is valid until the operation has ended, and the operation alone uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserPart(Part);

/// A buffer that the user lends to an operation.
///
/// Invariant: that of its parts. An operation that injects has ended when the call returns.
#[derive(Debug)]
pub(crate) struct UserBuffer {
    /// The first part, or the only part.
    first: UserPart,
    /// All parts, when there are several.
    parts: Option<Box<[Part]>>,
}

impl UserPart {
    /// No memory.
    pub(crate) const EMPTY: Self = Self(Part { base: NonNull::dangling(), length: 0 });

    /// Returns the size in bytes.
    #[inline(always)]
    pub(crate) const fn length(self) -> usize {
        self.0.length
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub(crate) const fn base(self) -> *mut u8 {
        self.0.base.as_ptr()
    }
}

impl UserBuffer {
    /// Makes a buffer of one part.
    #[inline(always)]
    pub(crate) fn one(base: MemoryArg, length: LengthArg) -> Self {
        Self { first: UserPart(part(base.as_ptr(), length.get())), parts: None }
    }

    /// Makes a buffer of this part alone.
    #[inline(always)]
    pub(crate) const fn of_part(first: UserPart) -> Self {
        Self { first, parts: None }
    }

    /// Returns the part of a buffer that has only one.
    #[inline(always)]
    pub(crate) const fn only_part(&self) -> Option<UserPart> {
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
        Ok(Self::of_parts(list.slice(count).iter().map(part)))
    }

    /// Makes a buffer of elements of `size` bytes.
    pub(crate) fn elements(list: &[Ioc], size: usize) -> Self {
        Self::of_parts(list.iter().map(|ioc| part(ioc.addr.as_ptr(), ioc.bytes(size))))
    }

    fn of_parts(mut parts: impl ExactSizeIterator<Item = Part>) -> Self {
        if parts.len() > 1 {
            let parts: Box<[Part]> = parts.collect();
            return Self { first: UserPart(parts[0]), parts: Some(parts) };
        }
        Self { first: parts.next().map_or(UserPart::EMPTY, UserPart), parts: None }
    }

    /// Returns the size in bytes.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        match &self.parts {
            None => self.first.length(),
            Some(parts) => parts.iter().map(|part| part.length).sum(),
        }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub(crate) const fn base(&self) -> *mut c_void {
        self.first.base().cast()
    }

    /// Returns all parts.
    #[inline(always)]
    pub(crate) fn parts(&self) -> &[Part] {
        match &self.parts {
            None => core::slice::from_ref(&self.first.0),
            Some(parts) => parts,
        }
    }

    /// Returns a cursor at the start of the buffer. The cursor is valid while the buffer stays in
    /// place or, with several parts, while it exists.
    ///
    /// # Safety
    ///
    /// The cursor is not used after the operation to which the buffer belongs.
    #[inline(always)]
    pub(crate) unsafe fn cursor(&self) -> Cursor {
        // SAFETY: the memory is valid until the operation ends (invariant), and the cursor is not
        // used later (contract of `cursor`).
        unsafe {
            match &self.parts {
                None => Cursor::contiguous(self.first.0),
                Some(parts) => Cursor::parts(parts),
            }
        }
    }

    /// Copies as much of the beginning of `bytes` into the buffer as fits.
    #[inline(always)]
    pub(crate) fn fill(&self, bytes: &[u8]) {
        if self.parts.is_none() {
            let (length, to) = (bytes.len().min(self.first.length()), self.first.base());
            // SAFETY: the user's memory is valid (invariant), and does not overlap this library's.
            unsafe {
                if length <= SHORT_MAX {
                    copy_short(bytes.as_ptr(), to, length);
                } else {
                    to.copy_from_nonoverlapping(bytes.as_ptr(), length);
                }
            }
            return;
        }
        // SAFETY: the operation has not ended. The user's memory does not overlap this library's.
        unsafe { self.cursor().scatter(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Copies the buffer to the beginning of `to`. What does not fit is left out.
    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        let mut to = to;
        for part in self.parts() {
            let (front, rest) = to.split_at_mut(part.length.min(to.len()));
            // SAFETY: the user's memory is valid (invariant), and does not overlap this library's.
            unsafe {
                front.as_mut_ptr().copy_from_nonoverlapping(part.base.as_ptr(), front.len());
            }
            to = rest;
        }
    }

    /// Splits off the first `length` bytes of a buffer of one part.
    pub(crate) fn split(&mut self, length: usize) -> Self {
        let Part { base, length: all } = self.first.0;
        let length = length.min(all);
        // SAFETY: the address is within the buffer, or one past its end.
        self.first = UserPart(Part { base: unsafe { base.add(length) }, length: all - length });
        Self { first: UserPart(Part { base, length }), parts: None }
    }
}

#[inline(always)]
fn part(base: *const c_void, length: usize) -> Part {
    let base = NonNull::new(base.cast_mut().cast());
    // A null pointer leads to no bytes: the length is zero, or the user made a mistake.
    base.map_or(Part { base: NonNull::dangling(), length: 0 }, |base| Part { base, length })
}
