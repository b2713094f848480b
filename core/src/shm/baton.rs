//! The baton: a few lines that two ranks write in turn.
//!
//! When two ranks answer each other, a message in a ring moves two cache lines. The sender must
//! take its next line away from the receiver, which is polling it, and the receiver must fetch it
//! back. But a core that has just *read* a line can write it at no cost, since most processors hand
//! a modified line over whole.
//!
//! So the answer uses the same lines as the question. Each message costs one line transfer, the
//! cost of bouncing a bare cache line. The rank that read last holds the baton and may write. A
//! rank that does not hold it uses the ring ([`super::FastboxSender`]). A stream of messages in one
//! direction thus begins with the baton and continues through the ring. The shared sequence numbers
//! keep the order.
//!
//! Participants: the two ranks of a pair, one thread each. All operations are wait-free. The lower
//! rank holds the baton first.
//! Absent on purpose: an acknowledgement (the answer is one), a wait for the baton.
//!
//! The lines have the layout of the fastbox. The sequence number in a header says which of the two
//! ranks wrote it.

use core::ptr::NonNull;

use super::line::{Line, LineMessage, lines_for, write_message, write_short, write_straight};
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{Step, order, prefetch, reached};
use crate::wire::{HeaderWord, Key, KindLength, PacketKind, Sequence};

/// One rank's end of the baton of a pair: private state.
///
/// ```
/// use core::ptr::NonNull;
/// use strait_core::shm::{Baton, Line};
/// use strait_core::wire::{Key, Sequence};
///
/// let lines = [(); 4].map(|()| Line::empty());
/// // SAFETY: the lines outlive the two ends, and no other end uses them.
/// let [mut lower, mut higher] =
///     [false, true].map(|higher| unsafe { Baton::new(NonNull::from(&lines).cast(), 4, higher) });
/// lower.open();
/// higher.open();
/// let (question, answer, key) = (Sequence::first(0, 1), Sequence::first(1, 0), Key::new(0, 7));
///
/// assert!(!higher.send_short(answer, key, b"me first"), "the lower rank holds the baton");
/// assert!(lower.send_short(question, key, b"question"));
/// assert_eq!(higher.peek(question).map(|found| found.length()), Some(8));
/// higher.release();
/// assert!(higher.send_short(answer, key, b"answer"));
/// assert_eq!(lower.peek(answer).map(|found| found.length()), Some(6));
/// ```
#[derive(Debug)]
pub struct Baton {
    lines: NonNull<Line>,
    count: u32,
    /// The flags [`HELD`] and [`OPEN`]. They fit a byte: the compiler writes only that one, and a
    /// read of more than was written last waits until all earlier writes have reached the cache.
    state: u8,
}

// SAFETY: one thread at a time uses the end (`&mut self`), and the memory that it points to is
// designed for access by concurrent processes.
unsafe impl Send for Baton {}

/// Flag: this rank read last, so it may write the lines.
const HELD: u8 = 1;

/// Flag: the peer polls the baton, and no older message waits to be sent.
const OPEN: u8 = 2;

impl Baton {
    /// Creates one end of the baton in the `count` lines at `lines`. The end is shut.
    ///
    /// The lower rank of the pair holds the baton. With no lines the baton is never used.
    ///
    /// # Safety
    ///
    /// The lines stay valid while this value is in use. One end of each of the two ranks uses them.
    #[must_use]
    pub const unsafe fn new(lines: NonNull<Line>, count: u32, higher: bool) -> Self {
        Self { lines, count, state: if higher { 0 } else { HELD } }
    }

    /// Allows sends: the peer polls the baton, and no older message waits.
    pub const fn open(&mut self) {
        if self.count > 0 {
            self.state |= OPEN;
        }
    }

    /// Refuses sends until [`Baton::open`].
    pub const fn shut(&mut self) {
        self.state &= !OPEN;
    }

    /// Sends a whole message of at most [`super::SHORT_MAX`] bytes. Returns false, without sending,
    /// if this rank does not hold the baton or the end is shut.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, sequence: Sequence, key: Key, payload: &[u8]) -> bool {
        if self.state != HELD | OPEN {
            return false;
        }
        // SAFETY: the lines are valid (contract of `new`). They are ours to write because this rank
        // holds the baton.
        unsafe { write_short(self.lines, key, payload) };
        self.pass(HeaderWord::new(sequence, PacketKind::Eager, payload.len()));
        true
    }

    /// Returns whether a message of `length` bytes may be sent.
    #[inline(always)]
    #[must_use]
    pub const fn may_send(&self, length: usize) -> bool {
        self.state == HELD | OPEN && lines_for(length) <= self.count
    }

    /// Sends a whole message of more than [`super::SHORT_MAX`] bytes. Returns false, without
    /// sending, unless [`Baton::may_send`].
    #[inline(always)]
    #[must_use]
    pub fn send_straight(&mut self, sequence: Sequence, key: Key, payload: &[u8]) -> bool {
        debug_assert!(payload.len() > super::SHORT_MAX);
        if !self.may_send(payload.len()) {
            return false;
        }
        // SAFETY: the lines are valid (contract of `new`) and ours, since this rank holds the
        // baton. They are enough for the message.
        unsafe { write_straight(self.lines, key, payload) };
        self.pass(HeaderWord::new(sequence, PacketKind::Eager, payload.len()));
        true
    }

    /// Sends a message that `fill` writes piece by piece: `fill(destination, offset, length)` must
    /// write the whole piece of the payload at `offset`.
    ///
    /// Returns false, without sending, if this rank does not hold the baton, the end is shut, or
    /// the baton has too few lines.
    pub fn send(
        &mut self,
        sequence: Sequence,
        kind: PacketKind,
        key: Key,
        length: usize,
        fill: impl Fn(NonNull<u8>, usize, usize),
    ) -> bool {
        if !self.may_send(length) {
            return false;
        }
        // SAFETY: the lines are valid (contract of `new`) and ours, since this rank holds the
        // baton. They are enough for the message.
        unsafe { write_message(self.lines, |line| line.add(1), key, length, fill) };
        self.pass(HeaderWord::new(sequence, kind, length));
        true
    }

    #[inline(always)]
    fn pass(&mut self, header: HeaderWord) {
        // SAFETY: the line is valid (contract of `new`).
        let line = unsafe { self.lines.as_ref() };
        reached(Step::BatonFilled);
        // ORDER baton/1: Release, pairs with the peer's baton/2: the payload comes before the
        //   header. So do our reads of the previous message, which used the same lines.
        line.header.store(header.0, order("baton/1", Release));
        reached(Step::BatonPassed);
        self.state &= !HELD;
    }

    /// Returns kind and length of message `sequence` if it has arrived here.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, sequence: Sequence) -> Option<KindLength> {
        // SAFETY: the line is valid (contract of `new`).
        let line = unsafe { self.lines.as_ref() };
        // ORDER baton/2: Acquire, pairs with baton/1: the payload may be read, and later
        //   overwritten.
        HeaderWord(line.header.load(order("baton/2", Acquire))).of_message(sequence)
    }

    /// Prefetches all further lines of a message of `length` bytes, which fits. The copy would
    /// request them one after the other.
    #[inline(always)]
    pub fn prefetch(&self, length: usize) {
        for line in 1..lines_for(length) {
            // SAFETY: the line is one of the baton's lines.
            prefetch(unsafe { self.lines.add(line as usize) });
        }
    }

    /// Returns the message that the last `peek` found. It may be read until it is released.
    #[inline(always)]
    #[must_use]
    pub const fn message(&self) -> LineMessage {
        LineMessage::around(self.lines, self.lines, self.count)
    }

    /// Returns true if a message of `length` bytes fits the baton. A correct sender sends no longer
    /// one.
    #[must_use]
    pub const fn holds(&self, length: usize) -> bool {
        lines_for(length) <= self.count
    }

    /// Ends the reading of the message that the last `peek` found. This rank now holds the baton.
    #[inline(always)]
    pub const fn release(&mut self) {
        self.state |= HELD;
    }
}
