//! The fabric: the memory that the software devices of a host share, a block for each rank.
//!
//! It is an anonymous file like the segment (see [`strait_platform::boot`]), reserved and sealed
//! before its first use. It carries keys, ends of connections and receives, and no data. Devices
//! outside a job have a fabric each, and map the fabrics of other devices
//! ([`super::abroad`]).

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
use strait_platform::liveness::has_ended;
use strait_platform::segment::{Mapping, SegmentError, named_memfd, new_memfd, nonce, reserve};

use super::abroad::{self, Abroad};
use super::block::{DeviceBlock, EndId, end_at};

/// `STRsoft`, and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"STRsoft\x02");

/// Bytes before the first block.
const HEADER: usize = 64;

/// Largest number of ranks in a fabric.
const RANKS_MAX: u32 = 4096;

/// The header of a fabric's file.
///
/// | offset | size | field   |
/// |-------:|-----:|---------|
/// |      0 |    8 | `magic` |
/// |      8 |    8 | `nonce` |
/// |     16 |    4 | `ranks` |
/// |     20 |    4 | `first` |
#[derive(Debug)]
#[repr(C, align(64))]
struct FabricHeader {
    magic: AtomicU64,
    nonce: AtomicU64,
    ranks: AtomicU32,
    /// The rank of the first block.
    first: AtomicU32,
}

const _: () = assert!(size_of::<FabricHeader>() == HEADER);

/// A fabric, and the fabrics of other devices that this device has found.
#[derive(Debug)]
pub struct Fabric {
    home: FabricFile,
    abroad: Abroad,
}

/// The file of a fabric, mapped into this process.
#[derive(Debug)]
pub(super) struct FabricFile {
    mapping: Mapping,
    /// The rank of the first block.
    first: u32,
    ranks: u32,
    nonce: u64,
}

// SAFETY: `&FabricFile` gives access only to atomics, which are made for concurrent processes,
// hence also for threads.
unsafe impl Sync for FabricFile {}

impl Fabric {
    /// Makes an empty fabric for `ranks` ranks and returns its file, to pass to each of them. The
    /// file has no name, and ends with the last process that holds or maps it.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when there is no memory for it.
    pub fn create(ranks: u32) -> Result<OwnedFd, FabricError> {
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(FabricError::Ranks { ranks });
        }
        let file = new_memfd()?;
        FabricFile::create(&file, 0, ranks)?;
        Ok(file)
    }

    /// Makes a fabric for one device, which finds other devices by their addresses. Returns it with
    /// the rank of its device, which no other device on this host has ([`super::abroad`]).
    pub(super) fn alone() -> Result<(Self, u32), FabricError> {
        let number = abroad::number()?;
        let file = named_memfd(&abroad::name(number))?;
        let home = FabricFile::create(&file, number, 1)?;
        Ok((Self { home, abroad: Abroad::of(file) }, number))
    }

    /// Maps a fabric that [`Fabric::create`] made.
    ///
    /// # Errors
    ///
    /// [`FabricError`] when the file is not a fabric, or could be shortened while it is mapped.
    pub(super) fn attach(file: &OwnedFd) -> Result<Self, FabricError> {
        Ok(Self { home: FabricFile::attach(file)?, abroad: Abroad::none() })
    }

    /// Returns the nonce of this fabric.
    pub(super) const fn nonce(&self) -> u64 {
        self.home.nonce
    }

    /// Returns whether the fabric may have a device of this rank. A fabric that finds other devices
    /// may have any.
    pub(super) const fn may_have(&self, rank: u32) -> bool {
        self.abroad.is_open() || rank < self.home.ranks
    }

    /// Returns the number of ranks.
    pub(super) const fn ranks(&self) -> u32 {
        self.home.ranks
    }

    /// Returns the block of a rank, or `None` when there is no such rank.
    pub(super) fn block(&self, rank: u32) -> Option<&DeviceBlock> {
        self.blocks_of(rank)?.block(rank)
    }

    /// Returns the nonce of the fabric of a rank's device.
    pub(super) fn nonce_of(&self, rank: u32) -> u64 {
        self.blocks_of(rank).map_or(0, |blocks| blocks.nonce)
    }

    fn blocks_of(&self, rank: u32) -> Option<&FabricFile> {
        if self.home.block(rank).is_some() { Some(&self.home) } else { self.abroad.last(rank) }
    }

    /// Returns the end with this address, and the block of its device. Returns `None` when there is
    /// none.
    pub(super) fn find(&self, address: &Address) -> Option<(EndId, &DeviceBlock)> {
        let (nonce, end) = end_at(address)?;
        let blocks = if nonce == self.home.nonce {
            &self.home
        } else {
            self.abroad.find(end.rank, nonce)?
        };
        Some((end, blocks.block(end.rank)?))
    }

    /// Returns the process of `rank` and its liveness.
    pub(super) fn liveness(&self, rank: u32) -> Option<&Liveness> {
        let found = self.blocks_of(rank).or_else(|| self.abroad.seek(rank));
        Some(&found?.block(rank)?.liveness)
    }

    /// Returns whether the process of `rank`, which holds a lock, has ended. A process that has
    /// left a universe has no block any more.
    pub(super) fn has_ended(&self, rank: u32) -> Result<bool, Infallible> {
        Ok(self.liveness(rank).is_none_or(has_ended))
    }

    /// Returns all known blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &DeviceBlock> {
        core::iter::once(&self.home).chain(self.abroad.iter()).flat_map(|blocks| {
            (blocks.first..blocks.first + blocks.ranks).filter_map(|rank| blocks.block(rank))
        })
    }
}

impl FabricFile {
    /// Makes `ranks` empty blocks in a new `file`. The first is the block of rank `first`.
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

    fn header(&self) -> &FabricHeader {
        // SAFETY: the mapping is page-aligned, at least `HEADER` bytes long, and lives as long as
        // `self`. A header consists of atomics alone.
        unsafe { self.mapping.base().cast::<FabricHeader>().as_ref() }
    }

    /// Returns the block of a rank, if this file has it.
    pub(super) fn block(&self, rank: u32) -> Option<&DeviceBlock> {
        let place = rank.checked_sub(self.first)?;
        (place < self.ranks).then(|| {
            let offset = HEADER + place as usize * size_of::<DeviceBlock>();
            // SAFETY: the offset is in bounds, since `create` sets, and `attach` checks, the length
            // of `ranks` blocks.
            let block: NonNull<DeviceBlock> = unsafe { self.mapping.base().add(offset) }.cast();
            // SAFETY: the pointer is aligned, since header and blocks are multiples of a cache
            // line. The block lives as long as `self`, and consists of atomics alone.
            unsafe { block.as_ref() }
        })
    }
}

const fn bytes(ranks: u32) -> usize {
    HEADER + ranks as usize * size_of::<DeviceBlock>()
}

/// The reason why a fabric, or a device on it, could not be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FabricError {
    /// No fabric may have this number of ranks.
    Ranks {
        /// Ranks requested.
        ranks: u32,
    },
    /// No memory for the fabric.
    NoMemory {
        /// Ranks requested.
        ranks: u32,
        /// Bytes needed.
        bytes: u64,
        /// The kernel's error.
        error: Errno,
    },
    /// The file is not a fabric, or is one of another version of Strait.
    NotAFabric,
    /// The fabric has no such rank.
    Rank {
        /// The requested rank.
        rank: u32,
        /// Ranks in the fabric.
        ranks: u32,
    },
    /// The rank has a device already, or had one.
    Taken {
        /// The rank.
        rank: u32,
    },
    /// This process has made the largest allowed number of devices on fabrics of their own.
    Numbers {
        /// That number.
        limit: u32,
    },
    /// The kernel refused the device thread.
    NoThread,
    /// The kernel refused the socket for the device's events.
    NoSocket {
        /// The kernel's error.
        error: Errno,
    },
    /// The anonymous file failed.
    File(SegmentError),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ranks { ranks } => {
                write!(f, "a fabric has 1 to {RANKS_MAX} ranks, not {ranks}")
            }
            Self::NoMemory { ranks, bytes, error } => write!(
                f,
                "no memory for the fabric of {ranks} ranks, {bytes} bytes ({error}): use fewer \
                 ranks, or raise the memory limit of the container"
            ),
            Self::NotAFabric => f.write_str("the file is not a fabric of this version of Strait"),
            Self::Rank { rank, ranks } => write!(f, "a fabric of {ranks} ranks has no rank {rank}"),
            Self::Taken { rank } => {
                write!(
                    f,
                    "rank {rank} has, or had, a device on this fabric: each rank attaches once"
                )
            }
            Self::Numbers { limit } => {
                write!(f, "this process has made {limit} software devices, which is the limit")
            }
            Self::NoThread => f.write_str("the system refuses the thread of the software device"),
            Self::NoSocket { error } => write!(
                f,
                "the system refuses an abstract Unix socket for the events of the software device: \
                 {error}"
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
