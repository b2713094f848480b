//! The fabric: the memory that the software devices of a host share, a block for each rank.
//!
//! It is an anonymous file as the segment is, reserved and sealed before anybody uses it; see [`crate::boot`] for that one.
//! What goes over it are keys, ends of connections and receives; no data. Devices that no job holds together have a fabric each,
//! and map those of others ([`abroad`](super::abroad)).

use core::convert::Infallible;
use core::fmt;
use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use strait_core::hca::Address;
use strait_core::layout::Liveness;
use strait_core::sync::Ordering::{Acquire, Relaxed, Release};
use strait_core::sync::{AtomicU32, AtomicU64};

use super::abroad::{self, Abroad};
use super::block::{Block, EndId};
use crate::liveness::has_ended;
use crate::segment::{Mapping, SegmentError, named_memfd, new_memfd, nonce, reserve};

/// `STRsoft` and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"STRsoft\x02");

/// Bytes before the first block.
const HEADER: usize = 64;

/// Most ranks of a fabric.
const RANKS_MAX: u32 = 4096;

/// | offset | size | field   |
/// |-------:|-----:|---------|
/// |      0 |    8 | `magic` |
/// |      8 |    8 | `nonce` |
/// |     16 |    4 | `ranks` |
/// |     20 |    4 | `first` |
#[derive(Debug)]
#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    nonce: AtomicU64,
    ranks: AtomicU32,
    /// The rank of the first block.
    first: AtomicU32,
}

const _: () = assert!(size_of::<Header>() == HEADER);

/// A fabric, and what this device has met of others.
#[derive(Debug)]
pub struct Fabric {
    home: Blocks,
    abroad: Abroad,
}

/// The file of a fabric, mapped into this process.
#[derive(Debug)]
pub(super) struct Blocks {
    mapping: Mapping,
    /// The rank of the first block.
    first: u32,
    ranks: u32,
    nonce: u64,
}

// SAFETY: all that is reached through `&Blocks` is atomics, made for concurrent processes, hence for threads.
unsafe impl Sync for Blocks {}

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
        let file = new_memfd()?;
        Blocks::create(&file, 0, ranks)?;
        Ok(file)
    }

    /// Makes a fabric for one device, which finds others by their addresses: the rank of its device, which no other on this host has
    /// ([`abroad`](super::abroad)).
    pub(super) fn alone() -> Result<(Self, u32), FabricError> {
        let number = abroad::number()?;
        let file = named_memfd(&abroad::name(number))?;
        let home = Blocks::create(&file, number, 1)?;
        Ok((Self { home, abroad: Abroad::of(file) }, number))
    }

    /// Maps a fabric that [`Fabric::create`] made.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when the file is none, or could be shortened under our feet.
    pub(super) fn attach(file: &OwnedFd) -> Result<Self, FabricError> {
        Ok(Self { home: Blocks::attach(file)?, abroad: Abroad::none() })
    }

    /// The number drawn for this fabric.
    pub(super) const fn nonce(&self) -> u64 {
        self.home.nonce
    }

    /// Whether it may have a device of this rank: always, if it finds others.
    pub(super) const fn may_have(&self, rank: u32) -> bool {
        self.abroad.is_open() || rank < self.home.ranks
    }

    /// The number of ranks.
    pub(super) const fn ranks(&self) -> u32 {
        self.home.ranks
    }

    /// The block of a rank; `None` when there is no such rank.
    pub(super) fn block(&self, rank: u32) -> Option<&Block> {
        self.blocks_of(rank)?.block(rank)
    }

    /// The number drawn for the fabric of a rank's device.
    pub(super) fn nonce_of(&self, rank: u32) -> u64 {
        self.blocks_of(rank).map_or(0, |blocks| blocks.nonce)
    }

    fn blocks_of(&self, rank: u32) -> Option<&Blocks> {
        if self.home.block(rank).is_some() { Some(&self.home) } else { self.abroad.last(rank) }
    }

    /// The end with this address, and the block of its device; `None` when there is none.
    pub(super) fn find(&self, address: &Address) -> Option<(EndId, &Block)> {
        let (nonce, end) = EndId::from_address(address)?;
        let blocks = if nonce == self.home.nonce {
            &self.home
        } else {
            self.abroad.find(end.rank, nonce)?
        };
        Some((end, blocks.block(end.rank)?))
    }

    /// Who `rank` is, and whether it lives.
    pub(super) fn liveness(&self, rank: u32) -> Option<&Liveness> {
        let found = self.blocks_of(rank).or_else(|| self.abroad.seek(rank));
        Some(&found?.block(rank)?.liveness)
    }

    /// Whether the process of `rank`, which holds a lock, has ended. A process that has left a universe keeps no block.
    pub(super) fn has_ended(&self, rank: u32) -> Result<bool, Infallible> {
        Ok(self.liveness(rank).is_none_or(has_ended))
    }

    /// All that are known.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        core::iter::once(&self.home).chain(self.abroad.iter()).flat_map(|blocks| {
            (blocks.first..blocks.first + blocks.ranks).filter_map(|rank| blocks.block(rank))
        })
    }
}

impl Blocks {
    /// Makes `ranks` empty blocks in a new `file`, from that of rank `first` on.
    fn create(file: &OwnedFd, first: u32, ranks: u32) -> Result<Self, FabricError> {
        let length = bytes(ranks);
        let short = |error| FabricError::NoMemory { ranks, bytes: length as u64, error };
        rustix::fs::ftruncate(file, length as u64).map_err(short)?;
        reserve(file, 0, length).map_err(short)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(file, seals).map_err(short)?;
        let made = Self { mapping: Mapping::new(file, length)?, first, ranks, nonce: nonce()? };
        let header = made.header();
        header.nonce.store(made.nonce, Relaxed);
        header.ranks.store(ranks, Relaxed);
        header.first.store(first, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(made)
    }

    pub(super) fn attach(file: &OwnedFd) -> Result<Self, FabricError> {
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        let length = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size);
        let length = usize::try_from(length).unwrap_or(0);
        if !seals.contains(SealFlags::SHRINK) || length < HEADER {
            return Err(FabricError::NotAFabric);
        }
        let mapping = Mapping::new(file, length)?;
        let mut blocks = Self { mapping, first: 0, ranks: 0, nonce: 0 };
        let header = blocks.header();
        let (magic, ranks) = (header.magic.load(Acquire), header.ranks.load(Relaxed));
        if magic != MAGIC || ranks == 0 || ranks > RANKS_MAX || bytes(ranks) != length {
            return Err(FabricError::NotAFabric);
        }
        let (first, nonce) = (header.first.load(Relaxed), header.nonce.load(Relaxed));
        if first.checked_add(ranks).is_none() {
            return Err(FabricError::NotAFabric);
        }
        (blocks.first, blocks.ranks, blocks.nonce) = (first, ranks, nonce);
        Ok(blocks)
    }

    pub(super) const fn nonce(&self) -> u64 {
        self.nonce
    }

    fn header(&self) -> &Header {
        // SAFETY: a mapping is page-aligned, at least `HEADER` long, and lives as long as `self`; a header is atomics alone.
        unsafe { self.mapping.base.cast::<Header>().as_ref() }
    }

    /// The block of a rank, if it is here.
    pub(super) fn block(&self, rank: u32) -> Option<&Block> {
        let place = rank.checked_sub(self.first)?;
        (place < self.ranks).then(|| {
            let offset = HEADER + place as usize * size_of::<Block>();
            // SAFETY: in bounds, since the length was compared with that of `ranks` blocks.
            let block: NonNull<Block> = unsafe { self.mapping.base.add(offset) }.cast();
            // SAFETY: aligned, since header and blocks are multiples of a line; lives as long as `self`; atomics alone.
            unsafe { block.as_ref() }
        })
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
    /// This process has made as many devices on fabrics of their own as it may.
    Numbers {
        /// How many.
        limit: u32,
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
            Self::Numbers { limit } => {
                write!(f, "this process has made {limit} software devices, and may make no more")
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
