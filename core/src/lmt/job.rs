//! Jobs: pieces of a large message that one side moves now.

use super::wire_address::RemoteBuffer;
use crate::buffer::copy::copy_cached;
use crate::buffer::{Cursor, Direction, Part};
use crate::layout::{DESCRIPTORS_PER_RANK, Segment};
use crate::shm::{Descriptor, GRAINS_MAX, Grains};
use crate::wire::Corrupt;

/// Identifies the descriptor of a transfer: its owner, its number and the number of this use.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Home {
    pub(crate) owner: u32,
    pub(crate) place: u32,
    /// Not zero.
    pub(crate) generation: u32,
}

impl Home {
    /// Parses the descriptor that `owner` named.
    pub(crate) fn parse(owner: u32, place: u32, generation: u32) -> Result<Self, Corrupt> {
        if place >= DESCRIPTORS_PER_RANK || generation == 0 {
            let max = u64::from(DESCRIPTORS_PER_RANK - 1);
            return Err(Corrupt::Length { found: u64::from(place), max });
        }
        Ok(Self { owner, place, generation })
    }

    /// Returns the descriptor.
    pub(crate) fn of(self, segment: &Segment) -> &Descriptor {
        segment.descriptor(self.owner, self.place)
    }
}

/// Size in bytes of a grain, the unit in which a message is divided between the two sides. It is a
/// multiple of the page size, so that the two sides seldom pin the same page.
pub const GRAIN: usize = 16 * 1024;

/// Minimum and maximum number of grains that one job moves. A job costs about 1.5 µs before the
/// first byte, and the other side may have to wait for the last job.
pub(super) const JOB_LEAST: u32 = 2;
pub(super) const JOB_MOST: u32 = 16;

/// Maximum number of grains of a job that one side moves because the other is not inside the
/// library. The other side may come back meanwhile, and finds less to wait for.
pub(super) const JOB_MOST_ALONE: u32 = 8;

/// Number of progress calls in a row that find the other side away before this one moves the
/// message alone: a side that is about to wait enters the library meanwhile.
pub(super) const GRACE: u8 = 6;

/// Number of grains that the sender claims at a time for the copy ring. The two sides exchange the
/// line of the counters once for each claim. A message that the sender claimed and did not put into
/// the ring waits for the sender.
pub(super) const RING_CLAIM: u32 = 8;

/// Number of grains that the sender puts into the ring of a long message before it knows whether
/// the receiver waits inside the library. The receiver may have posted its receive and compute.
pub(super) const RING_BEGINNING: u32 = 4;

/// A piece of a message that this side moves now.
#[derive(Debug)]
pub struct CopyJob {
    /// The other rank.
    pub peer: u32,
    /// Direction of the move.
    pub direction: Direction,
    /// Start of the piece in this process.
    pub local: Cursor,
    /// Start of the piece in the peer's memory.
    pub remote: RemoteBuffer,
    /// Number of bytes to move. The peer's memory is contiguous.
    pub length: usize,
    pub(crate) ticket: CopyTicket,
}

impl CopyJob {
    /// Executes the job by a copy, if a copy suffices. Returns false if nothing was done and the
    /// embedder must use a system call.
    ///
    /// # Safety
    ///
    /// The engine returned the job, and no other call was made to the engine since.
    #[must_use]
    pub unsafe fn copy(&self) -> bool {
        let RemoteBuffer::Mapped(remote) = self.remote else { return false };
        let mut done = 0;
        self.local.pieces(self.length, |Part { base, length }| {
            // SAFETY: the engine claimed both ranges for this job (contract of `copy`). `base` has
            // `length` bytes in our buffer, and `remote` has `length` bytes in the peer's.
            // `heap_place` checked that the peer's range lies in its heap, so a false address
            // cannot leave it. The ranges may overlap, which `copy_cached` allows.
            unsafe {
                let remote = remote.add(done);
                match self.direction {
                    Direction::Read => copy_cached(remote.as_ptr(), base.as_ptr(), length),
                    Direction::Write => copy_cached(base.as_ptr(), remote.as_ptr(), length),
                }
            }
            done += length;
        });
        true
    }
}

/// The claim behind a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyTicket {
    /// The number of its sender or receiver in the engine.
    pub(crate) half: u32,
    pub(crate) grains: Grains,
}

/// A job failed, in whole or in part. The embedder knows the cause; the message takes another
/// transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused;

/// The bytes of a message that are to be moved, counted in grains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) length: usize,
}

impl Span {
    /// Returns true if a message of `length` bytes can be counted in grains.
    pub(crate) const fn fits(length: usize) -> bool {
        length.div_ceil(GRAIN) <= GRAINS_MAX as usize
    }

    /// Returns the number of grains. The callers guarantee that the length fits.
    pub(crate) const fn grains(self) -> u32 {
        self.length.div_ceil(GRAIN) as u32
    }

    /// Returns the first byte and the end of `grains`, or an error if they exceed the message.
    pub(crate) fn bytes(self, grains: Grains) -> Result<(usize, usize), Corrupt> {
        let end = u64::from(grains.first) + u64::from(grains.count);
        if end > u64::from(self.grains()) {
            return Err(Corrupt::Length { found: end, max: u64::from(self.grains()) });
        }
        Ok((grains.first as usize * GRAIN, (end as usize * GRAIN).min(self.length)))
    }

    /// Returns the number of grains that end within the bytes from `begin` to `end`, which is at
    /// most the length.
    pub(crate) const fn ending(self, begin: usize, end: usize) -> u32 {
        let ended = if end == self.length { self.grains() } else { (end / GRAIN) as u32 };
        ended - (begin / GRAIN) as u32
    }
}
