//! Memory that two ranks share beside the segment, for what the bare hardware does: nothing of Strait is in it.

use core::cell::UnsafeCell;
use core::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, ProtFlags};
use strait_core::sync::AtomicU64;

/// Slots in the ring of a lane.
pub(crate) const SLOTS: u64 = 64;

/// A word alone on two lines: processors fetch lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Alone(pub(crate) AtomicU64);

/// A message of 8 bytes and the number that says that it is there, on one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) number: AtomicU64,
    pub(crate) value: AtomicU64,
}

/// Longest message of the bare copy, bytes.
pub(crate) const COPY_MAX: usize = 64 << 10;

/// A message of up to [`COPY_MAX`] bytes, and the number that says that it is there.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Parcel {
    pub(crate) number: AtomicU64,
    bytes: UnsafeCell<[u8; COPY_MAX]>,
}

impl Parcel {
    /// Where the bytes lie.
    pub(crate) const fn bytes(&self) -> *mut u8 {
        self.bytes.get().cast()
    }
}

/// The memory of one pair of ranks. Zero is its first state.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lane {
    /// The line that is bounced.
    pub(crate) line: Alone,
    /// Messages that the receiver has taken out of the ring.
    pub(crate) taken: Alone,
    /// One message each way.
    pub(crate) parcels: [Parcel; 2],
    /// The ring.
    pub(crate) slots: [Slot; SLOTS as usize],
}

/// The launcher's hold on the lanes of a job. The ranks inherit the descriptor.
#[derive(Debug)]
pub(crate) struct Scratch(OwnedFd);

impl Scratch {
    /// Lanes for `pairs` pairs.
    pub(crate) fn new(pairs: u32) -> Result<Self, Box<dyn Error>> {
        let length = u64::from(pairs.max(1)) * size_of::<Lane>() as u64;
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

    /// The number by which a rank knows the descriptor.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Maps the lane of `pair` from the inherited descriptor with this number, for as long as the process lives.
pub(crate) fn map(number: u32, pair: u32) -> io::Result<&'static Lane> {
    let file = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let offset = pair as usize * size_of::<Lane>();
    if length < offset + size_of::<Lane>() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is too short"));
    }
    map_at(&file, length, offset)
}

fn map_at(file: &File, length: usize, offset: usize) -> io::Result<&'static Lane> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an address that nothing of ours uses.
    let base = unsafe {
        rustix::mm::mmap(core::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)?
    };
    // SAFETY: the lane lies inside the mapping (checked by `map`), whose start is page-aligned and whose end is never
    // undone; a lane is made of atomics and bytes, for which any bytes are valid; nobody shortens the launcher's file.
    Ok(unsafe { &*base.byte_add(offset).cast::<Lane>() })
}

const _: () = {
    assert!(size_of::<Slot>() == 64, "a message must be one line");
    assert!(size_of::<Lane>().is_multiple_of(align_of::<Lane>()), "lanes follow each other");
};
