//! Parcels: buffers of a pair of ranks that change owners.
//!
//! A buffer that always returns to its sender is expensive to refill: the sender must take each
//! line away from the core that read it. A core that has just *read* a line can write it at no
//! cost; the [baton](super::Baton) uses the same effect. Therefore a parcel belongs to the rank
//! that read it last. The answer to a message travels in the parcel that the message came in. Each
//! line of the parcel then crosses from core to core once per message.
//!
//! The parcels are in three sets, so that a pair without long messages needs memory for the first
//! one alone. Each rank of the pair starts with half of each set. It fills those with the lowest
//! numbers first, so that few parcels circulate and they stay in the caches. A packet may name
//! several consecutive parcels, a *run*.
//!
//! A rank that only sends would run out of parcels. So a packet may *lend* its run: the receiver
//! returns it when it has read it, by changing the run's bits in a word of its own.
//!
//! The packet that names a parcel, in a line or a cell, hands the parcel over. A release store
//! publishes the packet, after the sender's writes to the parcel and after its reads of the old
//! contents. An acquire load finds the packet. A packet may also be sent before the parcel is
//! filled. Then each *piece* has a mark: a word that holds the packet's sequence number once the
//! piece is complete. The receiver reads one piece while the sender writes the next.
//!
//! Participants: the two ranks of a pair, one thread each. Every operation is wait-free.

use core::ptr::NonNull;

use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{AtomicU64, CacheLine, order};
use crate::wire::parcel::parcels_of;
use crate::wire::{
    Corrupt, PARCEL, PARCELS_MAX, PIECES_MAX, ParcelHead, ParcelRun, RUN_MAX, Sequence,
};

/// The mark of a piece, or the word in which a rank returns parcels. It is alone on its cache line,
/// so that its writer takes that line from the reader only once.
pub type ParcelWord = CacheLine<AtomicU64>;

/// Returns the number of words in front of `count` parcels: the marks, and one word of each rank.
#[must_use]
pub const fn parcel_words(count: u32) -> usize {
    if count == 0 { 0 } else { (count * PIECES_MAX) as usize + 2 }
}

/// Parcels of a pair that get their memory together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParcelSet {
    /// The first [`FIRST_PARCELS`], with the marks of all. Every message in parcels wants them.
    First,
    /// The next, up to [`FURTHER_PARCELS`]. Messages that are longer than a rank's half of the
    /// first ones want them.
    Further,
    /// The others. Messages that are longer than a rank's half of those before want them.
    Last,
}

/// Number of parcels in the first set, unless the pair has fewer.
pub const FIRST_PARCELS: u32 = 8;

/// Number of parcels in the first two sets, unless the pair has fewer.
pub const FURTHER_PARCELS: u32 = 32;

impl ParcelSet {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::First, Self::Further, Self::Last];

    /// Returns the number of the first parcel of the set and how many it has, an even number, if
    /// the pair has `count`.
    #[must_use]
    pub const fn numbers(self, count: u32) -> (u32, u32) {
        let (begin, end) = match self {
            Self::First => (0, FIRST_PARCELS),
            Self::Further => (FIRST_PARCELS, FURTHER_PARCELS),
            Self::Last => (FURTHER_PARCELS, PARCELS_MAX),
        };
        let begin = if begin < count { begin } else { count };
        let end = if end < count { end } else { count };
        (begin, end - begin)
    }
}

/// One rank's private view of the parcels of a pair.
#[derive(Debug)]
pub struct Parcels {
    words: NonNull<ParcelWord>,
    first: NonNull<u8>,
    count: u32,
    /// Number of parcels that this rank began with.
    share: u32,
    /// Bit n is set while this rank owns parcel n and may fill it.
    here: u64,
    /// Bit n is set while parcel n is lent to the peer.
    lent: u64,
    /// The value of this rank's word: bit n changes when it returns parcel n.
    returned: u64,
    /// The value of the peer's word when this rank last looked.
    seen: u64,
    higher: bool,
}

// SAFETY: one thread at a time uses the view (`&mut self`), and the memory that it points to is
// designed for access by concurrent processes.
unsafe impl Send for Parcels {}

impl Parcels {
    /// Creates the view of the lower or the higher rank of a pair.
    ///
    /// The pair has `count` parcels, an even number, at `first`, and [`parcel_words`] words at
    /// `words`: [`PIECES_MAX`] marks for each parcel, and then a word of the lower and one of the
    /// higher rank. The view owns no parcel until [`Parcels::open`].
    ///
    /// # Safety
    ///
    /// The parcels and the words stay valid while this value is in use. Each rank of the pair has
    /// one view.
    #[must_use]
    pub const unsafe fn new(
        words: NonNull<ParcelWord>,
        first: NonNull<u8>,
        count: u32,
        higher: bool,
    ) -> Self {
        debug_assert!(count.is_multiple_of(2) && count <= PARCELS_MAX);
        Self { words, first, count, share: 0, here: 0, lent: 0, returned: 0, seen: 0, higher }
    }

    /// Takes ownership of this rank's half of a set. Called once, when the set is backed by memory.
    ///
    /// The peer may hand over parcels of a set before: it backed them.
    pub const fn open(&mut self, set: ParcelSet) {
        let (first, count) = set.numbers(self.count);
        let half = count / 2;
        let mask: u64 = ((1 << half) - 1) << first;
        self.share += half;
        self.here |= if self.higher { mask << half } else { mask };
    }

    /// Returns whether the pair has parcels of a set.
    #[must_use]
    pub const fn has(&self, set: ParcelSet) -> bool {
        set.numbers(self.count).1 > 0
    }

    /// Returns true if a message of `length` bytes fits the parcels that this rank owns.
    #[inline(always)]
    #[must_use]
    pub const fn hold(&self, length: usize) -> bool {
        length <= self.here.count_ones() as usize * PARCEL
    }

    /// Returns whether this rank owns at most half of what it began with, or no more parcels than a
    /// message of `length` bytes takes.
    #[inline(always)]
    #[must_use]
    pub fn are_few(&self, length: usize) -> bool {
        self.here.count_ones() as usize <= length.div_ceil(PARCEL).max(self.share as usize / 2)
    }

    /// Returns true if a message of `length` bytes fits the parcels that this rank owns and those
    /// that it has lent.
    #[inline(always)]
    #[must_use]
    pub const fn will_hold(&self, length: usize) -> bool {
        length <= (self.here | self.lent).count_ones() as usize * PARCEL
    }

    /// Returns the run to fill next with up to `length` bytes (at least 1), and its address.
    ///
    /// The run has room for `length` bytes or for [`RUN_MAX`] if there is one that long; else it is
    /// a single parcel. Returns `None` if this rank owns no parcel.
    #[inline(always)]
    #[must_use]
    pub const fn next(&self, length: usize) -> Option<(ParcelRun, NonNull<u8>)> {
        if self.here == 0 {
            return None;
        }
        let length = if length < RUN_MAX { length } else { RUN_MAX };
        // Bit n is set if a run that is long enough starts at parcel n.
        let (mut begins, mut parcel) = (self.here, 1);
        while parcel < parcels_of(length) {
            begins &= self.here >> parcel;
            parcel += 1;
        }
        let run = if begins != 0 {
            ParcelRun { number: begins.trailing_zeros(), length }
        } else {
            ParcelRun { number: self.here.trailing_zeros(), length: PARCEL }
        };
        Some((run, self.place(run.number)))
    }

    /// Gives the run to the peer. The caller has published a packet that names it.
    #[inline(always)]
    pub const fn hand_over(&mut self, run: ParcelRun) {
        self.here &= !run.bits();
    }

    /// Lends the run to the peer. The caller has published a packet that names it and asks for its
    /// return.
    #[inline(always)]
    pub const fn lend(&mut self, run: ParcelRun) {
        self.here &= !run.bits();
        self.lent |= run.bits();
    }

    /// Returns a run that the peer has lent and that [`Parcels::find`] returned. The caller has
    /// finished reading it.
    #[inline(always)]
    pub fn give_back(&mut self, run: ParcelRun) {
        self.returned ^= run.bits();
        // ORDER parcels/3: Release, pairs with parcels/4: this rank has read the run before the
        //   peer fills it again.
        self.word_of(self.higher).0.store(self.returned, order("parcels/3", Release));
    }

    /// Takes the parcels that the peer has returned. Accesses no memory while none is lent.
    #[inline(always)]
    pub fn collect(&mut self) {
        if self.lent == 0 {
            return;
        }
        // ORDER parcels/4: Acquire, pairs with parcels/3: the parcels may be filled.
        let word = self.word_of(!self.higher).0.load(order("parcels/4", Acquire));
        let back = (word ^ self.seen) & self.lent;
        self.here |= back;
        self.lent &= !back;
        self.seen = word;
    }

    /// Returns the address of a run that a packet from the peer names. The run may be read until
    /// [`Parcels::keep`].
    ///
    /// # Errors
    ///
    /// [`Corrupt::Parcel`] if the numbers are out of range or the peer does not own the run.
    #[inline(always)]
    pub const fn find(&self, run: ParcelRun) -> Result<NonNull<u8>, Corrupt> {
        let ParcelRun { number, length } = run;
        let out_of_range = number >= self.count || parcels_of(length) > self.count - number;
        if out_of_range || (self.here | self.lent) & run.bits() != 0 {
            return Err(Corrupt::Parcel { found: number, parcels: self.count });
        }
        Ok(self.place(number))
    }

    /// Takes ownership of the run that [`Parcels::find`] returned. The caller has finished reading
    /// it.
    #[inline(always)]
    pub const fn keep(&mut self, run: ParcelRun) {
        self.here |= run.bits();
    }

    /// Marks a piece as filled. It belongs to the run from parcel `number` on, which packet
    /// `sequence` names.
    #[inline(always)]
    pub fn mark(&self, number: u32, piece: u32, sequence: Sequence) {
        // ORDER parcels/1: Release, pairs with parcels/2: what was written to the piece comes
        //   before its mark.
        self.mark_of(number, piece).0.store(sequence.word(), order("parcels/1", Release));
    }

    /// Returns how many bytes of a part are present, counted from the start of the run that
    /// [`Parcels::find`] returned.
    ///
    /// The first `known` bytes, a whole number of pieces, are present already. `head` came with
    /// packet `sequence`.
    #[inline(always)]
    #[must_use]
    pub fn filled(&self, head: &ParcelHead, sequence: Sequence, known: usize) -> usize {
        let (length, piece) = (head.length as usize, head.piece());
        if head.pieces == 0 {
            return length;
        }
        let mut filled = known;
        while filled < length {
            // The quotient is less than `pieces`, since each piece but the last has the full size.
            let mark = self.mark_of(u32::from(head.number), (filled / piece) as u32);
            // ORDER parcels/2: Acquire, pairs with parcels/1: the piece may be read.
            if mark.0.load(order("parcels/2", Acquire)) != sequence.word() {
                break;
            }
            filled = (filled + piece).min(length);
        }
        filled
    }

    #[inline(always)]
    fn mark_of(&self, number: u32, piece: u32) -> &ParcelWord {
        debug_assert!(number < self.count && piece < PIECES_MAX);
        // SAFETY: the mark belongs to one of the parcels and is valid (contract of `new`).
        unsafe { self.words.add((number * PIECES_MAX + piece) as usize).as_ref() }
    }

    /// Returns the word in which one rank of the pair returns parcels.
    #[inline(always)]
    fn word_of(&self, higher: bool) -> &ParcelWord {
        let place = (self.count * PIECES_MAX) as usize + usize::from(higher);
        // SAFETY: the words are behind the marks and are valid (contract of `new`).
        unsafe { self.words.add(place).as_ref() }
    }

    #[inline(always)]
    const fn place(&self, number: u32) -> NonNull<u8> {
        debug_assert!(number < self.count);
        // SAFETY: the offset is that of one of the parcels, which are valid (contract of `new`).
        unsafe { self.first.add(number as usize * PARCEL) }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// Returns the views of both ranks, and the words, which live as long as the views are used.
    fn pair(count: u32) -> ([Parcels; 2], Vec<ParcelWord>) {
        static MEMORY: [u8; 4 * PARCEL] = [0; 4 * PARCEL];
        let words = (0..parcel_words(count)).map(|_| CacheLine(AtomicU64::new(0)));
        let words: Vec<ParcelWord> = words.collect();
        let (first, memory) = (NonNull::from(words.as_slice()).cast(), NonNull::from(&MEMORY));
        // SAFETY: the words live as long as the views are used, and are enough. The memory has room
        // for as many parcels as the tests place, which read and write none.
        let view = |higher| unsafe { Parcels::new(first, memory.cast(), count, higher) };
        ([false, true].map(view), words)
    }

    #[test]
    fn a_parcel_has_one_owner_at_a_time() {
        let ([mut low, mut high], _words) = pair(4);
        assert_eq!((low.next(1), low.hold(0), low.hold(1)), (None, true, false));
        low.open(ParcelSet::First);
        high.open(ParcelSet::First);
        assert!(low.hold(2 * PARCEL) && !low.hold(2 * PARCEL + 1));
        let (run, _) = low.next(PARCEL).unwrap();
        low.hand_over(run);
        assert_eq!(high.find(run), Ok(high.place(0)));
        high.keep(run);
        assert!(high.hold(3 * PARCEL) && low.hold(PARCEL));
        assert_eq!(high.next(1).unwrap().0.number, 0, "the parcel received last is filled first");
        assert_eq!(low.next(1).unwrap().0.number, 1);
    }

    #[test]
    fn a_run_is_the_first_that_is_long_enough() {
        let ([mut low, mut high], _words) = pair(4);
        low.open(ParcelSet::First);
        high.open(ParcelSet::First);
        let (run, _) = low.next(PARCEL + 1).unwrap();
        assert_eq!(run, ParcelRun { number: 0, length: PARCEL + 1 });
        low.hand_over(run);
        assert!(!low.hold(1), "the run takes both parcels");
        assert_eq!(high.find(run), Ok(high.place(0)));
        high.keep(run);
        assert_eq!(high.next(RUN_MAX + 1).unwrap().0, ParcelRun { number: 0, length: RUN_MAX });
        high.hand_over(ParcelRun { number: 1, length: 1 });
        assert_eq!(high.next(2 * PARCEL).unwrap().0, ParcelRun { number: 2, length: 2 * PARCEL });
        assert_eq!(
            high.next(3 * PARCEL).unwrap().0,
            ParcelRun { number: 0, length: PARCEL },
            "single"
        );
    }

    #[test]
    fn each_rank_begins_with_half_of_each_set() {
        for count in [0, 2, FIRST_PARCELS, FIRST_PARCELS + 2, FURTHER_PARCELS + 4, PARCELS_MAX] {
            let ([mut low, mut high], _words) = pair(count);
            let mut all = 0;
            for set in ParcelSet::ALL {
                let (first, of_set) = set.numbers(count);
                assert_eq!(low.has(set), of_set > 0);
                low.open(set);
                high.open(set);
                all += of_set;
                assert_eq!(low.here & high.here, 0);
                assert_eq!((low.here | high.here).count_ones(), all, "{count}, {set:?}");
                assert_eq!(low.here.count_ones(), all / 2);
                let known = u128::from(low.here | high.here);
                assert_eq!(known + 1, 1 << (first + of_set));
            }
            assert_eq!(all, count);
        }
    }

    #[test]
    fn a_part_is_present_up_to_its_first_unmarked_piece() {
        let ([low, high], _words) = pair(4);
        let (mut sequence, length) = (Sequence::first(0, 1), 5000);
        let head =
            ParcelHead { total: 5000, offset: 0, length, number: 3, asks: 0, pieces: 3, lent: 0 };
        assert_eq!(high.filled(&ParcelHead { pieces: 0, ..head }, sequence, 0), 5000);
        assert_eq!((high.filled(&head, sequence, 0), head.piece()), (0, 1728));
        low.mark(3, 1, sequence);
        assert_eq!(high.filled(&head, sequence, 0), 0, "pieces count in order");
        low.mark(3, 0, sequence);
        assert_eq!(high.filled(&head, sequence, 0), 2 * 1728);
        low.mark(3, 2, sequence);
        assert_eq!(high.filled(&head, sequence, 2 * 1728), 5000);
        sequence += 1;
        assert_eq!(high.filled(&head, sequence, 0), 0, "the marks are those of an earlier packet");
    }

    #[test]
    fn a_lent_run_comes_back_when_it_has_been_read() {
        let ([mut low, mut high], _words) = pair(4);
        low.open(ParcelSet::First);
        high.open(ParcelSet::First);
        for _ in 0..3 {
            let (run, _) = low.next(2 * PARCEL).unwrap();
            assert_eq!((run.number, low.are_few(PARCEL)), (0, false));
            assert!(low.are_few(PARCEL + 1));
            low.lend(run);
            assert!(low.are_few(1) && !low.hold(1));
            assert!(low.will_hold(2 * PARCEL) && !low.will_hold(2 * PARCEL + 1));
            low.collect();
            assert!(!low.hold(1), "the peer has not read it");
            assert!(low.find(run).is_err(), "the peer may not send in it");
            assert!(high.find(run).is_ok());
            high.give_back(run);
            assert!(!high.hold(2 * PARCEL + 1), "the peer keeps nothing");
            low.collect();
            assert!(low.hold(2 * PARCEL) && high.hold(2 * PARCEL));
        }
    }

    #[test]
    fn only_what_was_lent_comes_back() {
        let ([mut low, mut high], _words) = pair(4);
        low.open(ParcelSet::First);
        high.open(ParcelSet::First);
        let [first, second] = [0, 1].map(|number| ParcelRun { number, length: PARCEL });
        low.lend(first);
        low.hand_over(second);
        // A peer that breaks the protocol returns what it owns, and what does not exist.
        high.returned = !0;
        high.give_back(ParcelRun { number: 3, length: 1 });
        low.collect();
        assert_eq!((low.here, low.lent), (first.bits(), 0));
    }

    #[test]
    fn a_parcel_that_the_peer_does_not_own_is_refused() {
        let ([mut low, mut high], _words) = pair(4);
        low.open(ParcelSet::First);
        high.open(ParcelSet::First);
        let refused = |parcels: &Parcels, number, length| {
            let error = Corrupt::Parcel { found: number, parcels: parcels.count };
            assert_eq!(
                parcels.find(ParcelRun { number, length }),
                Err(error),
                "{number}, {length}"
            );
        };
        refused(&low, 4, 1);
        refused(&low, u32::MAX, 1);
        refused(&low, 3, PARCEL + 1);
        refused(&low, 1, PARCEL + 1);
        refused(&high, 3, 1);
        refused(&high, 1, PARCEL + 1);
        let ([none, _], _words) = pair(0);
        refused(&none, 0, 1);
    }
}
