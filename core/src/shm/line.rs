//! The cache line that carries a message, or a part of one: the element of fastbox and baton.

use core::ptr::NonNull;

use super::copy_short;
use crate::layout::golden;
use crate::sync::{AtomicU64, CACHE_LINE, UnsafeCell};
use crate::wire::Key;

/// Payload of a message that takes one line, bytes.
pub const SHORT_MAX: usize = 48;

/// Payload of each further line of a longer message, bytes.
pub const MORE_PER_LINE: usize = 56;

/// One line. A message takes as many in a row as its payload needs.
///
/// | line             | bytes  | contents                                              |
/// |------------------|-------:|-------------------------------------------------------|
/// | first            |  0..8  | header word: sequence number, kind, length            |
/// |                  |  8..16 | key: context and tag                                  |
/// |                  | 16..64 | payload, first [`SHORT_MAX`] bytes                    |
/// | each further one |  0..8  | an old header: its sequence number has passed         |
/// |                  |  8..64 | payload, next [`MORE_PER_LINE`] bytes                 |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line {
    pub(super) header: AtomicU64,
    /// [`BODY`] bytes, aligned for the key.
    body: UnsafeCell<[u64; BODY / 8]>,
}

const BODY: usize = CACHE_LINE - size_of::<u64>();

golden::structure!(Line { header, body });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    const_assert_eq!(size_of::<Line>(), CACHE_LINE);
    const_assert_eq!(offset_of!(Line, body), 8);
    const_assert_eq!(SHORT_MAX, BODY - size_of::<Key>());
    const_assert_eq!(MORE_PER_LINE, BODY);
};

// SAFETY: `header` is atomic; `body` is reached by one side at a time, which headers (fastbox/1, baton/1) and credits
// (fastbox/3) prove, explored by loom.
unsafe impl Sync for Line {}

impl Line {
    /// A line in its zeroed state, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self { header: AtomicU64::new(0), body: UnsafeCell::new([0; BODY / 8]) }
    }
}

/// Lines that a message of `length` bytes takes.
#[inline(always)]
pub(super) const fn lines_for(length: usize) -> u32 {
    // The key takes its part of the first.
    (length + size_of::<Key>()).div_ceil(MORE_PER_LINE) as u32
}

/// The line `lines` behind `at` in the ring of `count` lines at `first`.
///
/// # Safety
///
/// `at` lies in the ring and `lines` is at most `count`, or `at` is one past its last line and `lines` is less.
#[inline(always)]
pub(super) unsafe fn step(
    at: NonNull<Line>,
    lines: u32,
    first: NonNull<Line>,
    count: u32,
) -> NonNull<Line> {
    // SAFETY: one past the ring's end is still in bounds of its allocation, and the step back by a whole ring brings
    // whatever lies beyond its last line into the ring; `wrapping` keeps the sum in between defined.
    unsafe {
        let end = first.as_ptr().add(count as usize);
        let mut next = at.as_ptr().wrapping_add(lines as usize);
        if next >= end {
            next = next.wrapping_sub(count as usize);
        }
        NonNull::new_unchecked(next)
    }
}

/// Writes key and payload of a message of one line. The header, which publishes it, is the caller's.
///
/// # Safety
///
/// `line` is valid and in the caller's hands; `payload` has at most [`SHORT_MAX`] bytes.
#[inline(always)]
pub(super) unsafe fn write_short(line: NonNull<Line>, key: Key, payload: &[u8]) {
    // SAFETY: the line is ours by the contract. 8 bytes of key and at most 48 of payload fit its 56 bytes, which are
    // 8-aligned.
    unsafe {
        line.as_ref().body.with_mut(|body| {
            let body = body.cast::<u8>();
            body.cast::<u64>().write(key.0);
            copy_short(payload.as_ptr(), body.add(size_of::<Key>()), payload.len());
        });
    }
}

/// Writes all of a message but its header: `fill(destination, offset, length)` writes the piece of the payload at
/// `offset`, `next` gives the line behind one.
///
/// The first line, which the receiver is polling, is written last, so that it is taken away from the receiver once
/// and not a second time for the header.
///
/// # Safety
///
/// From `first` on, [`lines_for`]`(length)` lines are valid and in the caller's hands.
#[inline(always)]
pub(super) unsafe fn write_message(
    first: NonNull<Line>,
    next: impl Fn(NonNull<Line>) -> NonNull<Line>,
    key: Key,
    length: usize,
    fill: impl Fn(NonNull<u8>, usize, usize),
) {
    let mut at = first;
    let mut done = length.min(SHORT_MAX);
    let beginning = done;
    while done < length {
        at = next(at);
        let piece = (length - done).min(BODY);
        // SAFETY: one of the message's lines, ours by the contract; the piece fits it; a pointer into it is not null.
        unsafe {
            at.as_ref().body.with_mut(|body| {
                fill(NonNull::new_unchecked(body.cast()), done, piece);
            });
        }
        done += piece;
    }
    // SAFETY: the first line is ours, too; key and `beginning` bytes fit it.
    unsafe {
        first.as_ref().body.with_mut(|body| {
            body.cast::<u64>().write(key.0);
            fill(NonNull::new_unchecked(body.cast::<u8>().add(size_of::<Key>())), 0, beginning);
        });
    }
}

/// A message that has arrived in lines, to be read before it is released.
#[derive(Clone, Copy, Debug)]
pub struct LineMessage {
    first: NonNull<Line>,
    ring: NonNull<Line>,
    count: u32,
}

impl LineMessage {
    /// A message at `first` in the ring of `count` lines at `ring`.
    #[inline(always)]
    pub(super) const fn around(first: NonNull<Line>, ring: NonNull<Line>, count: u32) -> Self {
        Self { first, ring, count }
    }

    /// Context and tag.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> Key {
        // SAFETY: whoever made this value saw the message's header, so its lines are valid and ours to read until
        // released; any bytes are a key.
        unsafe { self.first.as_ref().body.with(|body| Key(body.cast::<u64>().read())) }
    }

    /// Copies the payload of a message of one line: `length` bytes, at most [`SHORT_MAX`].
    ///
    /// # Safety
    ///
    /// `destination` is valid for writes of `length` bytes.
    #[inline(always)]
    pub unsafe fn copy_short(&self, destination: NonNull<u8>, length: usize) {
        debug_assert!(length <= SHORT_MAX);
        // SAFETY: as in `key`; the payload begins behind the 8 bytes of key and has at most 48 bytes.
        unsafe {
            self.first.as_ref().body.with(|body| {
                let payload = body.cast::<u8>().add(size_of::<Key>());
                copy_short(payload, destination.as_ptr(), length);
            });
        }
    }

    /// Reads `length` bytes of payload: `take(source, piece)` is called with consecutive pieces.
    #[inline(always)]
    pub fn copy(&self, length: usize, mut take: impl FnMut(NonNull<u8>, usize)) {
        let mut take_from = |line: NonNull<Line>, skip, piece| {
            // SAFETY: as in `key`, for each line of the message; a pointer into a line is not null.
            unsafe {
                line.as_ref().body.with(|body| {
                    take(NonNull::new_unchecked(body.cast_mut().cast::<u8>().add(skip)), piece);
                });
            }
        };
        let mut at = self.first;
        let mut done = length.min(SHORT_MAX);
        take_from(at, size_of::<Key>(), done);
        while done < length {
            // SAFETY: as in `key`.
            at = unsafe { step(at, 1, self.ring, self.count) };
            let piece = (length - done).min(BODY);
            take_from(at, 0, piece);
            done += piece;
        }
    }
}
