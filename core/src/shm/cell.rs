//! The element of every queue: a header line, and a payload behind it.

use core::ptr::NonNull;

use crate::layout::{CellIndex, Corrupt, golden};
use crate::sync::{AtomicU32, UnsafeCell};

/// One cell's header line. The payload, [`crate::layout::Config::cell_payload`] bytes, follows it.
///
/// A cell belongs to one rank for ever. It is private to its owner until enqueued, then to the consumer of that
/// queue until returned to the owner's free queue; `next` alone is touched by others in between.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Cell {
    /// Link to the next cell of whichever queue holds this one; zero for none.
    pub next: AtomicU32,
    /// What the cell carries.
    pub head: UnsafeCell<CellHead>,
}

/// The description of a cell's contents, written by the owner before it enqueues the cell.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct CellHead {
    /// Place in the order of packets from `source` to the queue's owner.
    pub sequence: u64,
    /// Context and tag ([`crate::wire::Key`]).
    pub key: u64,
    /// Length of the whole message, bytes.
    pub total: u64,
    /// The sending rank.
    pub source: u32,
    /// Bytes of payload in this cell.
    pub length: u32,
    /// Packet kind ([`crate::wire::Kind`]).
    pub kind: u8,
    /// [`CellHead::FASTBOX_OPEN`].
    pub flags: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

impl CellHead {
    /// Flag: from the next packet on, the source also uses its fastbox to this destination.
    pub const FASTBOX_OPEN: u8 = 1;
}

golden::structure!(Cell { next, head });
golden::structure!(CellHead { sequence, key, total, source, length, kind, flags, reserved });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(size_of::<Cell>(), CACHE_LINE);
    const_assert_eq!(offset_of!(Cell, head), 8);
    const_assert_eq!(offset_of!(CellHead, total), 16);
    const_assert_eq!(offset_of!(CellHead, kind), 32);
};

// SAFETY: `next` is atomic; `head` is reached by one process at a time, which the queues' hand-over proves (edges
// queue/2, queue/3 and free/2, each explored by loom).
unsafe impl Sync for Cell {}

impl Cell {
    /// A cell in its zeroed state, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self { next: AtomicU32::new(CellIndex::NIL), head: UnsafeCell::new(CellHead::default()) }
    }

    /// Copies the description out.
    ///
    /// # Safety
    ///
    /// `cell` points to a live cell that is in the caller's hands: it dequeued the cell, or owns it and has it free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn read_head(cell: NonNull<Self>) -> CellHead {
        // SAFETY: by the contract nobody writes the head now; any bytes are a valid `CellHead`.
        unsafe { (*cell.as_ptr()).head.with(|head| head.read()) }
    }

    /// Writes the description.
    ///
    /// # Safety
    ///
    /// As for [`Cell::read_head`].
    #[inline(always)]
    pub unsafe fn write_head(cell: NonNull<Self>, value: CellHead) {
        // SAFETY: by the contract nobody else reads or writes the head now.
        unsafe { (*cell.as_ptr()).head.with_mut(|head| head.write(value)) }
    }

    /// The payload behind the header line.
    ///
    /// # Safety
    ///
    /// `cell` came from [`crate::layout::Segment::cell`], whose cells have their payload behind them.
    #[inline(always)]
    #[must_use]
    pub unsafe fn payload(cell: NonNull<Self>) -> NonNull<u8> {
        // SAFETY: by the contract at least `cell_payload` bytes of the same mapping follow.
        unsafe { cell.add(1).cast() }
    }
}

/// Finds cells by index: mapped memory in production, a vector in the models.
pub trait CellArena {
    /// Parses a link that another process may have written.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`].
    fn parse(&self, raw: u32) -> Result<Option<CellIndex>, Corrupt>;

    /// The link of a cell.
    fn next(&self, index: CellIndex) -> &AtomicU32;
}
