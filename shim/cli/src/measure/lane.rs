//! Memory that two ranks share besides the segment, for measurements of the bare hardware without
//! Strait.

use core::cell::UnsafeCell;
use core::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, ProtFlags};
use strait_core::sync::AtomicU64;

/// Number of slots in the ring of a lane.
pub(crate) const SLOTS: u64 = 64;

/// A word alone on two lines: processors fetch lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Alone(pub(crate) AtomicU64);

/// A message of 8 bytes and the number that publishes it, on one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct MessageSlot {
    pub(crate) number: AtomicU64,
    pub(crate) value: AtomicU64,
}

/// Maximum size in bytes of a message of the bare copy.
pub(crate) const COPY_MAX: usize = 64 << 10;

/// A message of up to [`COPY_MAX`] bytes, and the number that publishes it.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Parcel {
    pub(crate) number: AtomicU64,
    bytes: UnsafeCell<[u8; COPY_MAX]>,
}

impl Parcel {
    /// Returns the address of the bytes.
    pub(crate) const fn bytes(&self) -> *mut u8 {
        self.bytes.get().cast()
    }
}

/// The memory of one pair of ranks. All zeroes is its initial state.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PairMemory {
    /// The bounced line.
    pub(crate) line: Alone,
    /// Number of messages that the receiver has taken out of the ring.
    pub(crate) taken: Alone,
    /// One message in each direction.
    pub(crate) parcels: [Parcel; 2],
    /// The ring.
    pub(crate) slots: [MessageSlot; SLOTS as usize],
}

/// The launcher's reference to the lanes of a job. The ranks inherit the descriptor.
#[derive(Debug)]
pub(crate) struct LaneScratch(OwnedFd);

impl LaneScratch {
    /// Makes lanes for `pairs` pairs.
    pub(crate) fn new(pairs: u32) -> Result<Self, Box<dyn Error>> {
        let length = u64::from(pairs.max(1)) * size_of::<PairMemory>() as u64;
        let make = || {
            let file = rustix::fs::memfd_create("strait-bench", MemfdFlags::empty())?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length)?;
            Ok(file)
        };
        let made: rustix::io::Result<OwnedFd> = make();
        let file = made.map_err(|error| {
            format!("cannot make {length} bytes of shared memory for the bare cache lines: {error}")
        })?;
        Ok(Self(file))
    }

    /// Returns the number of the descriptor, which the ranks use.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Maps the lane of `pair` from the inherited descriptor with this number. The mapping lasts as
/// long as the process.
pub(crate) fn map(number: u32, pair: u32) -> io::Result<&'static PairMemory> {
    let file = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let offset = pair as usize * size_of::<PairMemory>();
    if length < offset + size_of::<PairMemory>() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is too short"));
    }
    map_at(&file, length, offset)
}

fn map_at(file: &File, length: usize, offset: usize) -> io::Result<&'static PairMemory> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an unused address range.
    let base = unsafe {
        rustix::mm::mmap(core::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)?
    };
    // SAFETY: the lane lies inside the mapping (checked by `map`). The start of the mapping is
    // page-aligned, and it is never unmapped. A lane consists of atomics and bytes, for which any
    // bytes are valid. No process shortens the launcher's file.
    Ok(unsafe { &*base.byte_add(offset).cast::<PairMemory>() })
}

const _: () = {
    assert!(size_of::<MessageSlot>() == 64, "a message must be one line");
    assert!(
        size_of::<PairMemory>().is_multiple_of(align_of::<PairMemory>()),
        "lanes follow each other"
    );
};
