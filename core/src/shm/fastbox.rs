//! The fastbox: a ring of cache lines from one rank to another that goes round the queue ([Nemesis07] §2).
//!
//! The paper's fastbox is one buffer and a flag that the receiver resets, so each message moves the flag's line
//! twice. Here the flag *is* the message's sequence number, in the same line as the payload: a message of up to
//! [`SHORT_MAX`] bytes is one line transfer, and the receiver never writes the line. What it has consumed it says
//! lazily, on a line of its own. A ring of one line behaves like the paper's.
//!
//! Sender: one thread. Receiver: one thread. `send` and `peek` are wait-free. A full ring is not an error: the
//! message goes through the queue, and the shared sequence numbers keep the order.
//!
//! | line            | bytes  | contents                                                   |
//! |-----------------|-------:|------------------------------------------------------------|
//! | first           |  0..8  | header word: sequence number, kind, length                 |
//! |                 |  8..16 | key: context and tag                                       |
//! |                 | 16..64 | payload, first [`SHORT_MAX`] bytes                         |
//! | each further one|  0..8  | zero, so that no old payload can look like a header        |
//! |                 |  8..64 | payload, next [`MORE_PER_LINE`] bytes                      |

use core::ptr::NonNull;

use memoffset::offset_of;
use static_assertions::const_assert_eq;

use super::copy_short;
use crate::layout::Corrupt;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, CACHE_LINE, CacheLine, UnsafeCell, order, prefetch_write};
use crate::wire::{HeaderWord, Key, Kind, KindLength};

/// Payload of a message that takes one line, bytes.
pub const SHORT_MAX: usize = 48;

/// Payload of each further line of a longer message, bytes.
pub const MORE_PER_LINE: usize = 56;

/// One line of the ring.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line {
    header: AtomicU64,
    body: UnsafeCell<[u8; 56]>,
}

#[cfg(not(strait_loom))]
const _: () = {
    const_assert_eq!(size_of::<Line>(), CACHE_LINE);
    const_assert_eq!(offset_of!(Line, body), 8);
};

// SAFETY: `header` is atomic; `body` is reached by one side at a time, which headers (fastbox/1) and credits
// (fastbox/4) prove, explored by loom.
unsafe impl Sync for Line {}

impl Line {
    /// A line in its zeroed state, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self { header: AtomicU64::new(0), body: UnsafeCell::new([0; 56]) }
    }
}

/// Where a fastbox lies.
#[derive(Clone, Copy, Debug)]
pub struct FastboxPtr {
    credit: NonNull<CacheLine<AtomicU64>>,
    lines: NonNull<Line>,
    count: u32,
}

impl FastboxPtr {
    /// The fastbox with the receiver's `credit` word and a ring of `count` lines at `lines`.
    ///
    /// # Safety
    ///
    /// Both stay valid as long as a sender or receiver made from this value is used, `count` is at least 1, and
    /// the fastbox is used by one sender and one receiver.
    #[must_use]
    pub const unsafe fn new(
        credit: NonNull<CacheLine<AtomicU64>>,
        lines: NonNull<Line>,
        count: u32,
    ) -> Self {
        Self { credit, lines, count }
    }
}

/// Lines that a message of `length` bytes takes.
#[inline(always)]
const fn lines_for(length: usize) -> u32 {
    1 + length.saturating_sub(SHORT_MAX).div_ceil(MORE_PER_LINE) as u32
}

/// The sending end: private state of the source.
#[derive(Debug)]
pub struct FastboxSender {
    /// The line the next message begins in.
    next: NonNull<Line>,
    /// Lines that may be written before the receiver's credit must be read again. Zero also closes the fast path.
    free: u32,
    /// Lines that may ever be written by the credit read last.
    granted: u64,
    ring: FastboxPtr,
}

// SAFETY: the end is used by one thread at a time (`&mut self`), and the memory it points to is made for
// concurrent processes.
unsafe impl Send for FastboxSender {}

impl FastboxSender {
    /// The sending end of a fastbox nobody has sent through yet.
    #[must_use]
    pub const fn new(ring: FastboxPtr) -> Self {
        Self { next: ring.lines, free: ring.count, granted: ring.count as u64, ring }
    }

    /// Shuts the short path until [`FastboxSender::send`] reads the credit again.
    pub const fn shut(&mut self) {
        self.granted -= self.free as u64;
        self.free = 0;
    }

    /// Sends a whole message of at most [`SHORT_MAX`] bytes. False: the ring is full, nothing was sent.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, sequence: u64, key: Key, payload: &[u8]) -> bool {
        debug_assert!(payload.len() <= SHORT_MAX);
        if self.free == 0 {
            return false;
        }
        // SAFETY: `next` points into the ring, which is valid by the contract of `FastboxPtr::new`.
        let line = unsafe { self.next.as_ref() };
        line.body.with_mut(|body| {
            let body = body.cast::<u8>();
            // SAFETY: the line is ours: the receiver gave credit for it. 8 bytes of key and at most 48 of payload fit
            // its 56 bytes, which are 8-aligned.
            unsafe {
                body.cast::<u64>().write(key.0);
                copy_short(payload.as_ptr(), body.add(8), payload.len());
            }
        });
        let header = HeaderWord::new(sequence, Kind::Eager, payload.len());
        // ORDER fastbox/1: Release, pairs with fastbox/2: the payload comes before the header that announces it.
        line.header.store(header.0, order("fastbox/1", Release));
        self.advance(1);
        true
    }

    /// Sends a message of up to [`crate::wire::FASTBOX_LENGTH_MAX`] bytes that `fill` writes piece by piece:
    /// `fill(destination, length)` is called with consecutive pieces and must write each whole.
    /// False: not enough free lines, nothing was sent and `fill` was not called.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] when the receiver's credit makes no sense.
    pub fn send(
        &mut self,
        sequence: u64,
        kind: Kind,
        key: Key,
        length: usize,
        mut fill: impl FnMut(NonNull<u8>, usize),
    ) -> Result<bool, Corrupt> {
        let lines = lines_for(length);
        if self.free < lines {
            self.refill()?;
            if self.free < lines {
                return Ok(false);
            }
        }
        let first = self.next;
        let mut at = first;
        let mut left = length;
        for number in 0..lines {
            // SAFETY: `at` walks the ring, valid by the contract of `FastboxPtr::new`.
            let line = unsafe { at.as_ref() };
            let (skip, room) = if number == 0 { (8, SHORT_MAX) } else { (0, MORE_PER_LINE) };
            let piece = left.min(room);
            line.body.with_mut(|body| {
                // SAFETY: the line is ours by credit; key and piece fit its 56 bytes; a pointer into it is not null.
                unsafe {
                    if number == 0 {
                        body.cast::<u64>().write(key.0);
                    }
                    if piece > 0 {
                        fill(NonNull::new_unchecked(body.cast::<u8>().add(skip)), piece);
                    }
                }
            });
            if number > 0 {
                // ORDER fastbox/3: Relaxed. Published by fastbox/1 of this message, like the payload.
                line.header.store(0, order("fastbox/3", Relaxed));
            }
            left -= piece;
            at = self.ring.after(at, 1);
        }
        let header = HeaderWord::new(sequence, kind, length);
        // SAFETY: as above. ORDER fastbox/1 again: Release, after every line of the message.
        unsafe { first.as_ref() }.header.store(header.0, order("fastbox/1", Release));
        self.advance(lines);
        Ok(true)
    }

    /// Reads the receiver's credit.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] when it says that more was consumed than sent, or less than before.
    #[cold]
    pub fn refill(&mut self) -> Result<(), Corrupt> {
        let sent = self.granted - u64::from(self.free);
        // SAFETY: valid by the contract of `FastboxPtr::new`.
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/5: Acquire, pairs with fastbox/4: the receiver's reads of a line come before our rewriting it.
        let consumed = credit.load(order("fastbox/5", Acquire));
        let granted = consumed.wrapping_add(u64::from(self.ring.count));
        if consumed > sent || granted < self.granted {
            return Err(Corrupt::Credit { found: consumed, sent });
        }
        // At most `count`: `consumed <= sent`.
        self.free = (granted - sent) as u32;
        self.granted = granted;
        Ok(())
    }

    #[inline(always)]
    fn advance(&mut self, lines: u32) {
        self.free -= lines;
        self.next = self.ring.after(self.next, lines);
        // The next message's line, off the critical path of this one: its store will find the line writable.
        prefetch_write(self.next.as_ptr());
    }
}

impl FastboxPtr {
    /// The line `lines` behind `at`, around the ring; `lines` is at most the ring's length.
    #[inline(always)]
    fn after(&self, at: NonNull<Line>, lines: u32) -> NonNull<Line> {
        // SAFETY: one past the ring's end is still in bounds of its allocation, and the step back by a whole ring
        // brings whatever lies beyond it into the ring; `wrapping` keeps the sum in between defined.
        unsafe {
            let end = self.lines.as_ptr().add(self.count as usize);
            let mut next = at.as_ptr().wrapping_add(lines as usize);
            if next >= end {
                next = next.wrapping_sub(self.count as usize);
            }
            NonNull::new_unchecked(next)
        }
    }
}

/// The receiving end: private state of the destination.
#[derive(Debug)]
pub struct FastboxReceiver {
    /// The line the next message will begin in.
    next: NonNull<Line>,
    /// Lines consumed since the last credit.
    unsaid: u32,
    /// Give credit when so many lines are consumed.
    credit_every: u32,
    /// Lines consumed, as the sender knows it.
    said: u64,
    ring: FastboxPtr,
}

// SAFETY: as for `FastboxSender`.
unsafe impl Send for FastboxReceiver {}

impl FastboxReceiver {
    /// The receiving end of a fastbox nobody has received from yet.
    #[must_use]
    pub const fn new(ring: FastboxPtr) -> Self {
        let quarter = ring.count / 4;
        let credit_every = if quarter == 0 { 1 } else { quarter };
        Self { next: ring.lines, unsaid: 0, credit_every, said: 0, ring }
    }

    /// Kind and length of message `sequence`, if it has arrived here. One load and one subtraction.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, sequence: u64) -> Option<KindLength> {
        // SAFETY: `next` points into the ring, valid by the contract of `FastboxPtr::new`.
        let line = unsafe { self.next.as_ref() };
        // ORDER fastbox/2: Acquire, pairs with fastbox/1.
        HeaderWord(line.header.load(order("fastbox/2", Acquire))).of_message(sequence)
    }

    /// The message that the last `peek` found. It may be read until it is released.
    #[inline(always)]
    #[must_use]
    pub const fn message(&self) -> FastboxMessage {
        FastboxMessage { first: self.next, ring: self.ring }
    }

    /// True when a message of `length` bytes fits the ring at all: what a correct sender keeps to.
    #[inline(always)]
    #[must_use]
    pub const fn holds(&self, length: usize) -> bool {
        lines_for(length) <= self.ring.count
    }

    /// Gives the lines of the message that the last `peek` found back to the sender.
    #[inline(always)]
    pub fn release(&mut self, length: usize) {
        self.release_lines(lines_for(length));
    }

    /// As [`FastboxReceiver::release`], for a message of one line.
    #[inline(always)]
    pub fn release_short(&mut self) {
        self.release_lines(1);
    }

    #[inline(always)]
    fn release_lines(&mut self, lines: u32) {
        self.next = self.ring.after(self.next, lines);
        self.unsaid += lines;
        if self.unsaid >= self.credit_every {
            self.give_credit();
        }
    }

    #[cold]
    fn give_credit(&mut self) {
        self.said += u64::from(self.unsaid);
        self.unsaid = 0;
        // SAFETY: valid by the contract of `FastboxPtr::new`.
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/4: Release, pairs with fastbox/5.
        credit.store(self.said, order("fastbox/4", Release));
    }
}

/// A message in the ring, to be read before it is released.
#[derive(Clone, Copy, Debug)]
pub struct FastboxMessage {
    first: NonNull<Line>,
    ring: FastboxPtr,
}

impl FastboxMessage {
    /// Context and tag.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> Key {
        // SAFETY: `first` points into the ring (contract of `FastboxPtr::new`); the header that `peek` acquired made the
        // body ours to read until `release`; any bytes are a key.
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
                copy_short(body.cast::<u8>().add(8), destination.as_ptr(), length);
            });
        }
    }

    /// Reads `length` bytes of payload: `take(source, piece)` is called with consecutive pieces.
    pub fn copy(&self, length: usize, mut take: impl FnMut(NonNull<u8>, usize)) {
        let mut at = self.first;
        let mut left = length;
        let mut skip = 8;
        while left > 0 {
            let piece = left.min(56 - skip);
            // SAFETY: `at` walks the ring; the message's lines are ours to read until `release`; a pointer into a
            // line is not null.
            unsafe {
                at.as_ref().body.with(|body| {
                    take(NonNull::new_unchecked(body.cast_mut().cast::<u8>().add(skip)), piece);
                });
            }
            left -= piece;
            skip = 0;
            at = self.ring.after(at, 1);
        }
    }
}
