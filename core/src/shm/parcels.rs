//! Parcels: buffers of a pair of ranks that change hands.
//!
//! A buffer that goes back to its sender when it has been read is dear to fill again: the sender must take each line away
//! from the core that read it. But whoever has just *read* a line can write it at no cost, which is what the
//! [baton](super::Baton) lives on. So a parcel belongs to whoever read it last. The answer to a message travels in the
//! parcel the message came in, and each line of it crosses from core to core once a message.
//!
//! Each rank of the pair begins with half of them. It fills those with the lowest numbers first, so that parcels that go to
//! and fro are few and stay in the caches. A rank that only sends runs out of them, and its messages take other ways.
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

/// Most pieces in which a parcel is filled: marks that it has.
pub const PIECES_MAX: u32 = 4;

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

    /// The parcel to fill next, [`PARCEL`] bytes: its number, and where it is. `None`: none is here.
    #[inline(always)]
    #[must_use]
    pub const fn next(&self) -> Option<(u32, NonNull<u8>)> {
        if self.here == 0 {
            return None;
        }
        let number = self.here.trailing_zeros();
        Some((number, self.place(number)))
    }

    /// A packet that names the parcel has been published: it is the peer's now.
    #[inline(always)]
    pub const fn hand_over(&mut self, number: u32) {
        self.here &= !(1 << number);
    }

    /// Where the parcel is that a packet of the peer names. It may be read until [`Parcels::keep`].
    ///
    /// # Errors
    ///
    /// [`Corrupt::Parcel`] when there is none of this number, or it is not the peer's to hand over.
    #[inline(always)]
    pub const fn find(&self, number: u32) -> Result<NonNull<u8>, Corrupt> {
        if number >= self.count || self.here & 1 << number != 0 {
            return Err(Corrupt::Parcel { found: number, parcels: self.count });
        }
        Ok(self.place(number))
    }

    /// The parcel that [`Parcels::find`] found has been read: it is ours now.
    #[inline(always)]
    pub const fn keep(&mut self, number: u32) {
        self.here |= 1 << number;
    }

    /// Says that a piece of the parcel that packet `sequence` named has been filled.
    #[inline(always)]
    pub fn mark(&self, number: u32, piece: u32, sequence: Sequence) {
        // ORDER parcels/1: Release, pairs with parcels/2: what was written to the piece comes before its mark.
        self.mark_of(number, piece).0.store(sequence.word(), order("parcels/1", Release));
    }

    /// Bytes of a part that are in the parcel [`Parcels::find`] found, from its start, where the first `known` are: those of a
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
        assert_eq!((low.next(), low.hold(0), low.hold(1)), (None, true, false));
        low.open();
        high.open();
        assert!(low.hold(2 * PARCEL) && !low.hold(2 * PARCEL + 1));
        let (number, _) = low.next().unwrap();
        low.hand_over(number);
        assert_eq!(high.find(number), Ok(high.place(0)));
        high.keep(number);
        assert!(high.hold(3 * PARCEL) && low.hold(PARCEL));
        assert_eq!(high.next().unwrap().0, 0, "what came last goes first");
        assert_eq!(low.next().unwrap().0, 1);
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
        assert_eq!(low.find(4), Err(Corrupt::Parcel { found: 4, parcels: 4 }));
        assert_eq!(high.find(3), Err(Corrupt::Parcel { found: 3, parcels: 4 }));
        let [none, _] = pair(0);
        assert_eq!(none.find(0), Err(Corrupt::Parcel { found: 0, parcels: 0 }));
    }
}
