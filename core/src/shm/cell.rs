//! The element of every queue: a header line followed by a payload.

use core::ptr::NonNull;

use crate::golden;
use crate::sync::{AtomicU32, UnsafeCell, read_once};
use crate::wire::{CellIndex, Corrupt};

/// The header line of a cell. The payload follows, which has
/// [`crate::layout::SegmentConfig::cell_payload`] bytes.
///
/// A cell belongs to one rank for ever. It is private to its owner until enqueued, and then to the
/// consumer of that queue until it returns to the owner's free queue. In between, other ranks touch
/// only `next`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Cell {
    /// Link to the next cell of the queue that holds this one; zero for none.
    pub next: AtomicU32,
    /// What the cell carries.
    pub head: UnsafeCell<CellHead>,
}

/// The description of a cell's contents. The owner writes it before it enqueues the cell.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct CellHead {
    /// Position in the order of packets from `source` to the queue's owner.
    pub sequence: u64,
    /// Context and tag ([`crate::wire::Key`]).
    pub key: u64,
    /// Length of the whole message in bytes.
    pub total: u64,
    /// The sending rank.
    pub source: u32,
    /// Number of payload bytes in this cell.
    pub length: u32,
    /// Packet kind ([`crate::wire::PacketKind`]).
    pub kind: u8,
    /// Flags: [`CellHead::FASTBOX_OPEN`] or zero.
    pub flags: u8,
    /// Reserved, zero.
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

// SAFETY: `next` is atomic. One process at a time accesses `head`: the queues hand it over (edges
// queue/2, queue/3 and free/2, each explored by loom).
unsafe impl Sync for Cell {}

impl Cell {
    /// Creates a zeroed cell, for models and tests. In a segment, zeroed memory has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self { next: AtomicU32::new(CellIndex::NIL), head: UnsafeCell::new(CellHead::default()) }
    }

    /// Returns a copy of the description.
    ///
    /// The copy is checked, so each word is read once, whatever a faulty process writes meanwhile.
    ///
    /// # Safety
    ///
    /// `cell` points to a live cell to which the caller has exclusive access: it dequeued the cell,
    /// or it owns the cell and the cell is free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn read_head(cell: NonNull<Self>) -> CellHead {
        // SAFETY: no correct process writes the head now (contract of `read_head`), and a head has
        // no padding. Any bytes are a valid `CellHead`.
        unsafe { (*cell.as_ptr()).head.with(|head| read_once(head)) }
    }

    /// Writes the description.
    ///
    /// # Safety
    ///
    /// `cell` points to a live cell to which the caller has exclusive access: it dequeued the cell,
    /// or it owns the cell and the cell is free.
    #[inline(always)]
    pub unsafe fn write_head(cell: NonNull<Self>, value: CellHead) {
        // SAFETY: no other process reads or writes the head now (contract of `write_head`).
        unsafe { (*cell.as_ptr()).head.with_mut(|head| head.write(value)) }
    }

    /// Returns the address of the payload behind the header line.
    ///
    /// # Safety
    ///
    /// `cell` came from [`crate::layout::Segment::cell`], which returns cells that are followed by
    /// their payload.
    #[inline(always)]
    #[must_use]
    pub unsafe fn payload(cell: NonNull<Self>) -> NonNull<u8> {
        // SAFETY: at least `cell_payload` bytes of the same mapping follow the header (contract of
        // `payload`).
        unsafe { cell.add(1).cast() }
    }
}

/// Access to cells by index: mapped memory in production, a vector in the models.
pub trait CellArena {
    /// Parses a link that another process may have written.
    ///
    /// # Errors
    ///
    /// [`Corrupt::CellIndex`] if `raw` is neither zero nor the index of a cell.
    fn parse(&self, raw: u32) -> Result<Option<CellIndex>, Corrupt>;

    /// Returns the link of a cell.
    fn next(&self, index: CellIndex) -> &AtomicU32;
}
