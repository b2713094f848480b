//! Parcels: buffers of a pair of ranks that change hands.
//!
//! A buffer that goes back to its sender when it has been read is dear to fill again: the sender must take each line away
//! from the core that read it. But whoever has just *read* a line can write it at no cost, which is what the
//! [baton](super::Baton) lives on. So a parcel belongs to whoever read it last. The answer to a message travels in the
//! parcel the message came in, and each line of it crosses from core to core once a message.
//!
//! Each rank of the pair begins with half of them. It fills those with the lowest numbers first, so that parcels that go to
//! and fro are few and stay in the caches. A packet may name several at once, a *run* of consecutive ones. A rank that only
//! sends runs out of them, and its messages take other ways.
//!
//! What hands a parcel over is the packet that names it, a line or a cell: that is published by a release, which comes after
//! the sender's writes to the parcel and after its reads of what was in it before, and found by an acquire. A packet may also
//! leave before the parcel is filled: then each *piece* has a mark, a word that bears the packet's sequence number when the
//! piece is there, so that its receiver reads the first while the sender writes the next.
//!
//! Participants: the two ranks of a pair, one thread each. Everything is wait-free.
//! Absent on purpose: a return.

use core::ptr::NonNull;

use crate::layout::Corrupt;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{AtomicU64, CacheLine, order};
use crate::wire::{ParcelHead, Sequence};

/// Bytes of a parcel.
pub const PARCEL: usize = 16 * 1024;

/// Most parcels of a pair.
pub const PARCELS_MAX: u32 = u32::BITS;

/// Most pieces in which a run is filled: marks that a parcel has.
pub const PIECES_MAX: u32 = 4;

/// Most bytes of a run: four parcels.
pub const RUN_MAX: usize = 4 * PARCEL;

/// The mark of a piece, on a line of its own, so that it is taken from its reader once.
pub type Mark = CacheLine<AtomicU64>;

/// One rank's view of the parcels of a pair: private state.
#[derive(Debug)]
pub struct Parcels {
    marks: NonNull<Mark>,
    first: NonNull<u8>,
    count: u32,
    /// Bit n: parcel n is in our hands, and may be filled.
    here: u32,
    higher: bool,
}

// SAFETY: the view is used by one thread at a time (`&mut self`), and the memory it points to is made for concurrent
// processes.
unsafe impl Send for Parcels {}

impl Parcels {
    /// The view that the lower or the higher rank of a pair has of its `count` parcels, an even number, at `first`, with
    /// [`PIECES_MAX`] marks for each at `marks`. Those that it begins with are not in its hands before [`Parcels::open`].
    ///
    /// # Safety
    ///
    /// Parcels and marks stay valid as long as this value is used, and each rank of the pair has one view.
    #[must_use]
    pub const unsafe fn new(
        marks: NonNull<Mark>,
        first: NonNull<u8>,
        count: u32,
        higher: bool,
    ) -> Self {
        debug_assert!(count.is_multiple_of(2) && count <= PARCELS_MAX);
        Self { marks, first, count, here: 0, higher }
    }

    /// Takes the half in hand that this rank begins with. Called once, when there is memory behind it.
    pub const fn open(&mut self) {
        let half = self.count / 2;
        let mask = (1 << half) - 1;
        self.here |= if self.higher { mask << half } else { mask };
    }

    /// Whether a message of `length` bytes fits what is in our hands.
    #[inline(always)]
    #[must_use]
    pub const fn hold(&self, length: usize) -> bool {
        length <= self.here.count_ones() as usize * PARCEL
    }

    /// What to fill next with up to `length` bytes, at least 1: a run that has room for them or for [`RUN_MAX`], or else a
    /// single parcel. Its first number, and where it is. `None`: no parcel is here.
    #[inline(always)]
    #[must_use]
    pub const fn next(&self, length: usize) -> Option<(Run, NonNull<u8>)> {
        if self.here == 0 {
            return None;
        }
        let length = if length < RUN_MAX { length } else { RUN_MAX };
        // Bit n: a run that is long enough begins with parcel n.
        let (mut begins, mut parcel) = (self.here, 1);
        while parcel < parcels_of(length) {
            begins &= self.here >> parcel;
            parcel += 1;
        }
        let run = if begins != 0 {
            Run { number: begins.trailing_zeros(), length }
        } else {
            Run { number: self.here.trailing_zeros(), length: PARCEL }
        };
        Some((run, self.place(run.number)))
    }

    /// A packet that names the run has been published: it is the peer's now.
    #[inline(always)]
    pub const fn hand_over(&mut self, run: Run) {
        self.here &= !run.bits();
    }

    /// Where the run is that a packet of the peer names. It may be read until [`Parcels::keep`].
    ///
    /// # Errors
    ///
    /// [`Corrupt::Parcel`] when there is none of these numbers, or it is not the peer's to hand over.
    #[inline(always)]
    pub const fn find(&self, run: Run) -> Result<NonNull<u8>, Corrupt> {
        let Run { number, length } = run;
        let beyond = number >= self.count || parcels_of(length) > self.count - number;
        if beyond || self.here & run.bits() != 0 {
            return Err(Corrupt::Parcel { found: number, parcels: self.count });
        }
        Ok(self.place(number))
    }

    /// The run that [`Parcels::find`] found has been read: it is ours now.
    #[inline(always)]
    pub const fn keep(&mut self, run: Run) {
        self.here |= run.bits();
    }

    /// Says that a piece of the run from parcel `number` on that packet `sequence` named has been filled.
    #[inline(always)]
    pub fn mark(&self, number: u32, piece: u32, sequence: Sequence) {
        // ORDER parcels/1: Release, pairs with parcels/2: what was written to the piece comes before its mark.
        self.mark_of(number, piece).0.store(sequence.word(), order("parcels/1", Release));
    }

    /// Bytes of a part that are in the run [`Parcels::find`] found, from its start, where the first `known` are: those of a
    /// piece, or of several. `head` came with packet `sequence`.
    #[inline(always)]
    #[must_use]
    pub fn filled(&self, head: &ParcelHead, sequence: Sequence, known: usize) -> usize {
        let (length, piece) = (head.length as usize, head.piece());
        if head.pieces == 0 {
            return length;
        }
        let mut filled = known;
        while filled < length {
            // At most `pieces`, of whole pieces in a part.
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
    fn mark_of(&self, number: u32, piece: u32) -> &Mark {
        debug_assert!(number < self.count && piece < PIECES_MAX);
        // SAFETY: a mark of one of the parcels, valid by the contract of `new`.
        unsafe { self.marks.add((number * PIECES_MAX + piece) as usize).as_ref() }
    }

    #[inline(always)]
    const fn place(&self, number: u32) -> NonNull<u8> {
        debug_assert!(number < self.count);
        // SAFETY: one of the parcels, valid by the contract of `new`.
        unsafe { self.first.add(number as usize * PARCEL) }
    }
}

/// Consecutive parcels that hold one part of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// The first of them, less than [`PARCELS_MAX`].
    pub number: u32,
    /// Bytes that they hold, from 1 to [`RUN_MAX`].
    pub length: usize,
}

impl Run {
    /// Bit n: parcel n is one of them.
    const fn bits(self) -> u32 {
        ((1 << parcels_of(self.length)) - 1) << self.number
    }
}

/// Parcels that hold `length` bytes.
const fn parcels_of(length: usize) -> u32 {
    length.div_ceil(PARCEL) as u32
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    fn pair(count: u32) -> [Parcels; 2] {
        static MEMORY: [u8; 4 * PARCEL] = [0; 4 * PARCEL];
        static MARKS: [Mark; 4 * PIECES_MAX as usize] =
            [const { CacheLine(AtomicU64::new(0)) }; 4 * PIECES_MAX as usize];
        let (marks, memory) = (NonNull::from(&MARKS).cast(), NonNull::from(&MEMORY).cast());
        // SAFETY: the memory is there for ever, and has room for as many; nothing of the parcels is read or written.
        [false, true].map(|higher| unsafe { Parcels::new(marks, memory, count, higher) })
    }

    #[test]
    fn a_parcel_is_in_one_hand_at_a_time() {
        let [mut low, mut high] = pair(4);
        assert_eq!((low.next(1), low.hold(0), low.hold(1)), (None, true, false));
        low.open();
        high.open();
        assert!(low.hold(2 * PARCEL) && !low.hold(2 * PARCEL + 1));
        let (run, _) = low.next(PARCEL).unwrap();
        low.hand_over(run);
        assert_eq!(high.find(run), Ok(high.place(0)));
        high.keep(run);
        assert!(high.hold(3 * PARCEL) && low.hold(PARCEL));
        assert_eq!(high.next(1).unwrap().0.number, 0, "what came last goes first");
        assert_eq!(low.next(1).unwrap().0.number, 1);
    }

    #[test]
    fn a_run_is_the_first_that_is_long_enough() {
        let [mut low, mut high] = pair(4);
        low.open();
        high.open();
        let (run, _) = low.next(PARCEL + 1).unwrap();
        assert_eq!(run, Run { number: 0, length: PARCEL + 1 });
        low.hand_over(run);
        assert!(!low.hold(1), "both of its parcels");
        assert_eq!(high.find(run), Ok(high.place(0)));
        high.keep(run);
        assert_eq!(high.next(RUN_MAX + 1).unwrap().0, Run { number: 0, length: RUN_MAX });
        high.hand_over(Run { number: 1, length: 1 });
        assert_eq!(high.next(2 * PARCEL).unwrap().0, Run { number: 2, length: 2 * PARCEL });
        assert_eq!(high.next(3 * PARCEL).unwrap().0, Run { number: 0, length: PARCEL }, "one");
    }

    #[test]
    fn a_part_is_there_as_far_as_its_pieces_are_marked() {
        let [low, high] = pair(4);
        let (mut sequence, length) = (Sequence::first(0, 1), 5000);
        let head = ParcelHead { total: 5000, offset: 0, length, number: 3, pieces: 3 };
        assert_eq!(high.filled(&ParcelHead { pieces: 0, ..head }, sequence, 0), 5000);
        assert_eq!((high.filled(&head, sequence, 0), head.piece()), (0, 1728));
        low.mark(3, 1, sequence);
        assert_eq!(high.filled(&head, sequence, 0), 0, "in order");
        low.mark(3, 0, sequence);
        assert_eq!(high.filled(&head, sequence, 0), 2 * 1728);
        low.mark(3, 2, sequence);
        assert_eq!(high.filled(&head, sequence, 2 * 1728), 5000);
        sequence += 1;
        assert_eq!(high.filled(&head, sequence, 0), 0, "of an earlier packet");
    }

    #[test]
    fn a_parcel_that_the_peer_does_not_have_is_refused() {
        let [mut low, mut high] = pair(4);
        low.open();
        high.open();
        let refused = |parcels: &Parcels, number, length| {
            let error = Corrupt::Parcel { found: number, parcels: parcels.count };
            assert_eq!(parcels.find(Run { number, length }), Err(error), "{number}, {length}");
        };
        refused(&low, 4, 1);
        refused(&low, u32::MAX, 1);
        refused(&low, 3, PARCEL + 1);
        refused(&low, 1, PARCEL + 1);
        refused(&high, 3, 1);
        refused(&high, 1, PARCEL + 1);
        let [none, _] = pair(0);
        refused(&none, 0, 1);
    }
}
