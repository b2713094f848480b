//! A file mapped into this process.

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use strait_core::layout::HUGE_PAGE;

use super::{SegmentError, os};

/// Time that a request for huge pages may take, for each of them. On an idle machine it takes a
/// third of a millisecond.
const COLLAPSE_MAX: Duration = Duration::from_millis(5);

/// Largest number of huge pages in one request. The kernel goes on to the end of a request, however
/// long it takes.
const COLLAPSE_PAGES: u32 = 8;

/// A shared mapping of a whole file, aligned to a huge page.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Start of the reservation in which the mapping lies.
    reserved: *mut c_void,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Returns the first byte.
    #[inline]
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length in bytes.
    #[inline]
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Maps the first `length` bytes of `file`.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Os`].
    pub fn new(file: &OwnedFd, length: usize) -> Result<Self, SegmentError> {
        let room = Self::reserve(length).map_err(os("reserving addresses"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let address = room.base.as_ptr().cast();
        // SAFETY: `MAP_FIXED` replaces pages of the reservation `room` alone, and nothing uses
        // those.
        let mapped = unsafe { mmap(address, length, access, flags, file, 0) };
        mapped.map_err(os("mapping it"))?;
        Ok(room)
    }

    /// Maps memory of this process alone. It is zero, and the system provides each page when it is
    /// written.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Os`].
    pub fn private(length: usize) -> Result<Self, SegmentError> {
        let room = Self::reserve(length).map_err(os("reserving addresses"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let address = room.base.as_ptr().cast();
        // SAFETY: `MAP_FIXED` replaces pages of the reservation `room` alone, and nothing uses
        // those.
        let mapped = unsafe { mmap_anonymous(address, length, access, flags) };
        mapped.map_err(os("mapping private memory"))?;
        Ok(room)
    }

    /// Reserves addresses that nothing else in this process uses and that cannot be accessed.
    fn reserve(length: usize) -> Result<Self, Errno> {
        let all = length.checked_add(HUGE_PAGE).ok_or(Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without `MAP_FIXED` the kernel chooses addresses that nothing in this process
        // uses.
        let reserved = unsafe { mmap_anonymous(ptr::null_mut(), all, ProtFlags::empty(), flags) }?;
        let before = reserved.addr().next_multiple_of(HUGE_PAGE) - reserved.addr();
        let base = NonNull::new(reserved.cast::<u8>().wrapping_add(before)).ok_or(Errno::NOMEM)?;
        Ok(Self { base, length, reserved })
    }

    /// Returns the byte at `offset`, which is within the mapping.
    pub(super) fn place(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.length);
        // SAFETY: the caller keeps `offset` within the mapping (contract of `place`), so the result
        // is in bounds.
        unsafe { self.base.add(offset) }
    }

    /// Maps backed pages all at once. One by one, at first touch, they would cost several times as
    /// much.
    pub(super) fn populate(&self, part: Range<usize>) {
        let start = self.place(part.start).as_ptr().cast();
        // SAFETY: the range is within the mapping, and the advice changes no byte. Kernels that do
        // not know it leave the pages to first touch.
        let _ = unsafe { madvise(start, part.len(), Advice::LinuxPopulateWrite) };
    }

    /// Sets whether a core dump includes these bytes. Gigabytes of addresses without memory behind
    /// them do not help in a dump.
    pub(super) fn dump(&self, part: Range<usize>, wanted: bool) {
        let advice = if wanted { Advice::LinuxDoDump } else { Advice::LinuxDontDump };
        let start = self.place(part.start).as_ptr().cast();
        // SAFETY: the range is within the mapping, and the advice changes no byte. Where it is
        // refused, dumps are larger.
        let _ = unsafe { madvise(start, part.len(), advice) };
    }

    /// Asks the kernel to put huge pages behind these backed bytes. A refusal changes nothing but
    /// speed.
    ///
    /// Before each request the kernel waits for a task on each processor, and again for pages that
    /// other processes use. On a busy machine that takes seconds a page, in which this rank serves
    /// no peer. So this asks for one page first and then for more at a time. After a request that
    /// took longer than [`COLLAPSE_MAX`] a page the process makes no more.
    pub(super) fn make_huge(&self, part: Range<usize>) {
        static IS_SLOW: AtomicBool = AtomicBool::new(false);
        for Request { part, pages } in huge_requests(part) {
            if IS_SLOW.load(Relaxed) {
                return;
            }
            let start = self.place(part.start).as_ptr().cast();
            let begin = Instant::now();
            // SAFETY: the range is within the mapping, and the advice changes no byte.
            let _ = unsafe { libc::madvise(start, part.len(), libc::MADV_COLLAPSE) };
            if begin.elapsed() > COLLAPSE_MAX * pages {
                IS_SLOW.store(true, Relaxed);
            }
        }
    }
}

/// A request for huge pages, and the largest number of them.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Request {
    part: Range<usize>,
    pages: u32,
}

/// Divides bytes into requests of 1, 2, 4 and then always [`COLLAPSE_PAGES`] huge pages.
fn huge_requests(part: Range<usize>) -> impl Iterator<Item = Request> {
    let (mut start, mut most) = (part.start, 1);
    core::iter::from_fn(move || {
        // Each request but the last ends at the border of a page.
        let border = (start / HUGE_PAGE + most as usize) * HUGE_PAGE;
        let request = Request { part: start..part.end.min(border), pages: most };
        (start, most) = (request.part.end, COLLAPSE_PAGES.min(2 * most));
        (!request.part.is_empty()).then_some(request)
    })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `reserve` mapped this range, and no view outlives `self` (contract of
        // `SegmentMap::segment`).
        let unmapped = unsafe { munmap(self.reserved, self.length + HUGE_PAGE) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_for_huge_pages_grow_and_have_each_byte_once() {
        let pages = |part| huge_requests(part).map(|request| request.pages).collect::<Vec<_>>();
        assert_eq!(pages(0..0), []);
        assert_eq!(pages(0..20 * HUGE_PAGE), [1, 2, 4, 8, 8]);
        let part = HUGE_PAGE / 2..9 * HUGE_PAGE + 1;
        let mut end = part.start;
        for request in huge_requests(part.clone()) {
            assert_eq!(request.part.start, end);
            end = request.part.end;
            assert!(end == part.end || end.is_multiple_of(HUGE_PAGE));
            assert!(request.part.len() <= request.pages as usize * HUGE_PAGE);
        }
        assert_eq!(end, part.end);
    }
}
