//! The parcels that this rank shares with a peer, and the part of a message in them that has been
//! taken so far.

use core::ptr::NonNull;

use super::short_paths::ShortPaths;
use crate::buffer::copy::{copy_cached, copy_short};
use crate::layout::Segment;
use crate::shm::{FIRST_PARCELS, FURTHER_PARCELS, ParcelSet, Parcels};
use crate::sync::{Step, finish_look, reached};
use crate::wire::{Corrupt, Key, PARCEL, PacketKind, ParcelHead, ParcelRun, Sequence};

/// Number of polls for the next piece of a message that its sender is writing, of a receive that
/// blocks. After them it takes the general path, on which other packets come, too.
const LOOKS_OF_BLOCKED: u32 = 1000;

/// The same of a progress call, which may be one of many before the sender goes on.
pub(super) const LOOKS_OF_PROGRESS: u32 = 200;

/// Longest message, in bytes, that fits what a rank has of the first set at the start.
pub(super) const FIRST_MAX: usize = (FIRST_PARCELS / 2) as usize * PARCEL;

/// The same for the first two sets. A longer message goes in parcels only as an answer: a stream of
/// them takes less time through the copy ring.
const FURTHER_MAX: usize = (FURTHER_PARCELS / 2) as usize * PARCEL;

/// Direction of the last run between the two ranks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LastRun {
    /// There was no run yet.
    None,
    Sent,
    Received,
}

/// This rank's view of the parcels of a pair.
#[derive(Debug)]
pub(super) struct PeerParcels {
    parcels: Parcels,
    /// For each set, whether its memory was asked for, or there is none.
    asked: [bool; ParcelSet::ALL.len()],
    /// Bytes that have been taken of the parcel which the next packet from the peer names, while
    /// its sender fills it.
    taken: usize,
    last_run: LastRun,
    /// Whether the runs of the message that was begun last are lent.
    lends: bool,
    /// Whether this rank has given any away.
    gave: bool,
    /// Whether this rank sends so many messages without an answer that it lends, or has no parcels.
    streams: bool,
}

/// The new bytes of a part that is filled while it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NewBytes {
    pub(super) place: NonNull<u8>,
    /// Offset of the first of them in the part.
    pub(super) from: usize,
    pub(super) length: usize,
}

impl PeerParcels {
    pub(super) fn new(segment: &Segment, rank: u32, peer: u32) -> Self {
        let parcels = segment.parcels(rank, peer);
        let asked = ParcelSet::ALL.map(|set| !parcels.has(set));
        Self {
            parcels,
            asked,
            taken: 0,
            last_run: LastRun::None,
            lends: false,
            gave: false,
            streams: false,
        }
    }

    /// Leaves the pair without parcels.
    pub(super) const fn refuse(&mut self) {
        self.asked = [true; ParcelSet::ALL.len()];
    }

    /// Returns a set of parcels that a message of `length` bytes wants, if no memory was wanted for
    /// it before. A rank that sends a stream wants all, so that several messages are under way.
    #[inline]
    pub(super) const fn wants_memory(&self, length: usize) -> Option<ParcelSet> {
        match self.asked {
            [false, ..] => Some(ParcelSet::First),
            [true, false, _] if length > FIRST_MAX || self.streams => Some(ParcelSet::Further),
            [true, true, false] if length > FURTHER_MAX => Some(ParcelSet::Last),
            _ => None,
        }
    }

    /// Takes the answer to the request for the memory of a set. Only the first one counts.
    pub(super) const fn backed(&mut self, set: ParcelSet, backed: bool) {
        let asked = &mut self.asked[set as usize];
        if backed && !*asked {
            self.parcels.open(set);
        }
        *asked = true;
    }

    /// Returns whether a message of `length` bytes can go in parcels: those that are here, and
    /// those that this rank has lent, since they come back when the peer has read them.
    #[inline(always)]
    pub(super) fn have_room(&mut self, length: usize) -> bool {
        if !self.parcels.hold(length) {
            self.parcels.collect();
        }
        let has_room = self.parcels.will_hold(length) && (length <= FURTHER_MAX || self.answers());
        self.streams |= !has_room && self.gave && !self.was_answered() && length <= FIRST_MAX;
        has_room
    }

    /// Returns whether the next run would answer one of the peer's, or would be the first.
    fn answers(&self) -> bool {
        self.last_run != LastRun::Sent
    }

    /// Returns whether the peer has sent the last run.
    fn was_answered(&self) -> bool {
        self.last_run == LastRun::Received
    }

    /// Returns whether a message of `length` bytes may come from the peer in parcels: one of the
    /// longest only as an answer.
    pub(super) fn may_bring(&self, length: usize) -> bool {
        length <= FURTHER_MAX || !self.answers()
    }

    /// Begins a message of `length` bytes that goes in parcels.
    ///
    /// It is lent if this rank has few parcels and the peer has not answered in parcels since the
    /// last message. An answer travels in what came, which costs less than a return. A long message
    /// that takes all parcels is lent, too, since none would be left for the next one.
    #[inline(always)]
    pub(super) fn begin(&mut self, length: usize) {
        let long = if length > FIRST_MAX { length } else { 0 };
        self.lends = !self.was_answered() && self.parcels.are_few(long);
        self.streams |= self.lends && length <= FIRST_MAX;
    }

    /// Returns whether the message that was begun last is lent.
    #[inline(always)]
    pub(super) const fn lends(&self) -> bool {
        self.lends
    }

    /// Returns the run that the next `length` bytes go in, or as many of them as it has room for.
    #[inline(always)]
    pub(super) const fn next(&self, length: usize) -> Option<(ParcelRun, NonNull<u8>)> {
        self.parcels.next(length)
    }

    /// Notes that a packet with this head has gone to the peer.
    #[inline(always)]
    pub(super) const fn hand_over(&mut self, head: &ParcelHead) {
        if head.lent == 0 {
            self.gave = true;
            self.parcels.hand_over(head.run());
        } else {
            self.parcels.lend(head.run());
        }
        self.last_run = LastRun::Sent;
    }

    /// Hands the peer a run of this rank's parcels by a packet in lines, and fills it piece by
    /// piece. `fill(to, length)` writes the next bytes.
    ///
    /// A short part is filled before its packet is sent. So is a part that is not the first of its
    /// message, since the peer is then busy with that first part. Returns false if no line is free;
    /// bytes that were written are then written again.
    #[inline(always)]
    pub(super) fn send_in_pieces(
        &mut self,
        paths: &mut ShortPaths,
        key: Key,
        head: ParcelHead,
        place: NonNull<u8>,
        mut fill: impl FnMut(NonNull<u8>, usize),
    ) -> Result<bool, Corrupt> {
        let (ParcelRun { number, length }, sequence) = (head.run(), paths.next_out());
        if head.pieces == 0 {
            fill(place, length);
        }
        let words = head.pack();
        let write = |to: NonNull<u8>, _, _| {
            // SAFETY: `send_lines` gives room for the head, which fits one line.
            unsafe { copy_short(words.as_ptr(), to.as_ptr(), ParcelHead::LENGTH) };
        };
        if !paths.send_lines(PacketKind::Parcel, key, ParcelHead::LENGTH, write)? {
            return Ok(false);
        }
        reached(Step::ParcelNamed);
        self.hand_over(&head);
        paths.count_out();
        let mut done = 0;
        for piece in 0..u32::from(head.pieces) {
            let bytes = head.piece().min(length - done);
            // SAFETY: the run has room for the part.
            fill(unsafe { place.add(done) }, bytes);
            reached(Step::PieceFilled);
            self.parcels.mark(number, piece, sequence);
            done += bytes;
        }
        Ok(true)
    }

    /// Copies a message that one run holds into `buffer`, while its sender fills the run, and keeps
    /// the run. The packet with the number `sequence` names it. Returns false if the message has
    /// other parts, if some of it was taken before, or if the sender is slow.
    #[inline(always)]
    pub(super) fn take_message(
        &mut self,
        head: &ParcelHead,
        sequence: Sequence,
        buffer: &mut [u8],
    ) -> bool {
        let Some(place) = self.whole(head) else { return false };
        if head.length as usize > buffer.len() {
            return false;
        }
        // SAFETY: the buffer has room for the message, and does not overlap the segment.
        unsafe {
            self.copy_out(place, head, sequence, NonNull::from(buffer).cast(), LOOKS_OF_BLOCKED)
        }
    }

    /// Copies a message that [`PeerParcels::whole`] found at `place`, while its sender fills the
    /// run. Returns false after `looks` polls in which nothing came.
    ///
    /// # Safety
    ///
    /// `place` is what [`PeerParcels::whole`] returned. `to` is valid for writes of the message,
    /// and lies outside the segment.
    #[inline(always)]
    pub(super) unsafe fn copy_out(
        &self,
        place: NonNull<u8>,
        head: &ParcelHead,
        sequence: Sequence,
        to: NonNull<u8>,
        mut looks: u32,
    ) -> bool {
        let (bytes, mut done) = (head.length as usize, 0);
        while done < bytes {
            let filled = self.parcels.filled(head, sequence, done);
            if filled == done {
                // Nothing has been taken yet that could not be taken again.
                let Some(left) = looks.checked_sub(1) else { return false };
                looks = left;
                finish_look();
                continue;
            }
            // SAFETY: `filled` bytes of the run are ours to read, and the run has room for all of
            // it (`parse`). It lies in the segment, which `to` does not overlap. There is room for
            // `bytes`.
            unsafe {
                copy_cached(place.add(done).as_ptr(), to.add(done).as_ptr(), filled - done);
            }
            done = filled;
        }
        true
    }

    /// Keeps a run of which all bytes have been read, or returns it if it was lent.
    #[inline(always)]
    pub(super) fn keep(&mut self, head: &ParcelHead) {
        if head.lent == 0 {
            self.parcels.keep(head.run());
        } else {
            self.parcels.give_back(head.run());
        }
        self.last_run = LastRun::Received;
    }

    /// Returns the new bytes of the part of a message that `head` describes. The packet with the
    /// number `sequence` names it. Returns `None` if nothing is new.
    pub(super) fn new_bytes(
        &self,
        head: &ParcelHead,
        sequence: Sequence,
    ) -> Result<Option<NewBytes>, Corrupt> {
        let (place, part) = (self.parcels.find(head.run())?, head.length as usize);
        let from = self.taken;
        if from >= part {
            return Err(Corrupt::Length { found: part as u64, max: from as u64 });
        }
        let length = self.parcels.filled(head, sequence, from) - from;
        // SAFETY: the run has room for the whole part (`parse`).
        let place = unsafe { place.add(from) };
        Ok((length > 0).then_some(NewBytes { place, from, length }))
    }

    /// Returns the address of a message that takes one run, of which nothing was taken before.
    #[inline(always)]
    pub(super) fn whole(&self, head: &ParcelHead) -> Option<NonNull<u8>> {
        if head.total != u64::from(head.length) || self.taken > 0 {
            return None;
        }
        self.parcels.find(head.run()).ok()
    }

    /// Notes that the new bytes have been taken. Returns whether they were the last: then the
    /// caller keeps the run.
    pub(super) fn take(&mut self, head: &ParcelHead, new: NewBytes) -> bool {
        let filled = new.from + new.length;
        let all = filled == head.length as usize;
        self.taken = if all { 0 } else { filled };
        all
    }
}

#[cfg(test)]
mod tests;
