//! A file mapped into this process.

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{self, NonNull};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use strait_core::layout::HUGE_PAGE;

use super::{SegmentError, os};

/// A shared mapping of a whole file, aligned to a huge page.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) base: NonNull<u8>,
    pub(crate) length: usize,
    /// Where the reservation begins in which the mapping lies.
    reserved: *mut c_void,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of `file`.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Os`].
    pub(crate) fn new(file: &OwnedFd, length: usize) -> Result<Self, SegmentError> {
        let room = Self::reserve(length).map_err(os("reserving addresses"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let address = room.base.as_ptr().cast();
        // SAFETY: it takes the place of the reservation, which nobody uses.
        let mapped = unsafe { mmap(address, length, access, flags, file, 0) };
        mapped.map_err(os("mapping it"))?;
        Ok(room)
    }

    /// Memory of this process alone: zero, and taken from the system where it is written.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Os`].
    pub(crate) fn private(length: usize) -> Result<Self, SegmentError> {
        let room = Self::reserve(length).map_err(os("reserving addresses"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let address = room.base.as_ptr().cast();
        // SAFETY: it takes the place of the reservation, which nobody uses.
        let mapped = unsafe { mmap_anonymous(address, length, access, flags) };
        mapped.map_err(os("mapping private memory"))?;
        Ok(room)
    }

    /// Addresses that nothing of ours uses and nothing can be read at.
    fn reserve(length: usize) -> Result<Self, Errno> {
        let all = length.checked_add(HUGE_PAGE).ok_or(Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses addresses that nothing of ours uses.
        let reserved = unsafe { mmap_anonymous(ptr::null_mut(), all, ProtFlags::empty(), flags) }?;
        let before = reserved.addr().next_multiple_of(HUGE_PAGE) - reserved.addr();
        let base = NonNull::new(reserved.cast::<u8>().wrapping_add(before)).ok_or(Errno::NOMEM)?;
        Ok(Self { base, length, reserved })
    }

    /// The byte at `offset`, which is within the mapping.
    pub(super) fn place(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.length);
        // SAFETY: within the mapping.
        unsafe { self.base.add(offset) }
    }

    /// Maps pages that are backed, all at once: one by one, at first touch, they would cost several times as much.
    pub(super) fn populate(&self, part: Range<usize>) {
        let start = self.place(part.start).as_ptr().cast();
        // SAFETY: within the mapping; the advice changes no byte. Kernels that do not know it leave the pages to first touch.
        let _ = unsafe { madvise(start, part.len(), Advice::LinuxPopulateWrite) };
    }

    /// Whether a core dump has these bytes. Gigabytes of addresses without memory behind them are no help in one.
    pub(super) fn dump(&self, part: Range<usize>, wanted: bool) {
        let advice = if wanted { Advice::LinuxDoDump } else { Advice::LinuxDontDump };
        let start = self.place(part.start).as_ptr().cast();
        // SAFETY: within the mapping; the advice changes no byte. Where it is refused, dumps are larger.
        let _ = unsafe { madvise(start, part.len(), advice) };
    }

    /// Asks the kernel to put huge pages behind these bytes, which are backed. It may refuse: nothing changes but speed.
    pub(super) fn make_huge(&self, part: Range<usize>) {
        let start = self.place(part.start).as_ptr().cast();
        // SAFETY: within the mapping; the advice changes no byte.
        let _ = unsafe { libc::madvise(start, part.len(), libc::MADV_COLLAPSE) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by `new`, and `SegmentMap::segment` forbids views that outlive us.
        let unmapped = unsafe { munmap(self.reserved, self.length + HUGE_PAGE) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}
