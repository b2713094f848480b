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

use super::line::{Line, LineMessage, lines_for, write_message, write_short};
use crate::layout::Corrupt;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{AtomicU64, CacheLine, Step, order, reached};
use crate::wire::{HeaderWord, Key, Kind, KindLength, Sequence};

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
    /// Where the short path has to stop, for the ring comes round there or its lines may not be ours. At `next` when the
    /// end is shut.
    stop: NonNull<Line>,
    /// Lines sent when `next` comes to `stop`.
    sent_at_stop: u64,
    /// Lines that may ever be sent by the credit read last.
    granted: u64,
    open: bool,
    ring: FastboxPtr,
}

// SAFETY: the end is used by one thread at a time (`&mut self`), and the memory it points to is made for
// concurrent processes.
unsafe impl Send for FastboxSender {}

impl FastboxSender {
    /// The sending end of a fastbox nobody has sent through yet, shut.
    #[must_use]
    pub const fn new(ring: FastboxPtr) -> Self {
        let granted = ring.count as u64;
        Self { next: ring.lines, stop: ring.lines, sent_at_stop: 0, granted, open: false, ring }
    }

    /// Lets short messages through: the peer looks here and nothing older waits.
    pub const fn open(&mut self) {
        self.open = true;
    }

    /// Keeps short messages back until [`FastboxSender::open`].
    pub fn shut(&mut self) {
        self.sent_at_stop = self.sent();
        self.stop = self.next;
        self.open = false;
    }

    /// Sends a whole message of at most [`super::SHORT_MAX`] bytes. False: the ring is full or shut, nothing was sent.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, sequence: Sequence, key: Key, payload: &[u8]) -> bool {
        debug_assert!(payload.len() <= super::SHORT_MAX);
        if self.next == self.stop {
            return false;
        }
        // SAFETY: before `stop`, `next` points into the ring, valid by the contract of `FastboxPtr::new`; it is ours by
        // credit.
        unsafe { write_short(self.next, key, payload) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, Kind::Eager, payload.len());
        // SAFETY: as above.
        // ORDER fastbox/1: Release, pairs with fastbox/2: the payload comes before the header that announces it.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/1", Release));
        reached(Step::FastboxSent);
        // SAFETY: at most one past the ring's last line.
        self.next = unsafe { self.next.add(1) };
        true
    }

    /// Sends a message of up to [`crate::wire::FASTBOX_LENGTH_MAX`] bytes that `fill` writes piece by piece:
    /// `fill(destination, offset, length)` must write the whole piece of the payload at `offset`.
    /// False: not enough free lines, nothing was sent and `fill` was not called.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] when the receiver's credit makes no sense.
    pub fn send(
        &mut self,
        sequence: Sequence,
        kind: Kind,
        key: Key,
        length: usize,
        fill: impl Fn(NonNull<u8>, usize, usize),
    ) -> Result<bool, Corrupt> {
        let (lines, sent) = (lines_for(length), self.sent());
        if self.granted - sent < u64::from(lines) {
            self.read_credit()?;
            if self.granted - sent < u64::from(lines) {
                return Ok(false);
            }
        }
        let first = self.ring.after(self.next, 0);
        // SAFETY: the ring is valid by the contract of `FastboxPtr::new`; `lines` lines of it are ours by credit.
        unsafe { write_message(first, |line| self.ring.after(line, 1), key, length, fill) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, kind, length);
        // SAFETY: as above.
        // ORDER fastbox/5: Release, pairs with fastbox/2: every line of the message comes before its header.
        unsafe { first.as_ref() }.header.store(header.0, order("fastbox/5", Release));
        reached(Step::FastboxSent);
        self.go_on_at(first, lines, sent + u64::from(lines));
        Ok(true)
    }

    /// Lines sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent_at_stop - lines_between(self.next, self.stop)
    }

    /// Lines of which the receiver has said that it has consumed them.
    ///
    /// # Errors
    ///
    /// As for [`FastboxSender::send`].
    pub fn consumed(&mut self) -> Result<u64, Corrupt> {
        self.read_credit()?;
        Ok(self.granted - u64::from(self.ring.count))
    }

    /// Reads the receiver's credit.
    fn read_credit(&mut self) -> Result<(), Corrupt> {
        let sent = self.sent();
        // SAFETY: valid by the contract of `FastboxPtr::new`.
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/4: Acquire, pairs with fastbox/3: the receiver's reads of a line come before our rewriting it.
        let consumed = credit.load(order("fastbox/4", Acquire));
        let granted = consumed.wrapping_add(u64::from(self.ring.count));
        if consumed > sent || granted < self.granted {
            return Err(Corrupt::Credit { found: consumed, sent });
        }
        self.granted = granted;
        Ok(())
    }

    /// Puts the short path `lines` lines behind `at`, where `sent` lines have been sent.
    fn go_on_at(&mut self, at: NonNull<Line>, lines: u32, sent: u64) {
        self.next = self.ring.after(at, lines);
        // At most `count` lines: what is granted is at most as much more than what was sent.
        let until_end = self.ring.lines_from(self.next);
        let run = if self.open { until_end.min((self.granted - sent) as u32) } else { 0 };
        // SAFETY: at most one past the ring's last line.
        self.stop = unsafe { self.next.add(run as usize) };
        self.sent_at_stop = sent + u64::from(run);
    }
}

impl FastboxPtr {
    /// The line `lines` behind `at`, around the ring. `at` is a line of it or one past the last, and `lines` is at most the
    /// ring's length, less by one in the latter case.
    #[inline(always)]
    fn after(&self, at: NonNull<Line>, lines: u32) -> NonNull<Line> {
        let mut next = at.as_ptr().wrapping_add(lines as usize);
        if next >= self.end.as_ptr() {
            next = next.wrapping_sub(self.count as usize);
        }
        // SAFETY: by the callers, it is in the ring.
        unsafe { NonNull::new_unchecked(next) }
    }

    /// Lines from `at` to the ring's end.
    fn lines_from(&self, at: NonNull<Line>) -> u32 {
        // No more than `count`.
        lines_between(at, self.end) as u32
    }
}

/// Lines from `from` on that lie before `to`, which is not before `from`.
#[inline(always)]
fn lines_between(from: NonNull<Line>, to: NonNull<Line>) -> u64 {
    ((to.addr().get() - from.addr().get()) / size_of::<Line>()) as u64
}

/// The receiving end: private state of the destination.
#[derive(Debug)]
pub struct FastboxReceiver {
    /// The line the next message will begin in.
    next: NonNull<Line>,
    /// Where credit is due, and the ring may come round: behind `next`.
    stop: NonNull<Line>,
    /// Lines consumed when `next` comes to `stop`.
    consumed_at_stop: u64,
    /// Lines between two credits: a quarter of the ring, at least 1.
    quarter: u32,
    ring: FastboxPtr,
}

// SAFETY: as for `FastboxSender`.
unsafe impl Send for FastboxReceiver {}

impl FastboxReceiver {
    /// The receiving end of a fastbox nobody has received from yet.
    #[must_use]
    pub fn new(ring: FastboxPtr) -> Self {
        let (lines, quarter) = (ring.lines, ring.count.div_ceil(4));
        let mut end = Self { next: lines, stop: lines, consumed_at_stop: 0, quarter, ring };
        end.go_on_at(lines, 0);
        end
    }

    /// Kind and length of message `sequence`, if it has arrived here. One load and one subtraction.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, sequence: Sequence) -> Option<KindLength> {
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
        let (lines, left) = (lines_for(length), lines_between(self.next, self.stop) as u32);
        let next = self.ring.after(self.next, lines);
        if lines < left {
            self.next = next;
        } else {
            self.give_credit(next, self.consumed_at_stop + u64::from(lines - left));
        }
    }

    /// As [`FastboxReceiver::release`], for a message of one line.
    #[inline(always)]
    pub fn release_short(&mut self) {
        // SAFETY: at most one past the ring's last line.
        self.next = unsafe { self.next.add(1) };
        if self.next == self.stop {
            let next = if self.stop == self.ring.end { self.ring.lines } else { self.stop };
            self.give_credit(next, self.consumed_at_stop);
        }
    }

    /// Gives the credit that is due later now: its sender waits to see what has been consumed.
    pub fn tell(&mut self) {
        let left = lines_between(self.next, self.stop);
        self.give_credit(self.next, self.consumed_at_stop - left);
    }

    /// The next message begins at `next`, before which `consumed` lines were consumed. Inlined, for a call would cost every
    /// receive the saving of registers.
    #[inline(always)]
    fn give_credit(&mut self, next: NonNull<Line>, consumed: u64) {
        // SAFETY: valid by the contract of `FastboxPtr::new`.
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/3: Release, pairs with fastbox/4.
        credit.store(consumed, order("fastbox/3", Release));
        self.go_on_at(next, consumed);
    }

    /// Puts the next stop a quarter of the ring behind `next`, or at the ring's end if that is nearer.
    #[inline(always)]
    fn go_on_at(&mut self, next: NonNull<Line>, consumed: u64) {
        let run = self.quarter.min(self.ring.lines_from(next));
        self.next = next;
        // SAFETY: at most one past the ring's last line.
        self.stop = unsafe { next.add(run as usize) };
        self.consumed_at_stop = consumed + u64::from(run);
    }
}
