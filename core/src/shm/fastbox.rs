//! The fastbox: a ring of cache lines from one rank to another that goes round the queue ([Nemesis07] §2).
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
use crate::sync::{AtomicU64, CacheLine, order};
use crate::wire::{HeaderWord, Key, Kind, KindLength};

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
        let header = HeaderWord::new(sequence, Kind::Eager, payload.len());
        // SAFETY: as above.
        // ORDER fastbox/1: Release, pairs with fastbox/2: the payload comes before the header that announces it.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/1", Release));
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
        unsafe { write_message(self.next, |line| self.ring.after(line, 1), key, length, fill) };
        let header = HeaderWord::new(sequence, kind, length);
        // SAFETY: as above. The edge is that of `send_short`, after every line of the message.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/1", Release));
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

    #[inline(always)]
    fn advance(&mut self, lines: u32) {
        self.free -= lines;
        self.next = self.ring.after(self.next, lines);
    }
}

impl FastboxPtr {
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
        // ORDER fastbox/3: Release, pairs with fastbox/4.
        credit.store(self.said, order("fastbox/3", Release));
    }
}
