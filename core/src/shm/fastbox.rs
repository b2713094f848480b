//! The fastbox: a ring of cache lines from one rank to another that goes round the queue (`[Nemesis07]` §2).
//!
//! The paper's fastbox is one buffer and a flag that the receiver resets, so each message moves the flag's line
//! twice. Here the flag *is* the message's sequence number, in the same line as the payload: a message of up to
//! [`super::SHORT_MAX`] bytes is one line transfer, and the receiver never writes the line. What it has consumed it says
//! lazily, on a line of its own. A ring of one line behaves like the paper's.
//!
//! Sender: one thread. Receiver: one thread. `send` and `peek` are wait-free. A full ring is not an error: the
//! message goes through the queue, and the shared sequence numbers keep the order.
//! Lines are laid out as [`Line`] says.

use core::ptr::NonNull;

use super::line::{Line, LineMessage, lines_for, step, write_message, write_short};
use crate::layout::Corrupt;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{AtomicU64, CacheLine, Step, order, reached};
use crate::wire::{HeaderWord, Key, Kind, KindLength};

/// Where a fastbox lies.
#[derive(Clone, Copy, Debug)]
pub struct FastboxPtr {
    credit: NonNull<CacheLine<AtomicU64>>,
    lines: NonNull<Line>,
    /// One past the last line.
    end: NonNull<Line>,
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
        // SAFETY: one past the ring is still in bounds of its allocation.
        Self { credit, lines, end: unsafe { lines.add(count as usize) }, count }
    }
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

    /// Sends a whole message of at most [`super::SHORT_MAX`] bytes. False: the ring is full, nothing was sent.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, sequence: u64, key: Key, payload: &[u8]) -> bool {
        debug_assert!(payload.len() <= super::SHORT_MAX);
        if self.free == 0 {
            return false;
        }
        // SAFETY: `next` points into the ring, valid by the contract of `FastboxPtr::new`; it is ours by credit.
        unsafe { write_short(self.next, key, payload) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, Kind::Eager, payload.len());
        // SAFETY: as above.
        // ORDER fastbox/1: Release, pairs with fastbox/2: the payload comes before the header that announces it.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/1", Release));
        reached(Step::FastboxSent);
        self.free -= 1;
        self.next = self.ring.next(self.next);
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
        fill: impl FnMut(NonNull<u8>, usize),
    ) -> Result<bool, Corrupt> {
        let lines = lines_for(length);
        if self.free < lines {
            self.refill()?;
            if self.free < lines {
                return Ok(false);
            }
        }
        // SAFETY: the ring is valid by the contract of `FastboxPtr::new`; `lines` lines of it are ours by credit.
        unsafe { write_message(self.next, |line| self.ring.next(line), key, length, fill) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, kind, length);
        // SAFETY: as above.
        // ORDER fastbox/5: Release, pairs with fastbox/2: every line of the message comes before its header.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/5", Release));
        reached(Step::FastboxSent);
        self.free -= lines;
        self.next = self.ring.after(self.next, lines);
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
        // ORDER fastbox/4: Acquire, pairs with fastbox/3: the receiver's reads of a line come before our rewriting it.
        let consumed = credit.load(order("fastbox/4", Acquire));
        let granted = consumed.wrapping_add(u64::from(self.ring.count));
        if consumed > sent || granted < self.granted {
            return Err(Corrupt::Credit { found: consumed, sent });
        }
        // At most `count`: `consumed <= sent`.
        self.free = (granted - sent) as u32;
        self.granted = granted;
        Ok(())
    }
}

impl FastboxPtr {
    /// The line behind `at`, around the ring.
    #[inline(always)]
    fn next(&self, at: NonNull<Line>) -> NonNull<Line> {
        // SAFETY: `at` is a line of the ring, so the one behind it is, or is `end`.
        let next = unsafe { at.add(1) };
        if next == self.end { self.lines } else { next }
    }

    /// The line `lines` behind `at`, around the ring; `lines` is at most the ring's length.
    #[inline(always)]
    fn after(&self, at: NonNull<Line>, lines: u32) -> NonNull<Line> {
        // SAFETY: `at` is in the ring and `lines` is at most its length, by the callers.
        unsafe { step(at, lines, self.lines, self.count) }
    }
}

/// The receiving end: private state of the destination.
#[derive(Debug)]
pub struct FastboxReceiver {
    /// The line the next message will begin in.
    next: NonNull<Line>,
    /// Lines to consume until credit is given; below zero when a long message overshot.
    until_credit: i32,
    /// Lines consumed when that count reaches zero.
    next_credit: u64,
    /// A quarter of the ring, at least 1.
    credit_every: u32,
    ring: FastboxPtr,
}

// SAFETY: as for `FastboxSender`.
unsafe impl Send for FastboxReceiver {}

impl FastboxReceiver {
    /// The receiving end of a fastbox nobody has received from yet.
    #[must_use]
    pub const fn new(ring: FastboxPtr) -> Self {
        let credit_every = if ring.count < 4 { 1 } else { ring.count / 4 };
        Self {
            next: ring.lines,
            until_credit: credit_every as i32,
            next_credit: credit_every as u64,
            credit_every,
            ring,
        }
    }

    /// Kind and length of message `sequence`, if it has arrived here. One load and one subtraction.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, sequence: u64) -> Option<KindLength> {
        // SAFETY: `next` points into the ring, valid by the contract of `FastboxPtr::new`.
        let line = unsafe { self.next.as_ref() };
        // ORDER fastbox/2: Acquire, pairs with fastbox/1 and fastbox/5.
        HeaderWord(line.header.load(order("fastbox/2", Acquire))).of_message(sequence)
    }

    /// The message that the last `peek` found. It may be read until it is released.
    #[inline(always)]
    #[must_use]
    pub const fn message(&self) -> LineMessage {
        LineMessage::around(self.next, self.ring.lines, self.ring.count)
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
        let lines = lines_for(length);
        self.next = self.ring.after(self.next, lines);
        self.count_released(lines);
    }

    /// As [`FastboxReceiver::release`], for a message of one line.
    #[inline(always)]
    pub fn release_short(&mut self) {
        self.next = self.ring.next(self.next);
        self.count_released(1);
    }

    #[inline(always)]
    fn count_released(&mut self, lines: u32) {
        self.until_credit -= lines as i32;
        if self.until_credit <= 0 {
            self.give_credit();
        }
    }

    #[cold]
    fn give_credit(&mut self) {
        let consumed = self.next_credit + u64::from(self.until_credit.unsigned_abs());
        self.next_credit = consumed + u64::from(self.credit_every);
        self.until_credit = self.credit_every as i32;
        // SAFETY: valid by the contract of `FastboxPtr::new`.
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/3: Release, pairs with fastbox/4.
        credit.store(consumed, order("fastbox/3", Release));
    }
}
