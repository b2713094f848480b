//! Large messages: the LMT interface of `[Nemesis07]` §3.2 and the transfers behind it.
//!
//! A large message is announced by an RTS packet, which takes part in matching as an eager message does; its data stay
//! where they are until the receive is there. Then both sides know each other's memory and move the data by one copy,
//! whichever of the two is inside the library, or both at once ([`crate::shm::Chunks`]).
//!
//! | paper                 | here                                                             |
//! |-----------------------|------------------------------------------------------------------|
//! | `lmt_pre_send`        | `Sender::pre_send`: the send cookie, which travels in the RTS  |
//! | `lmt_pre_recv`        | `Receiver::pre_recv`: the receive cookie                       |
//! | CTS, `lmt_start_recv` | `Receiver::start_recv`: the cookie is left in the descriptor   |
//! | `lmt_start_send`      | `Sender::start_send`: the cookie has been found there          |
//! | COOKIE, `lmt_handle_cookie` | `Sender::handle_cookie`: grains that the receiver left to the sender |
//! | DONE, `lmt_post_send`, `lmt_post_recv` | `Sender::post_send`, `Receiver::post_recv`: the counter is complete |
//!
//! So of the paper's four packets the RTS alone takes a cell: the answers lie in a descriptor that both sides look at,
//! and no control packet can wait behind data.
//!
//! Where the receiver is first, it may begin (`[SpecRndv09]` §3.1.2). It then owns the descriptor, and its RTR says what
//! a grant does; the sender that uses it may claim chunks at once, whatever its receiver does meanwhile. What an RTS says
//! comes in an RTR-ACK, which takes part in matching as an RTS does:
//!
//! | `[SpecRndv09]` | here                                                                          |
//! |----------------|-------------------------------------------------------------------------------|
//! | RTR            | `Receiver::ask`: the buffer, in a packet to the sender                        |
//! | RTR-ACK        | `Sender::by_rtr`, `Receiver::start_used`: the data, in a packet to the receiver |
//! | RDMA Write     | chunks, by either side                                                        |
//!
//! The two halves are values that neither allocate, wait nor copy between processes: they hand out [`Job`]s, which the
//! embedder carries out with whatever the system has (`process_vm_readv` and `process_vm_writev`). A side that cannot
//! leaves its grains to the other. What neither moves that way, or is not to, the sender streams through the pair's
//! [copy ring](crate::shm::CopyRingSender). Which way a message takes is its sender's choice. But a buffer in a *heap*
//! ([`Place::Heap`]) is mapped by both sides, so they copy from it or to it in place, whatever else they would do.

mod choice;
mod cookie;
mod place;
mod receiver;
mod rtr;
mod sender;

pub use choice::{CANDIDATES, CLASSES};
pub(crate) use choice::{Choice, Chosen};
pub use cookie::SendCookie;
pub use place::{Place, Remote};
pub use receiver::Receiver;
pub use rtr::{Rtr, RtrAck};
pub use sender::Sender;
pub(crate) use sender::{Piece, Ways};

use crate::layout::{Corrupt, DESCRIPTORS_PER_RANK, Segment};
use crate::progress::{Cursor, Part};
use crate::shm::{Descriptor, GRAINS_MAX, Grains, Stores, copy_cached};

/// How large messages travel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transfer {
    /// By whichever of [`CANDIDATES`] was fastest lately, for each peer and class of lengths.
    Auto,
    /// By one copy that both sides make together.
    CmaShared,
    /// By one copy that the receiver makes.
    Cma,
    /// Through the copy ring, by stores that stay in the cache.
    CopyRing,
    /// Through the copy ring, by stores round the caches.
    CopyRingStreamed,
}

impl Transfer {
    /// All of them, the default first.
    pub const ALL: [Self; 5] =
        [Self::Auto, Self::CmaShared, Self::Cma, Self::CopyRing, Self::CopyRingStreamed];

    /// The name in tables and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::CmaShared => "cma_shared",
            Self::Cma => "cma",
            Self::CopyRing => "copy_ring",
            Self::CopyRingStreamed => "copy_ring_nt",
        }
    }

    /// Whether a buffer in a heap is copied from and to in place. Who asks for the copy ring gets it.
    pub(crate) const fn uses_heaps(self) -> bool {
        !matches!(self, Self::CopyRing | Self::CopyRingStreamed)
    }

    /// Whether the receiver may read the sender's memory.
    const fn reads(self) -> bool {
        matches!(self, Self::CmaShared | Self::Cma)
    }

    /// Whether the sender may write to the receiver's memory.
    const fn writes(self) -> bool {
        matches!(self, Self::CmaShared)
    }

    /// How the sender fills the copy ring.
    pub(crate) const fn stores(self) -> Stores {
        match self {
            Self::CopyRingStreamed => Stores::NonTemporal,
            _ => Stores::Cached,
        }
    }
}

/// The descriptor of a transfer: whose, which, and which use of it this is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Home {
    pub(crate) owner: u32,
    pub(crate) place: u32,
    /// Not zero.
    pub(crate) generation: u32,
}

impl Home {
    /// A descriptor that its owner named.
    pub(crate) fn parse(owner: u32, place: u32, generation: u32) -> Result<Self, Corrupt> {
        if place >= DESCRIPTORS_PER_RANK || generation == 0 {
            let max = u64::from(DESCRIPTORS_PER_RANK - 1);
            return Err(Corrupt::Length { found: u64::from(place), max });
        }
        Ok(Self { owner, place, generation })
    }

    /// Where it is.
    pub(crate) fn of(self, segment: &Segment) -> &Descriptor {
        segment.descriptor(self.owner, self.place)
    }
}

/// Bytes of one grain, the unit in which a message is shared out. A whole number of pages, so that two sides seldom pin
/// the same page.
pub const GRAIN: usize = 16 * 1024;

/// Fewest and most grains that one job moves. A job costs about 1.5 µs before the first byte, and the other side may have
/// to wait for the last one.
const JOB_LEAST: u32 = 2;
const JOB_MOST: u32 = 16;

/// A piece of a message that this side is to move now.
#[derive(Debug)]
pub struct Job {
    /// The other rank.
    pub peer: u32,
    /// Which way.
    pub direction: Direction,
    /// Where the piece begins in this process.
    pub local: Cursor,
    /// Where it begins in the peer's.
    pub remote: Remote,
    /// Bytes to move. The peer's memory is contiguous.
    pub length: usize,
    pub(crate) ticket: Ticket,
}

impl Job {
    /// Does the job by a copy, where that is all it takes. False: nothing was done, the system has to help.
    ///
    /// # Safety
    ///
    /// The engine gave the job, and no other call was made to it since.
    #[must_use]
    pub unsafe fn copy(&self) -> bool {
        let Remote::Mapped(remote) = self.remote else { return false };
        let mut done = 0;
        self.local.pieces(self.length, |Part { base, length }| {
            // SAFETY: the piece lies in a buffer of ours, and as many bytes in one of the peer's, both of which are claimed
            // for this job. A peer may lie about its buffer, but not beyond its heap; so they may overlap.
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

/// Which way a job moves data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From the peer's memory to ours.
    Read,
    /// From our memory to the peer's.
    Write,
}

/// What a job was claimed as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Its sender, or receiver, in the engine.
    pub(crate) half: u32,
    pub(crate) grains: Grains,
}

/// A job could not be done, in whole or in part. How is for the embedder to know; the message arrives in another way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused;

/// The bytes of a message that are to be moved, in grains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) length: usize,
}

impl Span {
    /// True when a message of `length` bytes can be counted in grains.
    pub(crate) const fn fits(length: usize) -> bool {
        length.div_ceil(GRAIN) <= GRAINS_MAX as usize
    }

    /// Number of grains. The length fits by the callers.
    pub(crate) const fn grains(self) -> u32 {
        self.length.div_ceil(GRAIN) as u32
    }

    /// First byte and end of some grains, checked.
    pub(crate) fn bytes(self, grains: Grains) -> Result<(usize, usize), Corrupt> {
        let end = u64::from(grains.first) + u64::from(grains.count);
        if end > u64::from(self.grains()) {
            return Err(Corrupt::Length { found: end, max: u64::from(self.grains()) });
        }
        Ok((grains.first as usize * GRAIN, (end as usize * GRAIN).min(self.length)))
    }

    /// Grains that end within the bytes from `begin` to `end`, which is at most the length.
    pub(crate) const fn ending(self, begin: usize, end: usize) -> u32 {
        let ended = if end == self.length { self.grains() } else { (end / GRAIN) as u32 };
        ended - (begin / GRAIN) as u32
    }
}
