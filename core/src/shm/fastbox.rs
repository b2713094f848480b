//! The fastbox: a ring of cache lines from one rank to another that bypasses the queue
//! (`[Nemesis07]` §2).
//!
//! The paper's fastbox is one buffer and a flag that the receiver resets, so each message moves the
//! flag's line twice. Here the flag *is* the message's sequence number, in the same line as the
//! payload. A message of up to [`super::SHORT_MAX`] bytes costs one line transfer, and the receiver
//! never writes the line. The receiver reports what it has consumed lazily, on a separate line. A
//! ring of one line behaves like the paper's fastbox.
//!
//! Sender: one thread. Receiver: one thread. `send` and `peek` are wait-free. A full ring is not an
//! error: the message takes the queue instead, and the shared sequence numbers keep the order.
//! [`Line`] defines the layout of the lines.

use core::ptr::NonNull;

use super::line::{Line, LineMessage, lines_for, write_message, write_short, write_straight};
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{AtomicU64, CacheLine, Step, order, prefetch, prefetch_to_write, reached};
use crate::wire::{Corrupt, HeaderWord, Key, KindLength, PacketKind, Sequence};

/// The address of a fastbox.
#[derive(Clone, Copy, Debug)]
pub struct FastboxPtr {
    credit: NonNull<CacheLine<AtomicU64>>,
    lines: NonNull<Line>,
    /// Pointer one past the last line.
    end: NonNull<Line>,
    count: u32,
}

impl FastboxPtr {
    /// Describes the fastbox with the receiver's `credit` word and a ring of `count` lines at
    /// `lines`.
    ///
    /// # Safety
    ///
    /// Both stay valid while a sender or receiver made from this value is in use. `count` is at
    /// least 1. One sender and one receiver use the fastbox.
    #[must_use]
    pub const unsafe fn new(
        credit: NonNull<CacheLine<AtomicU64>>,
        lines: NonNull<Line>,
        count: u32,
    ) -> Self {
        // SAFETY: a pointer one past the ring is still in bounds of the ring's allocation.
        Self { credit, lines, end: unsafe { lines.add(count as usize) }, count }
    }
}

/// The sending end: private state of the source.
///
/// ```
/// use core::ptr::NonNull;
/// use strait_core::shm::{FastboxPtr, FastboxReceiver, FastboxSender, Line};
/// use strait_core::sync::{AtomicU64, CacheLine};
/// use strait_core::wire::{Key, PacketKind, Sequence};
///
/// let (credit, lines) = (CacheLine(AtomicU64::new(0)), [(); 8].map(|()| Line::empty()));
/// // SAFETY: both outlive the two ends, and no other end uses them.
/// let ring = unsafe { FastboxPtr::new((&credit).into(), NonNull::from(&lines).cast(), 8) };
/// let (mut sender, mut receiver) = (FastboxSender::new(ring), FastboxReceiver::new(ring));
///
/// let sequence = Sequence::first(0, 1);
/// let fill = |place: NonNull<u8>, offset, length| {
///     let piece = NonNull::from(&b"hello"[offset..offset + length]).cast();
///     // SAFETY: the fastbox lends `length` bytes at `place`.
///     unsafe { place.copy_from_nonoverlapping(piece, length) };
/// };
/// assert!(sender.send(sequence, PacketKind::Eager, Key::new(0, 7), 5, fill)?);
///
/// let found = receiver.peek(sequence).expect("the message has arrived");
/// let mut buffer = [0; 5];
/// // SAFETY: the buffer has room for the message.
/// unsafe { receiver.message().copy_short(NonNull::from(&mut buffer).cast(), found.length()) };
/// receiver.release(found.length());
/// assert_eq!(&buffer, b"hello");
/// # Ok::<(), strait_core::wire::Corrupt>(())
/// ```
#[derive(Debug)]
pub struct FastboxSender {
    /// The line in which the next message begins.
    next: NonNull<Line>,
    /// The line at which the short path stops. The ring wraps there, or the lines from there on may
    /// not be free. Equal to `next` while the end is shut.
    stop: NonNull<Line>,
    /// Number of lines sent when `next` reaches `stop`.
    sent_at_stop: u64,
    /// Number of lines that may be sent in total, by the credit that was read last.
    granted: u64,
    open: bool,
    ring: FastboxPtr,
}

// SAFETY: one thread at a time uses the end (`&mut self`), and the memory that it points to is
// designed for access by concurrent processes.
unsafe impl Send for FastboxSender {}

impl FastboxSender {
    /// Creates the sending end of an unused fastbox. The end is shut.
    #[must_use]
    pub const fn new(ring: FastboxPtr) -> Self {
        let granted = ring.count as u64;
        Self { next: ring.lines, stop: ring.lines, sent_at_stop: 0, granted, open: false, ring }
    }

    /// Allows short messages: the peer polls this fastbox, and no older message waits.
    pub const fn open(&mut self) {
        self.open = true;
    }

    /// Refuses short messages until [`FastboxSender::open`].
    pub fn shut(&mut self) {
        self.sent_at_stop = self.sent();
        self.stop = self.next;
        self.open = false;
    }

    /// Sends a whole message of at most [`super::SHORT_MAX`] bytes. Returns false, without sending,
    /// if the ring is full or shut.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, sequence: Sequence, key: Key, payload: &[u8]) -> bool {
        debug_assert!(payload.len() <= super::SHORT_MAX);
        if self.next == self.stop {
            return false;
        }
        // SAFETY: `next` is before `stop`, so it points into the ring, which is valid (contract of
        // `FastboxPtr::new`). The credit makes the line ours.
        unsafe { write_short(self.next, key, payload) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, PacketKind::Eager, payload.len());
        // SAFETY: `next` still points to that line.
        // ORDER fastbox/1: Release, pairs with fastbox/2: the payload comes before the header that
        //   announces it.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/1", Release));
        reached(Step::FastboxSent);
        // SAFETY: the result is at most one past the ring's last line.
        self.next = unsafe { self.next.add(1) };
        true
    }

    /// Sends a whole message of more than [`super::SHORT_MAX`] bytes. Returns false, without
    /// sending, if the end is shut or fewer lines than the message takes are before the next stop.
    /// Like [`FastboxSender::send_short`], it reads no credit and never wraps around the ring.
    #[inline(always)]
    #[must_use]
    pub fn send_straight(&mut self, sequence: Sequence, key: Key, payload: &[u8]) -> bool {
        debug_assert!(payload.len() > super::SHORT_MAX);
        let lines = lines_for(payload.len());
        if lines_between(self.next, self.stop) < u64::from(lines) {
            return false;
        }
        // SAFETY: the lines from `next` to `stop` are in the ring, which is valid (contract of
        // `FastboxPtr::new`), and the credit makes them ours. There are enough of them.
        unsafe { write_straight(self.next, key, payload) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, PacketKind::Eager, payload.len());
        // SAFETY: `next` still points to the first of those lines.
        // ORDER fastbox/5 again: Release, pairs with fastbox/2: every line of the message comes
        //   before its header.
        unsafe { self.next.as_ref() }.header.store(header.0, order("fastbox/5", Release));
        reached(Step::FastboxSent);
        // SAFETY: the result is at most `stop`, which is at most one past the ring's last line.
        self.next = unsafe { self.next.add(lines as usize) };
        true
    }

    /// Fetches the lines of a next message of `length` bytes, to write them, if they are known to
    /// be free.
    #[inline(always)]
    pub fn prefetch(&self, length: usize) {
        let lines = lines_for(length);
        if lines_between(self.next, self.stop) >= u64::from(lines) {
            (0..lines).for_each(|line| {
                prefetch_to_write(self.next.as_ptr().wrapping_add(line as usize));
            });
        }
    }

    /// Sends a message of up to [`crate::wire::FASTBOX_LENGTH_MAX`] bytes, which `fill` writes
    /// piece by piece.
    ///
    /// `fill(destination, offset, length)` must write the whole piece of the payload at `offset`.
    /// Returns false, without sending or calling `fill`, if too few lines are free.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] if the receiver's credit is impossible.
    pub fn send(
        &mut self,
        sequence: Sequence,
        kind: PacketKind,
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
        // SAFETY: the ring is valid (contract of `FastboxPtr::new`), and the credit makes `lines`
        // lines of it ours.
        unsafe { write_message(first, |line| self.ring.after(line, 1), key, length, fill) };
        reached(Step::FastboxFilled);
        let header = HeaderWord::new(sequence, kind, length);
        // SAFETY: `first` is the first of those lines.
        // ORDER fastbox/5: Release, pairs with fastbox/2: every line of the message comes before
        //   its header.
        unsafe { first.as_ref() }.header.store(header.0, order("fastbox/5", Release));
        reached(Step::FastboxSent);
        self.go_on_at(first, lines, sent + u64::from(lines));
        Ok(true)
    }

    /// Returns the number of lines sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent_at_stop - lines_between(self.next, self.stop)
    }

    /// Returns the number of lines that the receiver has reported as consumed.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] if the receiver's credit is impossible.
    pub fn consumed(&mut self) -> Result<u64, Corrupt> {
        self.read_credit()?;
        Ok(self.granted - u64::from(self.ring.count))
    }

    /// Returns the number of lines that the receiver has reported as consumed, and whether a
    /// message of `length` bytes has room.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] if the receiver's credit is impossible.
    pub fn look_for_room(&mut self, length: usize) -> Result<(u64, bool), Corrupt> {
        let consumed = self.consumed()?;
        Ok((consumed, self.granted - self.sent() >= u64::from(lines_for(length))))
    }

    /// Reads the receiver's credit.
    fn read_credit(&mut self) -> Result<(), Corrupt> {
        let sent = self.sent();
        // SAFETY: the credit word is valid (contract of `FastboxPtr::new`).
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/4: Acquire, pairs with fastbox/3: the receiver's reads of a line come
        //   before our rewrite of it.
        let consumed = credit.load(order("fastbox/4", Acquire));
        let granted = consumed.wrapping_add(u64::from(self.ring.count));
        if consumed > sent || granted < self.granted {
            return Err(Corrupt::Credit { found: consumed, sent });
        }
        self.granted = granted;
        Ok(())
    }

    /// Moves the short path to `lines` lines behind `at`; `sent` lines have been sent up to there.
    fn go_on_at(&mut self, at: NonNull<Line>, lines: u32, sent: u64) {
        self.next = self.ring.after(at, lines);
        // The difference fits 32 bits: the credit exceeds the lines sent by at most `count`.
        let until_end = self.ring.lines_from(self.next);
        let run = if self.open { until_end.min((self.granted - sent) as u32) } else { 0 };
        // SAFETY: the result is at most one past the ring's last line.
        self.stop = unsafe { self.next.add(run as usize) };
        self.sent_at_stop = sent + u64::from(run);
    }
}

impl FastboxPtr {
    /// Returns the line `lines` behind `at`, with wrap-around.
    ///
    /// `at` is a line of the ring or one past the last. `lines` is at most the ring's length; in
    /// the latter case it is less.
    #[inline(always)]
    fn after(&self, at: NonNull<Line>, lines: u32) -> NonNull<Line> {
        let mut next = at.as_ptr().wrapping_add(lines as usize);
        if next >= self.end.as_ptr() {
            next = next.wrapping_sub(self.count as usize);
        }
        // SAFETY: the callers meet the conditions above, so the pointer lies in the ring and is not
        // null.
        unsafe { NonNull::new_unchecked(next) }
    }

    /// Returns the number of lines from `at` to the ring's end.
    fn lines_from(&self, at: NonNull<Line>) -> u32 {
        // The result fits 32 bits: it is at most `count`.
        lines_between(at, self.end) as u32
    }
}

/// Returns the number of lines from `from` to `to`, which is not before `from`.
#[inline(always)]
fn lines_between(from: NonNull<Line>, to: NonNull<Line>) -> u64 {
    ((to.addr().get() - from.addr().get()) / size_of::<Line>()) as u64
}

/// The receiving end: private state of the destination.
#[derive(Debug)]
pub struct FastboxReceiver {
    /// The line in which the next message will begin.
    next: NonNull<Line>,
    /// A line after `next` at which credit is due and the ring may wrap.
    stop: NonNull<Line>,
    /// Number of lines consumed when `next` reaches `stop`.
    consumed_at_stop: u64,
    /// Number of lines between two credits: a quarter of the ring, at least 1.
    quarter: u32,
    ring: FastboxPtr,
}

// SAFETY: one thread at a time uses the end (`&mut self`), and the memory that it points to is
// designed for access by concurrent processes.
unsafe impl Send for FastboxReceiver {}

impl FastboxReceiver {
    /// Creates the receiving end of an unused fastbox.
    #[must_use]
    pub fn new(ring: FastboxPtr) -> Self {
        let (lines, quarter) = (ring.lines, ring.count.div_ceil(4));
        let mut end = Self { next: lines, stop: lines, consumed_at_stop: 0, quarter, ring };
        end.go_on_at(lines, 0);
        end
    }

    /// Returns kind and length of message `sequence` if it has arrived here. Costs one load and one
    /// subtraction.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, sequence: Sequence) -> Option<KindLength> {
        // SAFETY: `next` points into the ring, which is valid (contract of `FastboxPtr::new`).
        let line = unsafe { self.next.as_ref() };
        // ORDER fastbox/2: Acquire, pairs with fastbox/1 and fastbox/5: the message may be read.
        HeaderWord(line.header.load(order("fastbox/2", Acquire))).of_message(sequence)
    }

    /// Returns the message that the last `peek` found. It may be read until it is released.
    #[inline(always)]
    #[must_use]
    pub const fn message(&self) -> LineMessage {
        LineMessage::around(self.next, self.ring.lines, self.ring.count)
    }

    /// Returns true if a message of `length` bytes fits the ring. A correct sender sends no longer
    /// one.
    #[inline(always)]
    #[must_use]
    pub const fn holds(&self, length: usize) -> bool {
        lines_for(length) <= self.ring.count
    }

    /// Returns the number of lines of a message of `length` bytes, if they are in a row before the
    /// ring's end.
    #[inline(always)]
    #[must_use]
    pub fn straight(&self, length: usize) -> Option<u32> {
        let lines = lines_for(length);
        (u64::from(lines) < lines_between(self.next, self.ring.end)).then_some(lines)
    }

    /// Returns the lines of a message that is [straight](FastboxReceiver::straight); faster than
    /// [`FastboxReceiver::release`].
    ///
    /// # Safety
    ///
    /// [`FastboxReceiver::straight`] returned `lines` for the message that the last `peek` found.
    #[inline(always)]
    pub unsafe fn release_straight(&mut self, lines: u32) {
        // SAFETY: the message ends before the ring does (contract of `release_straight`).
        self.next = unsafe { self.next.add(lines as usize) };
        if self.next >= self.stop {
            let beyond = lines_between(self.stop, self.next);
            self.give_credit(self.next, self.consumed_at_stop + beyond);
        }
    }

    /// Prefetches the lines but the first of a message of `length` bytes that may arrive next.
    #[inline(always)]
    pub fn prefetch(&self, length: usize) {
        let mut line = self.next;
        for _ in 1..lines_for(length).min(self.ring.count) {
            line = self.ring.after(line, 1);
            prefetch(line);
        }
    }

    /// Returns the lines of the message that the last `peek` found to the sender.
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

    /// Returns the line of a message of one line to the sender; faster than
    /// [`FastboxReceiver::release`].
    #[inline(always)]
    pub fn release_short(&mut self) {
        // SAFETY: the result is at most one past the ring's last line.
        self.next = unsafe { self.next.add(1) };
        if self.next == self.stop {
            let next = if self.stop == self.ring.end { self.ring.lines } else { self.stop };
            self.give_credit(next, self.consumed_at_stop);
        }
    }

    /// Gives the credit now that would be due later. The sender waits to see what has been
    /// consumed.
    pub fn tell(&mut self) {
        let left = lines_between(self.next, self.stop);
        self.give_credit(self.next, self.consumed_at_stop - left);
    }

    /// Gives credit for `consumed` lines and lets the next message begin at `next`.
    ///
    /// The function is inlined because a call would make every receive save registers.
    #[inline(always)]
    fn give_credit(&mut self, next: NonNull<Line>, consumed: u64) {
        // SAFETY: the credit word is valid (contract of `FastboxPtr::new`).
        let credit = unsafe { self.ring.credit.as_ref() };
        // ORDER fastbox/3: Release, pairs with fastbox/4: our reads of the lines come before the
        //   credit.
        credit.store(consumed, order("fastbox/3", Release));
        self.go_on_at(next, consumed);
    }

    /// Sets the next stop a quarter of the ring behind `next`, or at the ring's end if that is
    /// nearer.
    #[inline(always)]
    fn go_on_at(&mut self, next: NonNull<Line>, consumed: u64) {
        let run = self.quarter.min(self.ring.lines_from(next));
        self.next = next;
        // SAFETY: the result is at most one past the ring's last line.
        self.stop = unsafe { next.add(run as usize) };
        self.consumed_at_stop = consumed + u64::from(run);
    }
}
