//! The cache line that carries a message or a part of one: the element of fastbox and baton.

use core::ptr::NonNull;

use crate::buffer::copy::{copy_piece, copy_short};
use crate::golden;
use crate::sync::{AtomicU64, CACHE_LINE, UnsafeCell, prefetch_to_write};
use crate::wire::{Key, MORE_PER_LINE, SHORT_MAX};

/// One line. A message takes as many consecutive lines as its payload needs.
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

// SAFETY: `header` is atomic. One side at a time accesses `body`: headers (fastbox/1, baton/1) and
// credits (fastbox/3) hand it over, as explored by loom.
unsafe impl Sync for Line {}

impl Line {
    /// Creates a zeroed line, for models and tests. In a segment, zeroed memory has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self { header: AtomicU64::new(0), body: UnsafeCell::new([0; BODY / 8]) }
    }
}

/// A sender prefetches the lines of messages above this length in bytes. The processor fetches the
/// few lines of a shorter one at the same time without that.
const PREFETCHED_FROM: usize = 256;

/// Returns the number of lines that a message of `length` bytes takes.
#[inline(always)]
pub(super) const fn lines_for(length: usize) -> u32 {
    // The key takes its part of the first line. `div_ceil` would take further instructions for the
    // remainder.
    1 + ((length + size_of::<Key>() - 1) / MORE_PER_LINE) as u32
}

/// Returns the line `lines` behind `at` in the ring of `count` lines at `first`.
///
/// # Safety
///
/// `at` lies in the ring and `lines` is at most `count`, or `at` is one past the last line and
/// `lines` is less than `count`.
#[inline(always)]
pub(super) unsafe fn step(
    at: NonNull<Line>,
    lines: u32,
    first: NonNull<Line>,
    count: u32,
) -> NonNull<Line> {
    // SAFETY: one past the ring's end is still in bounds of its allocation. A step back by a whole
    // ring brings a pointer beyond the last line into the ring. `wrapping` keeps the sum in between
    // defined.
    unsafe {
        let end = first.as_ptr().add(count as usize);
        let mut next = at.as_ptr().wrapping_add(lines as usize);
        if next >= end {
            next = next.wrapping_sub(count as usize);
        }
        NonNull::new_unchecked(next)
    }
}

/// Writes key and payload of a message of one line. The caller writes the header, which publishes
/// the message.
///
/// # Safety
///
/// `line` is valid, and the caller has exclusive access to its body. `payload` has at most
/// [`SHORT_MAX`] bytes.
#[inline(always)]
pub(super) unsafe fn write_short(line: NonNull<Line>, key: Key, payload: &[u8]) {
    // SAFETY: the caller guarantees that the line is ours (contract of `write_short`). 8 bytes of
    // key and at most 48 of payload fit its 56 bytes, which are 8-aligned.
    unsafe {
        line.as_ref().body.with_mut(|body| {
            let body = body.cast::<u8>();
            body.cast::<u64>().write(key.0);
            copy_short(payload.as_ptr(), body.add(size_of::<Key>()), payload.len());
        });
    }
}

/// Writes a message of more than [`SHORT_MAX`] bytes into consecutive lines, except for its header.
/// The first line is written last, as in [`write_message`].
///
/// # Safety
///
/// From `first` on, [`lines_for`]`(payload.len())` consecutive lines are valid, and the caller has
/// exclusive access to their bodies. `payload` has more than [`SHORT_MAX`] bytes.
#[inline(always)]
pub(super) unsafe fn write_straight(first: NonNull<Line>, key: Key, payload: &[u8]) {
    debug_assert!(payload.len() > SHORT_MAX);
    if payload.len() > PREFETCHED_FROM {
        // The receiver has read the lines. They come back at the same time, not one after the
        // other.
        for line in 1..lines_for(payload.len()) {
            prefetch_to_write(first.as_ptr().wrapping_add(line as usize));
        }
    }
    let (mut at, mut from, mut left) = (first, payload.as_ptr(), payload.len() - SHORT_MAX);
    // SAFETY: the payload has more than `SHORT_MAX` bytes (contract of `write_straight`). The loop
    // takes the `left` bytes behind them, piece by piece, and writes each piece into the next of
    // the message's lines, which are ours. A piece fits its line.
    unsafe {
        from = from.add(SHORT_MAX);
        while left > 0 {
            at = at.add(1);
            let piece = left.min(BODY);
            at.as_ref().body.with_mut(|body| copy_piece(from, body.cast(), piece));
            from = from.add(piece);
            left -= piece;
        }
        first.as_ref().body.with_mut(|body| {
            body.cast::<u64>().write(key.0);
            let to = body.cast::<u8>().add(size_of::<Key>());
            copy_short(payload.as_ptr(), to, SHORT_MAX);
        });
    }
}

/// Writes a message except for its header.
///
/// `fill(destination, offset, length)` writes the piece of the payload at `offset`. `next` returns
/// the line behind a line.
///
/// The first line, which the receiver is polling, is written last. It is thus taken away from the
/// receiver once, and not a second time for the header.
///
/// # Safety
///
/// From `first` on, [`lines_for`]`(length)` lines are valid, and the caller has exclusive access to
/// their bodies.
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
        // SAFETY: the line is one of the message's lines and ours (contract of `write_message`).
        // The piece fits it, and a pointer into it is not null.
        unsafe {
            at.as_ref().body.with_mut(|body| {
                fill(NonNull::new_unchecked(body.cast()), done, piece);
            });
        }
        done += piece;
    }
    // SAFETY: the first line is also ours. The key and `beginning` bytes fit it.
    unsafe {
        first.as_ref().body.with_mut(|body| {
            body.cast::<u64>().write(key.0);
            fill(NonNull::new_unchecked(body.cast::<u8>().add(size_of::<Key>())), 0, beginning);
        });
    }
}

/// A message that has arrived in lines. It is read before it is released.
#[derive(Clone, Copy, Debug)]
pub struct LineMessage {
    first: NonNull<Line>,
    ring: NonNull<Line>,
    count: u32,
}

impl LineMessage {
    /// Describes a message at `first` in the ring of `count` lines at `ring`.
    #[inline(always)]
    pub(super) const fn around(first: NonNull<Line>, ring: NonNull<Line>, count: u32) -> Self {
        Self { first, ring, count }
    }

    /// Returns context and tag of the message.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> Key {
        // SAFETY: the maker of this value saw the message's header. Its lines are therefore valid
        // and ours to read until released, and any bytes are a key.
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
        // SAFETY: the line is valid and ours to read, as in `key`. The payload begins behind the 8
        // bytes of key and has at most 48 bytes.
        unsafe {
            self.first.as_ref().body.with(|body| {
                let payload = body.cast::<u8>().add(size_of::<Key>());
                copy_short(payload, destination.as_ptr(), length);
            });
        }
    }

    /// Returns the payload of a message of one line that has `N` bytes. They need not go through
    /// memory, as those of [`LineMessage::copy`] do.
    #[inline(always)]
    #[must_use]
    pub fn payload<const N: usize>(&self) -> [u8; N] {
        const { assert!(N <= SHORT_MAX, "the payload takes several lines") };
        // SAFETY: the line is valid and ours to read, as in `key`. The payload begins behind the 8
        // bytes of key and has room for 48 bytes.
        unsafe {
            self.first.as_ref().body.with(|body| {
                let payload = body.cast::<u8>().add(size_of::<Key>());
                payload.cast::<[u8; N]>().read()
            })
        }
    }

    /// Copies the payload, which has the length of `buffer`, out of consecutive lines.
    ///
    /// # Safety
    ///
    /// The message does not wrap around the ring.
    #[inline(always)]
    pub unsafe fn copy_straight(&self, buffer: &mut [u8]) {
        let (to, length) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the message's lines are consecutive (contract of `copy_straight`). Each is valid
        // and ours to read, as in `key`. The buffer has room for the pieces, which are `length`
        // bytes in all.
        unsafe {
            if length <= SHORT_MAX {
                return self.copy_short(NonNull::from(buffer).cast(), length);
            }
            let (mut at, mut done) = (self.first, SHORT_MAX);
            at.as_ref().body.with(|body| {
                copy_short(body.cast::<u8>().add(size_of::<Key>()), to, SHORT_MAX);
            });
            while done < length {
                at = at.add(1);
                let piece = (length - done).min(BODY);
                at.as_ref().body.with(|body| copy_piece(body.cast(), to.add(done), piece));
                done += piece;
            }
        }
    }

    /// Reads `length` bytes of payload. Calls `take(source, piece)` with consecutive pieces.
    #[inline(always)]
    pub fn copy(&self, length: usize, mut take: impl FnMut(NonNull<u8>, usize)) {
        let mut take_from = |line: NonNull<Line>, skip, piece| {
            // SAFETY: each line of the message is valid and ours to read, as in `key`. A pointer
            // into a line is not null.
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
            // SAFETY: `at` is a line of the message, so it lies in the ring, which is valid as in
            // `key`.
            at = unsafe { step(at, 1, self.ring, self.count) };
            let piece = (length - done).min(BODY);
            take_from(at, 0, piece);
            done += piece;
        }
    }
}
