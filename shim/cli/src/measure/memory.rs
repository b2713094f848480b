//! The memory of a bench's buffers.

use core::ops::{Deref, DerefMut};
use std::io;

use clap::ValueEnum;
use strait::{SharedMemory, World};

/// A kind of memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum MemoryKind {
    /// Private memory of the rank.
    #[default]
    Private,
    /// Allocated in the segment: `World::alloc`.
    Segment,
}

/// A buffer in memory of either kind, zeroed.
#[derive(Debug)]
pub(crate) enum BenchBuffer {
    Private(Vec<u8>),
    Segment(SharedMemory<u8>),
}

impl MemoryKind {
    pub(crate) fn allocate(
        self,
        world: &World,
        bytes: usize,
    ) -> Result<BenchBuffer, strait::Error> {
        Ok(match self {
            Self::Private => BenchBuffer::Private(vec![0; bytes]),
            Self::Segment => BenchBuffer::Segment(world.alloc(bytes)?),
        })
    }
}

impl Deref for BenchBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::Segment(bytes) => bytes,
        }
    }
}

impl DerefMut for BenchBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::Segment(bytes) => bytes,
        }
    }
}

/// Returns the address at which this process has mapped the segment. Offsets are the same in every
/// rank.
pub(crate) fn segment_start() -> io::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.contains("/memfd:strait "));
    let start = line.and_then(|line| line.split('-').next());
    start
        .and_then(|start| usize::from_str_radix(start, 16).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no segment is mapped"))
}
