//! The baton: a few lines that two ranks write in turn.
//!
//! When two ranks answer each other, a message in a ring moves two cache lines' worth of traffic: the sender must
//! take its next line away from the receiver, which is polling it, and the receiver must fetch it back. But whoever
//! has just *read* a line can write it at no cost, since most processors hand a modified line over whole. So the
//! answer goes into the very lines the question came in: one line transfer a message, which is what bouncing a bare
//! cache line costs. Whoever read last holds the baton and may write; who does not hold it uses the ring
//! ([`super::FastboxSender`]), so a stream of messages in one direction begins with the baton and goes on through
//! the ring. The shared sequence numbers keep the order.
//!
//! Participants: the two ranks of a pair, one thread each. All operations are wait-free. The lower rank holds it first.
//! Absent on purpose: an acknowledgement (the answer is one), a wait for the baton.
//!
//! Lines are laid out as in the fastbox; the sequence number in a header says which of the two ranks wrote it.

use core::ptr::NonNull;

use super::line::{Line, LineMessage, lines_for, write_message, write_short};
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{Step, order, prefetch, reached};
use crate::wire::{HeaderWord, Key, Kind, KindLength, Sequence};

/// One rank's end of the baton of a pair: private state.
#[derive(Debug)]
pub struct Baton {
    lines: NonNull<Line>,
    count: u32,
    /// [`HELD`] and [`OPEN`].
    state: u32,
}

// SAFETY: the end is used by one thread at a time (`&mut self`), and the memory it points to is made for concurrent
// processes.
unsafe impl Send for Baton {}

/// We read last, so the lines are ours to write.
const HELD: u32 = 1;

/// The peer looks here, and nothing older waits to be sent.
const OPEN: u32 = 2;

impl Baton {
    /// One end of the baton in `count` lines at `lines`, not open yet. The lower rank of the pair holds it. With no
    /// lines it is never used.
    ///
    /// # Safety
    ///
    /// The lines stay valid as long as this value is used, and are used by one end of each rank.
    #[must_use]
    pub const unsafe fn new(lines: NonNull<Line>, count: u32, higher: bool) -> Self {
        Self { lines, count, state: if higher { 0 } else { HELD } }
    }

    /// Lets sends through: the peer looks here and nothing older waits.
    pub const fn open(&mut self) {
        if self.count > 0 {
            self.state |= OPEN;
        }
    }

    /// Keeps sends back until [`Baton::open`].
    pub const fn shut(&mut self) {
        self.state &= !OPEN;
    }

    /// Sends a whole message of at most [`super::SHORT_MAX`] bytes. False: the baton is not here, nothing was sent.
    #[inline(always)]
    #[must_use]
    pub fn send_short(&mut self, sequence: Sequence, key: Key, payload: &[u8]) -> bool {
        if self.state != HELD | OPEN {
            return false;
        }
        // SAFETY: valid by the contract of `new`, and ours to write: we hold the baton.
        unsafe { write_short(self.lines, key, payload) };
        self.pass(HeaderWord::new(sequence, Kind::Eager, payload.len()));
        true
    }

    /// Sends a message that `fill` writes piece by piece, as [`super::FastboxSender::send`] does. False: the baton is not
    /// here or has too few lines; nothing was sent.
    pub fn send(
        &mut self,
        sequence: Sequence,
        kind: Kind,
        key: Key,
        length: usize,
        fill: impl Fn(NonNull<u8>, usize, usize),
    ) -> bool {
        if self.state != HELD | OPEN || lines_for(length) > self.count {
            return false;
        }
        // SAFETY: as in `send_short`; the message has enough lines.
        unsafe { write_message(self.lines, |line| line.add(1), key, length, fill) };
        self.pass(HeaderWord::new(sequence, kind, length));
        true
    }

    #[inline(always)]
    fn pass(&mut self, header: HeaderWord) {
        // SAFETY: valid by the contract of `new`.
        let line = unsafe { self.lines.as_ref() };
        reached(Step::BatonFilled);
        // ORDER baton/1: Release, pairs with the peer's baton/2: the payload comes before the header, and so do our
        // reads of the message before, whose lines we wrote over.
        line.header.store(header.0, order("baton/1", Release));
        reached(Step::BatonPassed);
        self.state &= !HELD;
    }

    /// Kind and length of message `sequence`, if it has arrived here.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, sequence: Sequence) -> Option<KindLength> {
        // SAFETY: valid by the contract of `new`.
        let line = unsafe { self.lines.as_ref() };
        // ORDER baton/2: Acquire, pairs with baton/1: the payload may be read, and later written over.
        HeaderWord(line.header.load(order("baton/2", Acquire))).of_message(sequence)
    }

    /// Has the processor fetch the further lines of a message of `length` bytes, which fits, all at once: the copy would ask
    /// for them one after the other.
    #[inline(always)]
    pub fn prefetch(&self, length: usize) {
        for line in 1..lines_for(length) {
            // SAFETY: one of the baton's lines.
            prefetch(unsafe { self.lines.add(line as usize) });
        }
    }

    /// The message that the last `peek` found. It may be read until it is released.
    #[inline(always)]
    #[must_use]
    pub const fn message(&self) -> LineMessage {
        LineMessage::around(self.lines, self.lines, self.count)
    }

    /// True when a message of `length` bytes fits: what a correct sender keeps to.
    #[must_use]
    pub const fn holds(&self, length: usize) -> bool {
        lines_for(length) <= self.count
    }

    /// Ends the reading of the message that the last `peek` found: the baton is ours.
    #[inline(always)]
    pub const fn release(&mut self) {
        self.state |= HELD;
    }
}
