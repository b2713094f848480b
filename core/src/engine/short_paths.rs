//! The short paths of a pair of ranks: the baton, the fastbox in each direction, and the sequence
//! numbers of the packets on every path.
//!
//! The fastbox to the peer opens in steps. The embedder backs its memory at the pair's first
//! message, and the next packet through the queue announces it. From then on the peer polls it.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use super::LineRoom;
use super::credit_seen::CreditSeen;
use crate::layout::Segment;
use crate::shm::{Baton, FastboxReceiver, FastboxSender, LineMessage};
use crate::wire::{Corrupt, Key, KindLength, MORE_PER_LINE, PacketKind, SHORT_MAX, Sequence};

/// Lengths in bytes that go through the ring although this rank has the baton: messages of two or
/// three lines.
///
/// For an answer by the baton, the core must take back each line but the first from the asker's
/// cache before it can publish. The next lines of the ring are nearly all in its own cache. With
/// more lines the ring loses what it gains.
///
/// Measured one-way latency by the baton and through the ring, for 64 bytes: 97 and 73 ns between
/// near cores, 340 and 245 ns between far ones. From 256 bytes on there is no difference.
const RING_FIRST: RangeInclusive<usize> = SHORT_MAX + 1..=SHORT_MAX + 2 * MORE_PER_LINE;

/// Number of messages without an answer after which the lines of the next one are fetched.
const WINDOW: u8 = 2;

/// This rank's ends of the short paths to and from a peer.
#[derive(Debug)]
pub(super) struct ShortPaths {
    /// This rank's end of the baton. It is shut unless the paths are open.
    baton: Baton,
    /// This rank's end of the fastbox to the peer. It is shut under the same condition as `baton`.
    fastbox_out: FastboxSender,
    /// Number of the next packet to the peer.
    next_out: Sequence,
    /// Number of the next packet from the peer.
    next_in: Sequence,
    /// The value of `next_in` at the last look of [`ShortPaths::foresee_send`].
    in_at_send: Sequence,
    /// Number of looks of [`ShortPaths::foresee_send`] since `next_in` changed, up to [`WINDOW`].
    sent_in_row: u8,
    /// This rank's end of the fastbox from the peer. Until the peer announces its own, an empty
    /// one.
    fastbox_in: FastboxReceiver,
    fastbox: FastboxState,
    /// What a sender that waited for lines has seen.
    credit: CreditSeen,
    /// Whether baton and fastbox may be used: `fastbox` is [`FastboxState::Open`] and no send
    /// waits.
    open: bool,
    inbox_open: bool,
    baton_found: bool,
}

/// The state of this rank's fastbox to a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FastboxState {
    /// No memory has been asked for yet.
    Unopened,
    /// Asked for ([`super::Engine::poll_want`]); meanwhile messages go through the queue.
    Wanted,
    /// Backed; the next packet through the queue announces it.
    Backed,
    /// In use.
    Open,
    /// There is no memory for it: messages always go through the queue.
    Refused,
}

impl ShortPaths {
    /// Returns the paths between `rank` and `peer`, all shut.
    pub(super) fn new(segment: &Segment, rank: u32, peer: u32) -> Self {
        Self {
            baton: segment.empty_baton(),
            fastbox_out: FastboxSender::new(segment.fastbox(rank, peer)),
            next_out: Sequence::first(rank, peer),
            next_in: Sequence::first(peer, rank),
            in_at_send: Sequence::first(peer, rank),
            sent_in_row: 0,
            fastbox_in: FastboxReceiver::new(segment.empty_fastbox()),
            fastbox: FastboxState::Unopened,
            credit: CreditSeen::new(),
            open: false,
            inbox_open: false,
            baton_found: false,
        }
    }

    /// Leaves the paths shut for ever: the peer has no place in the segment.
    pub(super) const fn refuse(&mut self) {
        self.fastbox = FastboxState::Refused;
    }

    /// Makes sure that no packet in the segment is the next one: the peer is on another node.
    pub(super) fn expect_nothing(&mut self) {
        self.refuse();
        self.next_in += 1 << 46;
    }

    /// Returns whether no memory for the fastbox has been asked for yet.
    #[inline]
    pub(super) const fn is_unopened(&self) -> bool {
        matches!(self.fastbox, FastboxState::Unopened)
    }

    /// Notes that memory for the fastbox is asked for.
    pub(super) const fn want_fastbox(&mut self) {
        if self.is_unopened() {
            self.fastbox = FastboxState::Wanted;
        }
    }

    /// Takes the answer to the request for memory, which is also the baton's.
    pub(super) fn fastbox_backed(&mut self, backed: bool, segment: &Segment, pair: (u32, u32)) {
        if self.fastbox != FastboxState::Wanted {
            return;
        }
        self.fastbox = if backed { FastboxState::Backed } else { FastboxState::Refused };
        if backed {
            self.find_baton(segment, pair);
        }
    }

    /// Returns true once: the fastbox is backed, and the packet that leaves now announces it. It
    /// opens with the next send that reads its credit, and the baton with it.
    pub(super) const fn announce_fastbox(&mut self) -> bool {
        let is_backed = matches!(self.fastbox, FastboxState::Backed);
        if is_backed {
            self.fastbox = FastboxState::Open;
        }
        is_backed
    }

    /// Returns whether the peer polls the fastbox to it.
    pub(super) const fn is_announced(&self) -> bool {
        matches!(self.fastbox, FastboxState::Open)
    }

    /// Takes the announcement of the fastbox from `peer` to `rank`. Returns false if it was
    /// announced before.
    pub(super) fn open_inbox(&mut self, segment: &Segment, (rank, peer): (u32, u32)) -> bool {
        let is_news = !self.inbox_open;
        if is_news {
            self.inbox_open = true;
            self.fastbox_in = FastboxReceiver::new(segment.fastbox(peer, rank));
            self.find_baton(segment, (rank, peer));
        }
        is_news
    }

    /// Points the baton to its real place. The pair's memory is backed, by this rank or by the
    /// peer.
    fn find_baton(&mut self, segment: &Segment, (rank, peer): (u32, u32)) {
        if !self.baton_found {
            self.baton_found = true;
            self.baton = segment.baton(rank, peer);
        }
    }

    /// Opens the paths out. The peer polls them, and no older send waits. Without `by_baton` the
    /// baton stays shut.
    pub(super) fn open(&mut self, by_baton: bool) {
        self.open = true;
        self.fastbox_out.open();
        if by_baton {
            self.baton.open();
        }
    }

    /// Shuts the paths out until [`ShortPaths::open`].
    pub(super) fn shut(&mut self) {
        self.open = false;
        self.baton.shut();
        self.fastbox_out.shut();
    }

    /// Shuts the baton alone, until [`ShortPaths::open_baton`].
    pub(super) const fn shut_baton(&mut self) {
        self.baton.shut();
    }

    /// Opens the baton, if the other paths are open.
    pub(super) const fn open_baton(&mut self) {
        if self.open {
            self.baton.open();
        }
    }

    /// Returns whether a message may go by these paths.
    #[inline(always)]
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the number of the next packet to the peer.
    #[inline(always)]
    pub(super) const fn next_out(&self) -> Sequence {
        self.next_out
    }

    /// Counts a packet to the peer, on any path.
    #[inline(always)]
    pub(super) fn count_out(&mut self) {
        self.next_out += 1;
    }

    /// Returns the number of the next packet from the peer.
    #[inline(always)]
    pub(super) const fn next_in(&self) -> Sequence {
        self.next_in
    }

    /// Returns whether this rank has taken all packets from the peer, which is this rank. False
    /// while the fastbox may still open, which takes a packet through the queue.
    pub(super) fn are_drained(&self) -> bool {
        let is_settled = matches!(self.fastbox, FastboxState::Open | FastboxState::Refused);
        is_settled && self.next_in == self.next_out
    }

    /// Counts a packet from the peer, on any path.
    #[inline(always)]
    pub(super) fn count_in(&mut self) {
        self.next_in += 1;
    }

    /// Sends a message of up to [`SHORT_MAX`] bytes by the baton or through the fastbox. The caller
    /// counts it.
    #[inline(always)]
    pub(super) fn send_short(&mut self, key: Key, payload: &[u8]) -> bool {
        self.baton.send_short(self.next_out, key, payload)
            || self.fastbox_out.send_short(self.next_out, key, payload)
    }

    /// Sends a message of more than [`SHORT_MAX`] bytes through the fastbox, if that needs no look
    /// at the credit, or by the baton if that is better and this rank has it. The caller counts it.
    #[inline(always)]
    pub(super) fn send_straight(&mut self, key: Key, payload: &[u8]) -> bool {
        if payload.len() > *RING_FIRST.end() && self.baton.may_send(payload.len()) {
            return self.baton.send_straight(self.next_out, key, payload);
        }
        self.fastbox_out.send_straight(self.next_out, key, payload)
    }

    /// Fetches the lines of the next message to the peer, if a window of messages of `length` bytes
    /// is under way: the last [`WINDOW`] were sent while nothing came from the peer. Otherwise the
    /// peer may look at those lines before they are written, and take them back.
    #[inline(always)]
    pub(super) fn foresee_send(&mut self, length: usize) {
        if core::mem::replace(&mut self.in_at_send, self.next_in) != self.next_in {
            self.sent_in_row = 0;
        } else if self.sent_in_row < WINDOW {
            self.sent_in_row += 1;
        } else if length > *RING_FIRST.end() {
            self.fastbox_out.prefetch(length);
        }
    }

    /// Returns whether the fastbox has room for a message of `length` bytes, or what else a sender
    /// sees that waits for room.
    pub(super) fn look_for_room(&mut self, length: usize) -> Result<LineRoom, Corrupt> {
        let (consumed, has_room) = self.fastbox_out.look_for_room(length)?;
        Ok(self.credit.judge(consumed, has_room))
    }

    /// Notes that a wait for lines was in vain.
    pub(super) const fn give_up_waiting(&mut self) {
        self.credit.give_up();
    }

    /// Sends a whole message by the baton or through the fastbox, whichever has room. The better of
    /// the two is tried first. The caller counts it.
    #[inline(always)]
    pub(super) fn send_lines(
        &mut self,
        kind: PacketKind,
        key: Key,
        length: usize,
        fill: impl Fn(NonNull<u8>, usize, usize),
    ) -> Result<bool, Corrupt> {
        let sequence = self.next_out;
        if RING_FIRST.contains(&length)
            && self.fastbox_out.send(sequence, kind, key, length, &fill)?
        {
            return Ok(true);
        }
        if self.baton.send(sequence, kind, key, length, &fill) {
            return Ok(true);
        }
        self.fastbox_out.send(sequence, kind, key, length, fill)
    }

    /// Sends a whole message through the fastbox. The caller counts it.
    #[inline(always)]
    pub(super) fn send_in_fastbox(
        &mut self,
        key: Key,
        length: usize,
        fill: impl Fn(NonNull<u8>, usize, usize),
    ) -> Result<bool, Corrupt> {
        self.fastbox_out.send(self.next_out, PacketKind::Eager, key, length, fill)
    }

    /// Returns the number of lines that were sent through the fastbox.
    pub(super) fn lines_sent(&self) -> u64 {
        self.fastbox_out.sent()
    }

    /// Returns the number of lines of the fastbox that the peer has given back.
    pub(super) fn lines_consumed(&mut self) -> Result<u64, Corrupt> {
        self.fastbox_out.consumed()
    }

    /// Publishes to the peer which lines of its fastbox this rank has given back.
    pub(super) fn tell_consumed(&mut self) {
        if self.inbox_open {
            self.fastbox_in.tell();
        }
    }

    /// Returns kind and length of the next packet from the peer, if the baton has it.
    #[inline(always)]
    pub(super) fn peek_baton(&self) -> Option<KindLength> {
        self.baton.peek(self.next_in)
    }

    /// Returns kind and length of the next packet from the peer, if the fastbox has it.
    #[inline(always)]
    pub(super) fn peek_fastbox(&self) -> Option<KindLength> {
        self.fastbox_in.peek(self.next_in)
    }

    /// Returns the kind and length of the next packet from the peer if it lies in lines, and
    /// whether those are the baton's.
    #[inline(always)]
    pub(super) fn find_next(&self) -> Option<(KindLength, bool)> {
        match self.peek_baton() {
            Some(found) => Some((found, true)),
            None => self.peek_fastbox().map(|found| (found, false)),
        }
    }

    /// Returns the next packet from the peer, which lies in lines.
    #[inline(always)]
    pub(super) const fn lines_of_next(&self, by_baton: bool) -> LineMessage {
        if by_baton { self.baton.message() } else { self.fastbox_in.message() }
    }

    /// Returns whether a packet of `length` bytes fits in the lines in which it lies.
    #[inline(always)]
    pub(super) const fn next_holds(&self, by_baton: bool, length: usize) -> bool {
        if by_baton { self.baton.holds(length) } else { self.fastbox_in.holds(length) }
    }

    /// Fetches the lines of the next packet, of `length` bytes, if they may be far. Returns whether
    /// they are in a row.
    #[inline(always)]
    pub(super) fn prepare_to_read(&self, by_baton: bool, length: usize) -> bool {
        if by_baton && length > SHORT_MAX {
            self.baton.prefetch(length);
        }
        by_baton || self.fastbox_in.straight(length).is_some()
    }

    /// Fetches the lines of the next packet of `length` bytes, which the baton has.
    #[inline(always)]
    pub(super) fn prefetch(&self, length: usize) {
        self.baton.prefetch(length);
    }

    /// Fetches the further lines of a message of `length` bytes from the peer that may be under
    /// way, if such messages come through the fastbox. So these lines and the first one move at the
    /// same time.
    #[inline(always)]
    pub(super) fn prefetch_next(&self, length: usize) {
        if RING_FIRST.contains(&length) {
            self.fastbox_in.prefetch(length);
        }
    }

    /// Copies the next packet from the peer, which the fastbox has, into `buffer` of its length,
    /// and ends its reading. Returns false, and does nothing, if it reaches the ring's end.
    #[inline(always)]
    pub(super) fn take_straight(&mut self, buffer: &mut [u8]) -> bool {
        let Some(lines) = self.fastbox_in.straight(buffer.len()) else { return false };
        // SAFETY: the message's lines are in a row.
        unsafe { self.fastbox_in.message().copy_straight(buffer) };
        // SAFETY: this is the message of that length.
        unsafe { self.fastbox_in.release_straight(lines) };
        self.next_in += 1;
        true
    }

    /// Ends the reading of the next packet from the peer.
    #[inline(always)]
    pub(super) fn release_next(&mut self, by_baton: bool, length: usize) {
        if length <= SHORT_MAX {
            self.release_short(by_baton);
        } else if by_baton {
            self.baton.release();
        } else {
            self.fastbox_in.release(length);
        }
        self.next_in += 1;
    }

    /// Ends the reading of a packet of up to [`SHORT_MAX`] bytes. The caller counts it.
    #[inline(always)]
    pub(super) fn release_short(&mut self, by_baton: bool) {
        if by_baton {
            self.baton.release();
        } else {
            self.fastbox_in.release_short();
        }
    }
}

#[cfg(test)]
mod tests;
