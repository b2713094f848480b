//! The fabric: the memory that the software devices of a host share, a block for each rank.
//!
//! It is an anonymous file as the segment is, reserved and sealed before anybody uses it; see [`crate::boot`] for that one.
//! What goes over it are keys, ends of connections and receives; no data.

use core::fmt;
use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use strait_core::layout::Liveness;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU32, AtomicU64};

use super::block::Block;
use crate::segment::{Mapping, SegmentError, new_memfd, nonce, reserve};

/// `STRsoft` and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"STRsoft\x01");

/// Bytes before the first block.
const HEADER: usize = 64;

/// Most ranks of a fabric.
const RANKS_MAX: u32 = 4096;

/// | offset | size | field   |
/// |-------:|-----:|---------|
/// |      0 |    8 | `magic` |
/// |      8 |    8 | `nonce` |
/// |     16 |    4 | `ranks` |
#[derive(Debug)]
#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    nonce: AtomicU64,
    ranks: AtomicU32,
}

const _: () = assert!(size_of::<Header>() == HEADER);

/// A fabric mapped into this process.
#[derive(Debug)]
pub struct Fabric {
    mapping: Mapping,
    ranks: u32,
    nonce: u64,
}

// SAFETY: all that is reached through `&Fabric` is atomics, made for concurrent processes, hence for threads.
unsafe impl Sync for Fabric {}

impl Fabric {
    /// Makes an empty fabric for `ranks` ranks: the file to hand to each of them. It has no name; it is gone with the last
    /// process that holds or maps it.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when there is no memory for it.
    pub fn create(ranks: u32) -> Result<OwnedFd, FabricError> {
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(FabricError::Ranks { ranks });
        }
        let length = bytes(ranks);
        let short = |error| FabricError::NoMemory { ranks, bytes: length as u64, error };
        let file = new_memfd()?;
        rustix::fs::ftruncate(&file, length as u64).map_err(short)?;
        reserve(&file, 0, length).map_err(short)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(short)?;
        let fabric = Self { mapping: Mapping::new(&file, length)?, ranks, nonce: nonce()? };
        let header = fabric.header();
        header.nonce.store(fabric.nonce, Relaxed);
        header.ranks.store(ranks, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(file)
    }

    /// Maps a fabric that [`Fabric::create`] made.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when the file is none, or could be shortened under our feet.
    pub(super) fn attach(file: &OwnedFd) -> Result<Self, FabricError> {
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        let length = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size);
        let length = usize::try_from(length).unwrap_or(0);
        if !seals.contains(SealFlags::SHRINK) || length < HEADER {
            return Err(FabricError::NotAFabric);
        }
        let mut fabric = Self { mapping: Mapping::new(file, length)?, ranks: 0, nonce: 0 };
        let header = fabric.header();
        let (magic, ranks) = (header.magic.load(Acquire), header.ranks.load(Relaxed));
        if magic != MAGIC || ranks == 0 || ranks > RANKS_MAX || bytes(ranks) != length {
            return Err(FabricError::NotAFabric);
        }
        let nonce = header.nonce.load(Relaxed);
        (fabric.ranks, fabric.nonce) = (ranks, nonce);
        Ok(fabric)
    }

    /// The number drawn for this fabric.
    pub(super) const fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(super) const fn ranks(&self) -> u32 {
        self.ranks
    }

    fn header(&self) -> &Header {
        // SAFETY: a mapping is page-aligned, at least `HEADER` long, and lives as long as `self`; a header is atomics alone.
        unsafe { self.mapping.base.cast::<Header>().as_ref() }
    }

    /// The block of a rank; `None` when there is no such rank.
    pub(super) fn block(&self, rank: u32) -> Option<&Block> {
        (rank < self.ranks).then(|| {
            let offset = HEADER + rank as usize * size_of::<Block>();
            // SAFETY: in bounds, since the length was compared with that of `ranks` blocks.
            let block: NonNull<Block> = unsafe { self.mapping.base.add(offset) }.cast();
            // SAFETY: aligned, since header and blocks are multiples of a line; lives as long as `self`; atomics alone.
            unsafe { block.as_ref() }
        })
    }

    /// Who `rank` is, and whether it lives.
    pub(super) fn liveness(&self, rank: u32) -> Option<&Liveness> {
        self.block(rank).map(|block| &*block.liveness)
    }
}

const fn bytes(ranks: u32) -> usize {
    HEADER + ranks as usize * size_of::<Block>()
}

/// Why a fabric or a device on it could not be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FabricError {
    /// There is no fabric for so many ranks.
    Ranks {
        /// How many were asked for.
        ranks: u32,
    },
    /// No memory for the fabric.
    NoMemory {
        /// Ranks asked for.
        ranks: u32,
        /// Bytes it takes.
        bytes: u64,
        /// What the kernel said.
        error: Errno,
    },
    /// The file is no fabric, or one of another version of Strait.
    NotAFabric,
    /// The fabric has no such rank.
    Rank {
        /// The rank asked for.
        rank: u32,
        /// The ranks there are.
        ranks: u32,
    },
    /// The rank has a device already, or had one.
    Taken {
        /// The rank.
        rank: u32,
    },
    /// The kernel refused the device thread.
    NoThread,
    /// The kernel refused the socket at which the device's events are heard.
    NoSocket {
        /// What it said.
        error: Errno,
    },
    /// The anonymous file failed.
    File(SegmentError),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ranks { ranks } => {
                write!(f, "a fabric of {ranks} ranks; there are fabrics of 1 to {RANKS_MAX}")
            }
            Self::NoMemory { ranks, bytes, error } => write!(
                f,
                "no memory for the fabric of {ranks} ranks, {bytes} bytes ({error}): use fewer ranks, or raise the memory \
                 limit of the container"
            ),
            Self::NotAFabric => f.write_str("the file is no fabric of this version of strait"),
            Self::Rank { rank, ranks } => write!(f, "rank {rank} in a fabric of {ranks} ranks"),
            Self::Taken { rank } => {
                write!(
                    f,
                    "rank {rank} has, or had, a device on this fabric: each rank attaches once"
                )
            }
            Self::NoThread => f.write_str("the system refuses the thread of the software device"),
            Self::NoSocket { error } => write!(
                f,
                "the system refuses an abstract Unix socket for the events of the software device: {error}"
            ),
            Self::File(ref error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FabricError {}

impl From<SegmentError> for FabricError {
    fn from(error: SegmentError) -> Self {
        Self::File(error)
    }
}
