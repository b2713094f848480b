//! A cursor: the place of the next byte in a buffer that may have several parts.

use core::ptr::NonNull;

use super::copy::{Stores, copy_bulk, fill};

/// One contiguous part of a buffer. Same layout as POSIX `struct iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Part {
    /// First byte; any non-null pointer when `length` is zero.
    pub base: NonNull<u8>,
    /// Length in bytes.
    pub length: usize,
}

/// The rest of a buffer of one or more parts.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    part: Part,
    further: NonNull<Part>,
    further_count: usize,
}

impl Cursor {
    /// Returns a cursor at the start of one contiguous buffer.
    ///
    /// # Safety
    ///
    /// The buffer stays valid as long as the cursor or a copy of it is used: for reads when
    /// gathered from, and for writes when scattered to.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn contiguous(part: Part) -> Self {
        Self { part, further: NonNull::dangling(), further_count: 0 }
    }

    /// Returns a cursor at the start of a buffer of several parts.
    ///
    /// # Safety
    ///
    /// Each part, and the slice of parts itself, stays valid as long as the cursor or a copy of it
    /// is used. A part is valid for reads when gathered from, and for writes when scattered to.
    #[must_use]
    pub const unsafe fn parts(parts: &[Part]) -> Self {
        match parts {
            [] => Self {
                part: Part { base: NonNull::dangling(), length: 0 },
                further: NonNull::dangling(),
                further_count: 0,
            },
            [first, further @ ..] => Self {
                part: *first,
                // SAFETY: a slice's pointer is not null.
                further: unsafe { NonNull::new_unchecked(further.as_ptr().cast_mut()) },
                further_count: further.len(),
            },
        }
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let mut bytes = self.part.length;
        for number in 0..self.further_count {
            // SAFETY: the caller of `parts` guarantees that the slice of parts is valid.
            bytes += unsafe { self.further.add(number).read() }.length;
        }
        bytes
    }

    /// Returns the number of parts left, including empty ones; at least 1.
    #[must_use]
    pub const fn count_parts(&self) -> usize {
        self.further_count + 1
    }

    /// Returns the rest, if it is one contiguous piece and not empty.
    #[must_use]
    pub fn in_one_part(&self) -> Option<Part> {
        (self.further_count == 0 && self.part.length > 0).then_some(self.part)
    }

    /// Returns the place for `length` bytes, if the first part of the rest has room for them.
    #[inline(always)]
    #[must_use]
    pub const fn place_for(&self, length: usize) -> Option<NonNull<u8>> {
        if length <= self.part.length { Some(self.part.base) } else { None }
    }

    /// Returns the longest contiguous piece at the start of the rest; `None` at the end.
    #[must_use]
    pub fn first(mut self) -> Option<Part> {
        self.skip_empty().then_some(self.part)
    }

    /// Writes the pieces of the next `length` bytes to `into`, as many as have room there. Returns
    /// their number.
    #[must_use]
    pub fn list(mut self, length: usize, into: &mut [Part]) -> usize {
        let mut count = 0;
        self.walk(length, |base, _, length| {
            if let Some(part) = into.get_mut(count) {
                *part = Part { base, length };
                count += 1;
            }
        });
        count
    }

    /// Returns the cursor `length` bytes further on, or at the end if that is nearer.
    #[must_use]
    pub fn after(mut self, length: usize) -> Self {
        self.walk(length, |_, _, _| {});
        self
    }

    /// Calls `each` for consecutive pieces of the next `length` bytes, as far as there are any.
    pub fn pieces(mut self, length: usize, mut each: impl FnMut(Part)) {
        self.walk(length, |base, _, length| each(Part { base, length }));
    }

    /// Copies the next `length` bytes, or as many as are left, to `destination`, where a peer reads
    /// them.
    ///
    /// # Safety
    ///
    /// `destination` is valid for writes of `length` bytes and does not overlap the buffer.
    pub unsafe fn gather(&mut self, destination: NonNull<u8>, length: usize) {
        // SAFETY: the caller guarantees a valid destination (contract of `gather`).
        unsafe { self.gather_by(Stores::Cached, destination, length) };
    }

    /// Copies the next `length` bytes, or as many as are left, to `destination`, where a peer reads
    /// them, by `stores` if that makes a difference ([`fill`]).
    ///
    /// # Safety
    ///
    /// `destination` is valid for writes of `length` bytes and does not overlap the buffer.
    pub unsafe fn gather_by(&mut self, stores: Stores, destination: NonNull<u8>, length: usize) {
        self.walk(length, |part, done, piece| {
            // SAFETY: `walk` gives pieces of the buffer, and together no more than `length` bytes.
            unsafe { fill(part.as_ptr(), destination.add(done).as_ptr(), piece, stores) };
        });
    }

    /// Copies `length` bytes from `source` to the next places of the buffer. Bytes that do not fit
    /// are left out.
    ///
    /// # Safety
    ///
    /// `source` is valid for reads of `length` bytes and does not overlap the buffer.
    pub unsafe fn scatter(&mut self, source: NonNull<u8>, length: usize) {
        // SAFETY: the caller guarantees a valid source (contract of `scatter`).
        unsafe { self.scatter_by(Stores::Cached, source, length) };
    }

    /// Copies `length` bytes from `source` to the next places of the buffer, by `stores`. Bytes
    /// that do not fit are left out.
    ///
    /// # Safety
    ///
    /// `source` is valid for reads of `length` bytes and does not overlap the buffer.
    pub unsafe fn scatter_by(&mut self, stores: Stores, source: NonNull<u8>, length: usize) {
        self.walk(length, |part, done, piece| {
            // SAFETY: `walk` gives pieces of the buffer, and together no more than `length` bytes.
            unsafe { copy_bulk(source.add(done).as_ptr(), part.as_ptr(), piece, stores) };
        });
    }

    /// Calls `each(part, done, piece)` for consecutive pieces of the next `length` bytes: a pointer
    /// to the piece, the bytes before it, its length.
    #[inline]
    fn walk(&mut self, length: usize, mut each: impl FnMut(NonNull<u8>, usize, usize)) {
        let mut done = 0;
        while done < length && self.skip_empty() {
            let piece = self.part.length.min(length - done);
            each(self.part.base, done, piece);
            // SAFETY: `piece` is within the part.
            self.part.base = unsafe { self.part.base.add(piece) };
            self.part.length -= piece;
            done += piece;
        }
    }

    /// Advances to the next part that is not empty, if this one is empty. Returns false at the end.
    #[inline]
    fn skip_empty(&mut self) -> bool {
        while self.part.length == 0 {
            if self.further_count == 0 {
                return false;
            }
            // SAFETY: the caller of `parts` guarantees that the slice of parts is valid. The
            // pointer stays within the slice or one past its end.
            unsafe {
                self.part = self.further.read();
                self.further = self.further.add(1);
            }
            self.further_count -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &mut [u8]) -> Part {
        Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }
    }

    #[test]
    fn bytes_cross_parts_in_order() {
        let (mut a, mut b, mut c) = ([1_u8, 2, 3], [], [4_u8, 5]);
        let parts = [part(&mut a), part(&mut b), part(&mut c)];
        // SAFETY: the arrays outlive the cursor.
        let mut cursor = unsafe { Cursor::parts(&parts) };
        assert_eq!(cursor.remaining(), 5);
        let mut out = [0_u8; 8];
        let to = NonNull::from(&mut out).cast::<u8>();
        // SAFETY: `out` is longer than what is copied.
        unsafe {
            cursor.gather(to, 2);
            cursor.gather(to.add(2), 3);
        }
        assert_eq!(out, [1, 2, 3, 4, 5, 0, 0, 0]);
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut small = [0_u8; 3];
        let parts = [part(&mut small)];
        let from = [9_u8; 5];
        // SAFETY: the arrays outlive the cursor and do not overlap.
        unsafe {
            Cursor::parts(&parts).scatter(NonNull::from(&from).cast(), 5);
        }
        assert_eq!(small, [9; 3]);
    }

    #[test]
    fn a_buffer_of_no_parts_holds_nothing() {
        // SAFETY: an empty piece has no bytes that must stay valid.
        assert_eq!(unsafe { Cursor::parts(&[]) }.remaining(), 0);
    }
}
