//! Where the buffers of a bench lie.

use core::ops::{Deref, DerefMut};
use std::io;

use clap::ValueEnum;
use strait::{SharedMemory, World};

/// A kind of memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Memory {
    /// The rank's own.
    #[default]
    Private,
    /// Allocated in the segment: `World::alloc`.
    Segment,
}

/// A buffer in memory of either kind, zeroed.
#[derive(Debug)]
pub(crate) enum Buffer {
    Private(Vec<u8>),
    Segment(SharedMemory<u8>),
}

impl Memory {
    pub(crate) fn allocate(self, world: &World, bytes: usize) -> Result<Buffer, strait::Error> {
        Ok(match self {
            Self::Private => Buffer::Private(vec![0; bytes]),
            Self::Segment => Buffer::Segment(world.alloc(bytes)?),
        })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::Segment(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::Segment(bytes) => bytes,
        }
    }
}

/// Where this process has the segment mapped: what lies at some offset in one rank lies there in every rank.
pub(crate) fn segment_start() -> io::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.contains("/memfd:strait "));
    let start = line.and_then(|line| line.split('-').next());
    start
        .and_then(|start| usize::from_str_radix(start, 16).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no segment is mapped"))
}
