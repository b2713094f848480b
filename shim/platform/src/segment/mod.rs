//! The memory that the ranks of a node share: an anonymous file that each of them maps.
//!
//! A memfd has no name, so nothing is left behind whatever kills the job. It is sealed at its
//! length, so no peer can shorten it under a reader.
//!
//! The kernel backs its pages on first touch, and a touch that finds no memory is a SIGBUS.
//! Therefore every page is reserved with `fallocate` *before* it is touched, where a lack of memory
//! is an error:
//!
//! - [`SegmentMap::create_on`] reserves the control blocks and cells.
//! - [`SegmentMap::back_fastbox`] and [`SegmentMap::back_ring`] reserve fastboxes and copy rings,
//!   pair by pair.
//! - `SegmentMap::back_heap` reserves what a rank allocates.

mod available;
mod error;
mod heap;
mod mapping;
mod pair_lines;

pub use error::SegmentError;
pub use heap::Heap;
pub use mapping::Mapping;

use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::NonNull;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use strait_core::layout::{
    HUGE_PAGE, RankBlock, RankRecord, RingPart, Segment, SegmentConfig, SegmentHeader, SegmentPlan,
};

use strait_core::shm::ParcelSet;

use crate::nodes::{Nodes, Rank};

/// A segment mapped into this process, unmapped on drop.
#[derive(Debug)]
pub struct SegmentMap {
    file: OwnedFd,
    segment: Segment,
    mapping: Mapping,
}

// SAFETY: a segment is made for concurrent processes, hence also for threads. `&SegmentMap` gives
// access only to atomics and the file, and the single owner releases the mapping.
unsafe impl Sync for SegmentMap {}

impl SegmentMap {
    /// Makes an empty segment for the ranks on `node` of the job with nonce `nonce`. It reserves
    /// all that these ranks need except the fastboxes. Ranks on other nodes have their blocks too,
    /// but no memory behind them.
    ///
    /// # Errors
    ///
    /// [`SegmentError`], with the bytes needed and the bytes available when memory is short.
    pub fn create_on(
        config: SegmentConfig,
        nonce: u64,
        nodes: &Nodes,
        node: u32,
    ) -> Result<Self, SegmentError> {
        Self::create_for(new_memfd()?, config, nonce, nodes.ranks_on(node))
    }

    /// Makes an empty segment of a new `file`, with memory for `ranks` alone.
    ///
    /// # Errors
    ///
    /// [`SegmentError`], with the bytes needed and the bytes available when memory is short.
    pub(crate) fn create_for(
        file: OwnedFd,
        config: SegmentConfig,
        nonce: u64,
        ranks: impl Iterator<Item = u32>,
    ) -> Result<Self, SegmentError> {
        let plan = SegmentPlan::new(config)?;
        let own = ranks.flat_map(|rank| plan.own_ranges(rank));
        let ranges: Vec<_> = core::iter::once((0, plan.common_bytes())).chain(own).collect();
        let need = ranges.iter().map(|(_, length)| *length as u64).sum();
        available::check(config, need)?;
        rustix::fs::ftruncate(&file, plan.total_bytes() as u64).map_err(os("sizing its memory"))?;
        for (offset, length) in ranges {
            reserve(&file, offset, length).map_err(|error| SegmentError::NoMemory {
                config,
                need,
                available: available::bytes(),
                error: Some(error),
            })?;
        }
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(os("sealing its memory"))?;
        let mapping = Mapping::new(&file, plan.total_bytes())?;
        mapping.dump(plan.heaps()..plan.total_bytes(), false);
        // SAFETY: the mapping is page-aligned and lives as long as `self`. The file is new, so it
        // is zero and no other process has it.
        let segment = unsafe { Segment::format(mapping.base(), plan, nonce) };
        Ok(Self { file, segment, mapping })
    }

    /// Makes an empty segment with all ranks on one node, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn create(config: SegmentConfig, nonce: u64) -> Result<Self, SegmentError> {
        Self::create_on(config, nonce, &Nodes::one(config.ranks), 0)
    }

    /// Maps the segment `file`, as `rank`. It came from the launcher of the job with this `nonce`.
    ///
    /// # Errors
    ///
    /// [`SegmentError`] when it is not that job's segment, or when it could be shortened while it
    /// is mapped.
    pub(crate) fn attach(file: OwnedFd, nonce: u64, rank: u32) -> Result<Self, SegmentError> {
        let seals = rustix::fs::fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(SegmentError::NotSealed);
        }
        let length = rustix::fs::fstat(&file).map_err(os("asking for its length"))?.st_size;
        let length = usize::try_from(length).unwrap_or(0);
        let mapping = Mapping::new(&file, length)?;
        // SAFETY: the mapping is page-aligned and lives as long as `self`, and its file cannot
        // shrink. Every process with the descriptor got it through the boot exchange, that is,
        // through this crate.
        let segment = unsafe { Segment::attach(mapping.base(), length, nonce, rank) }?;
        mapping.dump(segment.plan().heaps()..length, false);
        Ok(Self { file, segment, mapping })
    }

    /// Maps the segment in which `process` is `rank`, for an observer. Returns `None` when the
    /// process has none open, or when the kernel denies access.
    pub(crate) fn of_process(process: u32, rank: u32) -> Option<Self> {
        Self::paths_of(process).find_map(|path| {
            let file = File::options().read(true).write(true).open(path).ok()?;
            let (_, map) = Self::observe(file).ok()?;
            let is_ours =
                rank < map.ranks() && map.rank_block(rank).liveness.process().0 == process;
            is_ours.then_some(map)
        })
    }

    /// Returns the paths of the anonymous files that `process` has open. Some may be segments.
    pub(crate) fn paths_of(process: u32) -> impl Iterator<Item = PathBuf> {
        memfds_of(process).map(|(_, path)| path)
    }

    /// Maps a segment for an observer, and returns it with the nonce of its job.
    ///
    /// # Errors
    ///
    /// `None` if the file is no segment; [`SegmentError`] if it is one that cannot be used, such as
    /// one of another version.
    pub(crate) fn observe(file: File) -> Result<(u64, Self), Option<SegmentError>> {
        let mut start = [0; size_of::<SegmentHeader>()];
        file.read_exact_at(&mut start, 0).map_err(|_| None)?;
        let nonce = SegmentHeader::nonce_of(&start).ok_or(None)?;
        Ok((nonce, Self::attach(file.into(), nonce, 0)?))
    }

    /// Returns a view of the segment that does not borrow `self`.
    ///
    /// # Safety
    ///
    /// Neither the view nor a copy of it is used after `self` is dropped.
    #[inline]
    pub unsafe fn segment(&self) -> Segment {
        self.segment
    }

    /// Returns the view of the segment. No copy of it outlives the borrow.
    #[inline]
    pub(crate) fn view(&self) -> &Segment {
        &self.segment
    }

    /// Returns the number of ranks.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.segment.ranks()
    }

    /// Returns the control block of `rank`.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[inline]
    pub fn rank_block(&self, rank: Rank) -> &RankBlock {
        self.segment.rank_block(rank)
    }

    /// Returns what `rank` leaves for observers, besides its wait record.
    ///
    /// # Panics
    ///
    /// If `rank` is out of range.
    #[inline]
    pub fn rank_record(&self, rank: Rank) -> &RankRecord {
        self.segment.rank_record(rank)
    }

    /// Returns the file, for reads that need no mapping.
    fn view_file(&self) -> ManuallyDrop<File> {
        // SAFETY: the descriptor is open as long as `self`, and `ManuallyDrop` never closes it.
        ManuallyDrop::new(unsafe { File::from_raw_fd(self.file.as_raw_fd()) })
    }

    /// Returns the length of the mapping in bytes.
    pub(crate) fn length(&self) -> usize {
        self.mapping.length()
    }

    /// Reserves the memory that only `rank` and its peers use, before the rank joins a segment that
    /// was made without it.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoMemory`] when there is no memory for a further rank.
    pub(crate) fn back_own(&self, rank: u32) -> Result<(), SegmentError> {
        let ranges = self.segment.plan().own_ranges(rank);
        ranges.into_iter().try_for_each(|range| self.back(range))
    }

    /// Reserves the memory of the fastbox from `source` to `destination`. The sender calls it
    /// before its first use. A second call costs a system call and changes nothing.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoMemory`]: the pair must then use the receive queue alone.
    pub fn back_fastbox(&self, source: u32, destination: u32) -> Result<(), SegmentError> {
        self.back(self.segment.plan().pair_range(source, destination))
    }

    /// Reserves the memory of a set of the parcels that `source` shares with `destination`. A
    /// second call costs a system call and changes nothing.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoMemory`]: their messages must then take other paths.
    pub fn back_parcels(
        &self,
        source: u32,
        destination: u32,
        set: ParcelSet,
    ) -> Result<(), SegmentError> {
        self.back_at_once(self.segment.plan().parcel_range(source, destination, set))
    }

    /// Reserves the memory of a part of the copy ring from `source` to `destination`. A second call
    /// costs a system call and changes nothing. Only the granules are mapped at once: while large
    /// messages do without them, most heads stay untouched.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoMemory`]: large messages must then use the cells.
    pub fn back_ring(
        &self,
        source: u32,
        destination: u32,
        part: RingPart,
    ) -> Result<(), SegmentError> {
        let range = self.segment.plan().ring_part(source, destination, part);
        match part {
            RingPart::Heads => self.back(range),
            RingPart::Granules => self.back_at_once(range),
        }
    }

    /// Reserves memory and maps its pages at once. Pages mapped one by one, at first touch, would
    /// cost the first messages more.
    fn back_at_once(&self, (offset, length): (usize, usize)) -> Result<(), SegmentError> {
        self.back((offset, length))?;
        self.mapping.populate(offset..offset + length);
        Ok(())
    }

    fn back(&self, (offset, length): (usize, usize)) -> Result<(), SegmentError> {
        let plan = self.segment.plan();
        reserve(&self.file, offset, length).map_err(|error| SegmentError::NoMemory {
            config: *plan.config(),
            need: length as u64,
            available: available::bytes(),
            error: Some(error),
        })
    }

    /// Reserves memory for a part of a heap, in whole pages. It asks for huge pages if the part is
    /// at least one huge page long.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoHeapMemory`] when there is no memory.
    fn back_heap(&self, part: &Range<usize>) -> Result<(), SegmentError> {
        let (need, available) = (part.len() as u64, available::bytes());
        let short = |error| SegmentError::NoHeapMemory { need, available, error };
        if available.is_some_and(|available| need > available) {
            return Err(short(None));
        }
        reserve(&self.file, part.start, part.len()).map_err(|error| short(Some(error)))?;
        self.mapping.dump(part.clone(), true);
        if part.len() >= HUGE_PAGE {
            self.mapping.make_huge(part.clone());
        }
        Ok(())
    }

    /// Gives the memory of a part of a heap back to the system. A byte that is read there before it
    /// is backed again is zero.
    fn unback_heap(&self, part: &Range<usize>) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, length) = (part.start as u64, part.len() as u64);
        let freed =
            rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, start, length));
        debug_assert!(freed.is_ok(), "fallocate: {freed:?}");
        self.mapping.dump(part.clone(), false);
    }

    /// Returns the address of the byte at an offset of the mapping.
    fn place(&self, offset: usize) -> NonNull<u8> {
        self.mapping.place(offset)
    }

    /// Returns the memory that the kernel has backed, in bytes.
    #[cfg(test)]
    fn backed_bytes(&self) -> usize {
        usize::try_from(rustix::fs::fstat(&self.file).unwrap().st_blocks).unwrap() * 512
    }

    /// Returns the file behind the segment, to pass it to another rank.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Draws a nonce for a new job, so that its ranks cannot mistake another job's segment for theirs.
///
/// # Errors
///
/// [`SegmentError::Os`] when the kernel has no random bytes.
pub fn nonce() -> Result<u64, SegmentError> {
    let mut bytes = [0; 8];
    // The kernel returns eight bytes whole or not at all.
    rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))
        .map_err(os("drawing a random number"))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Makes an empty anonymous file, closed on exec. The seal against execution is newer than some
/// kernels: some systems insist on it and some do not know it.
pub fn new_memfd() -> Result<OwnedFd, SegmentError> {
    named_memfd("strait")
}

/// Makes an empty anonymous file, as [`new_memfd`] does, with this name among the open files of the
/// process.
pub fn named_memfd(name: &str) -> Result<OwnedFd, SegmentError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        outcome => outcome,
    }
    .map_err(os(error::MEMFD))
}

/// Opens the first anonymous file of `process` with a name that `reads` accepts, and returns it
/// with the value of `reads`. Returns `None` when there is none, or when the kernel denies access.
pub fn open_memfd_of<T>(process: u32, reads: impl Fn(&str) -> Option<T>) -> Option<(T, OwnedFd)> {
    memfds_of(process).find_map(|(name, path)| {
        let said = reads(&name)?;
        let file = File::options().read(true).write(true).open(path).ok()?;
        Some((said, file.into()))
    })
}

/// Returns the name and path of each anonymous file that `process` has open and that the kernel
/// shows.
fn memfds_of(process: u32) -> impl Iterator<Item = (String, PathBuf)> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let name = target.to_str()?.strip_prefix("/memfd:")?;
        Some((name.strip_suffix(" (deleted)").unwrap_or(name).to_owned(), entry.path()))
    })
}

/// Returns whether `process` has an anonymous file of this name open, or `None` when the kernel
/// denies access.
pub(crate) fn has_memfd(process: u32, name: &str) -> Option<bool> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let mut targets = files.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let (open, deleted) = (format!("/memfd:{name}"), format!("/memfd:{name} (deleted)"));
    Some(targets.any(|target| target.as_os_str() == &*open || target.as_os_str() == &*deleted))
}

/// Backs a range of `file` with memory. A signal may interrupt a long reservation, which then
/// starts again.
pub fn reserve(file: &OwnedFd, offset: usize, length: usize) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, length as u64)
    })
}

/// Adds the name of the step to an error.
pub(crate) fn os(step: &'static str) -> impl FnOnce(Errno) -> SegmentError {
    move |error| SegmentError::Os { step, error }
}

#[cfg(test)]
mod tests;
