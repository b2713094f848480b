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
const LOOKS_OF_PROGRESS: u32 = 200;

/// Longest message, in bytes, that fits what a rank has of the first set at the start.
pub(super) const FIRST_MAX: usize = (FIRST_PARCELS / 2) as usize * PARCEL;

/// The same for the first two sets. A longer message goes in parcels only as an answer: a stream of
/// them takes less time through the copy ring.
const FURTHER_MAX: usize = (FURTHER_PARCELS / 2) as usize * PARCEL;

/// This rank's view of the parcels of a pair.
#[derive(Debug)]
pub(super) struct PeerParcels {
    parcels: Parcels,
    /// For each set, whether its memory was asked for, or there is none.
    asked: [bool; ParcelSet::ALL.len()],
    /// Bytes that have been taken of the parcel which the next packet from the peer names, while
    /// its sender fills it.
    taken: usize,
    /// Whether the last run between the two ranks went to the peer, or there was none.
    sent_last: bool,
    /// Whether a run has gone to the peer yet.
    sent_any: bool,
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
            sent_last: true,
            sent_any: false,
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
        self.streams |= !has_room && self.gave && self.sent_last && length <= FIRST_MAX;
        has_room
    }

    /// Returns whether the next run would answer one of the peer's, or would be the first.
    const fn answers(&self) -> bool {
        !(self.sent_last && self.sent_any)
    }

    /// Returns whether a message of `length` bytes may come from the peer in parcels: one of the
    /// longest only as an answer.
    pub(super) const fn may_bring(&self, length: usize) -> bool {
        length <= FURTHER_MAX || self.sent_last && self.sent_any
    }

    /// Begins a message of `length` bytes that goes in parcels.
    ///
    /// It is lent if this rank has few parcels and the peer has not answered in parcels since the
    /// last message. An answer travels in what came, which costs less than a return. A long message
    /// that takes all parcels is lent, too, since none would be left for the next one.
    #[inline(always)]
    pub(super) fn begin(&mut self, length: usize) {
        let long = if length > FIRST_MAX { length } else { 0 };
        self.lends = self.sent_last && self.parcels.are_few(long);
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
        self.sent_last = true;
        self.sent_any = true;
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

    /// Copies a message that [`PeerParcels::whole`] found at `place` to a posted receive, `to`, as
    /// [`PeerParcels::take_message`] does.
    ///
    /// # Safety
    ///
    /// `to` is valid for writes of the message, and lies outside the segment.
    #[inline(always)]
    pub(super) unsafe fn take_posted(
        &self,
        place: NonNull<u8>,
        head: &ParcelHead,
        sequence: Sequence,
        to: NonNull<u8>,
    ) -> bool {
        // SAFETY: the caller guarantees the same (contract of `take_posted`).
        unsafe { self.copy_out(place, head, sequence, to, LOOKS_OF_PROGRESS) }
    }

    /// # Safety
    ///
    /// `place` is what [`PeerParcels::whole`] returned. `to` is valid for writes of the message, and
    /// lies outside the segment.
    #[inline(always)]
    unsafe fn copy_out(
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
        self.sent_last = false;
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
mod tests {
    use super::*;
    use crate::engine::testing::with_segment;

    const KEY: Key = Key::new(0, 7);

    fn pair(segment: &Segment) -> [PeerParcels; 2] {
        [(0, 1), (1, 0)].map(|(rank, peer)| {
            let mut parcels = PeerParcels::new(segment, rank, peer);
            assert!(parcels.wants_memory(1) == Some(ParcelSet::First) && !parcels.have_room(1));
            parcels.backed(ParcelSet::First, true);
            parcels.backed(ParcelSet::First, true);
            assert!(parcels.wants_memory(FIRST_MAX).is_none() && parcels.have_room(FIRST_MAX));
            parcels
        })
    }

    /// Hands a message over in `pieces` pieces. Returns its head and the number of its packet.
    fn send(
        segment: &Segment,
        out: &mut PeerParcels,
        message: &[u8],
        pieces: u8,
    ) -> (ParcelHead, Sequence) {
        let mut paths = ShortPaths::new(segment, 0, 1);
        let (run, place) = out.next(message.len()).unwrap();
        let (total, length, number) =
            (message.len() as u64, message.len() as u32, run.number as u16);
        let head =
            ParcelHead { total, offset: 0, length, number, pieces, lent: out.lends().into() };
        let (mut rest, sequence) = (message, paths.next_out());
        let fill = |to: NonNull<u8>, piece| {
            let (next, others) = rest.split_at(piece);
            rest = others;
            // SAFETY: the run has room for the message.
            unsafe { copy_cached(next.as_ptr(), to.as_ptr(), piece) };
        };
        assert_eq!(out.send_in_pieces(&mut paths, KEY, head, place, fill), Ok(true));
        assert_ne!(paths.next_out(), sequence);
        (head, sequence)
    }

    #[test]
    fn only_the_first_answer_about_the_memory_counts() {
        with_segment(2, |segment| {
            let mut parcels = PeerParcels::new(segment, 0, 1);
            parcels.backed(ParcelSet::First, false);
            parcels.backed(ParcelSet::First, true);
            assert!(!parcels.have_room(1) && parcels.wants_memory(1).is_none());
            assert!(PeerParcels::new(segment, 0, 0).wants_memory(1).is_none());
        });
    }

    #[test]
    fn a_longer_message_wants_the_further_parcels() {
        with_segment(2, |segment| {
            let [mut low, _] = pair(segment);
            assert_eq!(low.wants_memory(FIRST_MAX + 1), Some(ParcelSet::Further));
            assert!(!low.have_room(FIRST_MAX + 1));
            low.backed(ParcelSet::Further, true);
            assert!(low.wants_memory(FURTHER_MAX).is_none() && low.have_room(FIRST_MAX + 1));
            assert_eq!(low.wants_memory(FURTHER_MAX + 1), Some(ParcelSet::Last));
            assert!(low.have_room(FURTHER_MAX) && !low.have_room(FURTHER_MAX + 1));
            low.backed(ParcelSet::Last, true);
            assert!(low.wants_memory(usize::MAX).is_none() && low.have_room(2 * FURTHER_MAX));
            low.refuse();
            assert!(PeerParcels::new(segment, 1, 1).wants_memory(usize::MAX).is_none());
        });
    }

    #[test]
    fn a_message_in_pieces_is_taken_at_once_and_its_run_stays_with_the_reader() {
        with_segment(2, |segment| {
            let [mut out, mut back] = pair(segment);
            let message = [7; 5000];
            let (head, sequence) = send(segment, &mut out, &message, 2);
            let mut buffer = [0; 5000];
            assert!(!back.take_message(&head, sequence, &mut buffer[1..]));
            assert!(back.take_message(&head, sequence, &mut buffer));
            assert_eq!(buffer, message);
            assert_eq!(out.parcels.find(head.run()), back.parcels.find(head.run()));
            back.keep(&head);
            assert!(back.parcels.find(head.run()).is_err(), "the reader has it, not the peer");
        });
    }

    #[test]
    fn the_bytes_of_a_part_come_once() {
        with_segment(2, |segment| {
            let [mut out, mut back] = pair(segment);
            let (head, sequence) = send(segment, &mut out, &[7; 100], 0);
            let new = back.new_bytes(&head, sequence).unwrap().unwrap();
            assert_eq!((new.from, new.length), (0, 100));
            let first = NewBytes { length: 40, ..new };
            assert!(!back.take(&head, first));
            assert!(!back.take_message(&head, sequence, &mut [0; 100]), "begun before");
            let new = back.new_bytes(&head, sequence).unwrap().unwrap();
            assert_eq!((new.from, new.length), (40, 60));
            assert!(back.take(&head, new));
            back.keep(&head);
            assert!(back.new_bytes(&head, sequence).is_err(), "the run is not the peer's any more");
        });
    }

    #[test]
    fn a_rank_that_has_given_away_all_wants_further_ones() {
        with_segment(2, |segment| {
            let [mut out, mut back] = pair(segment);
            assert!(out.have_room(FIRST_MAX));
            out.begin(FIRST_MAX);
            assert!(!out.lends());
            let (head, sequence) = send(segment, &mut out, &[7; FIRST_MAX], 0);
            assert!(back.take_message(&head, sequence, &mut [0; FIRST_MAX]));
            back.keep(&head);
            assert_eq!(out.wants_memory(1), None);
            assert!(!out.have_room(1) && out.wants_memory(1) == Some(ParcelSet::Further));
            assert!(back.have_room(2 * FIRST_MAX) && back.wants_memory(1).is_none());
        });
    }

    #[test]
    fn a_long_message_that_takes_all_parcels_is_lent() {
        with_segment(2, |segment| {
            let [mut out, _] = pair(segment);
            out.backed(ParcelSet::Further, true);
            for length in [2 * FIRST_MAX, 2 * FIRST_MAX + 1, 4 * FIRST_MAX] {
                out.begin(length);
                assert_eq!(out.lends(), length > 3 * FIRST_MAX, "{length}");
            }
        });
    }

    #[test]
    fn the_longest_messages_go_in_parcels_first_and_then_as_answers() {
        with_segment(2, |segment| {
            const LONG: usize = 2 * FURTHER_MAX;
            let [mut out, mut back] = pair(segment);
            for parcels in [&mut out, &mut back] {
                parcels.backed(ParcelSet::Further, true);
                parcels.backed(ParcelSet::Last, true);
                assert!(parcels.have_room(LONG));
            }
            let pass = |out: &mut PeerParcels, back: &mut PeerParcels| {
                let (head, sequence) = send(segment, out, &[7; PARCEL], 0);
                assert!(back.take_message(&head, sequence, &mut [0; PARCEL]));
                back.keep(&head);
            };
            for _ in 0..3 {
                pass(&mut out, &mut back);
                assert!(!out.have_room(LONG) && out.have_room(FURTHER_MAX));
                assert!(back.have_room(LONG));
                assert!(out.may_bring(LONG) && !back.may_bring(LONG));
                assert!(back.may_bring(FURTHER_MAX));
                pass(&mut back, &mut out);
                assert!(out.have_room(LONG));
            }
        });
    }

    #[test]
    fn a_rank_that_only_sends_lends_what_it_has_left() {
        with_segment(2, |segment| {
            let [mut out, mut back] = pair(segment);
            let message = [7; PARCEL];
            let mut pass = |out: &mut PeerParcels| {
                assert!(out.have_room(PARCEL));
                out.begin(PARCEL);
                let (head, sequence) = send(segment, out, &message, 0);
                assert!(back.take_message(&head, sequence, &mut [0; PARCEL]));
                back.keep(&head);
                head.lent
            };
            assert_eq!([(); 6].map(|()| pass(&mut out)), [0, 0, 1, 1, 1, 1]);
            assert_eq!(out.wants_memory(1), Some(ParcelSet::Further));
            back.begin(PARCEL);
            let (head, sequence) = send(segment, &mut back, &message, 0);
            assert_eq!(head.lent, 0);
            assert!(out.take_message(&head, sequence, &mut [0; PARCEL]));
            out.keep(&head);
            out.begin(PARCEL);
            assert!(!out.lends(), "the peer has answered");
        });
    }
}
