//! The memory that the ranks of a node share: an anonymous file, mapped by each of them.
//!
//! A memfd has no name, so nothing is left behind whatever kills the job. It is sealed at its length: no peer can
//! shorten it under a reader. The kernel backs its pages on first touch, and a touch that finds no memory is a
//! SIGBUS; therefore every page is reserved with `fallocate` *before* it is touched, where the lack is an error:
//! the control blocks and cells by [`SegmentMap::create_on`], fastboxes and copy rings pair by pair by
//! [`SegmentMap::back_fastbox`] and [`SegmentMap::back_ring`], what a rank allocates by [`SegmentMap::back_heap`].

mod available;
mod error;
mod heap;
mod mapping;

pub use error::SegmentError;
pub(crate) use heap::Heap;
pub(crate) use mapping::Mapping;

use core::ops::Range;
use core::ptr::NonNull;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use strait_core::layout::{Config, HUGE_PAGE, Header, Plan, Segment};

use crate::nodes::Nodes;

/// A segment mapped into this process, unmapped on drop.
#[derive(Debug)]
pub(crate) struct SegmentMap {
    file: OwnedFd,
    segment: Segment,
    mapping: Mapping,
}

// SAFETY: a segment is made for concurrent processes, hence for threads: all that is reached through `&SegmentMap`
// is atomics and the file, and the mapping is released by the one owner.
unsafe impl Sync for SegmentMap {}

impl SegmentMap {
    /// Makes an empty segment for the ranks on `node` of the job that drew `nonce`. All that they need is reserved but the
    /// fastboxes; ranks on other nodes have their places too, but no memory behind them.
    ///
    /// # Errors
    ///
    /// [`SegmentError`], with the bytes needed and the bytes there are when memory is short.
    pub(crate) fn create_on(
        config: Config,
        nonce: u64,
        nodes: &Nodes,
        node: u32,
    ) -> Result<Self, SegmentError> {
        Self::create_for(new_memfd()?, config, nonce, nodes.ranks_on(node))
    }

    /// Makes an empty segment of a new `file`, with memory for `ranks` alone so far.
    ///
    /// # Errors
    ///
    /// As [`SegmentMap::create_on`].
    pub(crate) fn create_for(
        file: OwnedFd,
        config: Config,
        nonce: u64,
        ranks: impl Iterator<Item = u32>,
    ) -> Result<Self, SegmentError> {
        let plan = Plan::new(config)?;
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
        // SAFETY: a mapping is page-aligned and lives as long as `self`; the file is new, so it is zero and ours.
        let segment = unsafe { Segment::format(mapping.base, plan, nonce) };
        Ok(Self { file, segment, mapping })
    }

    /// As [`SegmentMap::create_on`], with all ranks on one node.
    #[cfg(test)]
    pub(crate) fn create(config: Config, nonce: u64) -> Result<Self, SegmentError> {
        Self::create_on(config, nonce, &Nodes::one(config.ranks), 0)
    }

    /// Maps the segment `file` that came from the launcher of the job with this `nonce`, as `rank`.
    ///
    /// # Errors
    ///
    /// [`SegmentError`] when it is not that job's segment, or could be shortened under our feet.
    pub(crate) fn attach(file: OwnedFd, nonce: u64, rank: u32) -> Result<Self, SegmentError> {
        let seals = rustix::fs::fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(SegmentError::NotSealed);
        }
        let length = rustix::fs::fstat(&file).map_err(os("asking for its length"))?.st_size;
        let length = usize::try_from(length).unwrap_or(0);
        let mapping = Mapping::new(&file, length)?;
        // SAFETY: a mapping is page-aligned and lives as long as `self`, its file cannot shrink, and whoever holds
        // the descriptor got it through the boot exchange, that is, through this crate.
        let segment = unsafe { Segment::attach(mapping.base, length, nonce, rank) }?;
        mapping.dump(segment.plan().heaps()..length, false);
        Ok(Self { file, segment, mapping })
    }

    /// The segment in which `process` is `rank`, for an observer. `None`: it has none open, or the kernel does not let us see.
    pub(crate) fn of_process(process: u32, rank: u32) -> Option<Self> {
        memfds_of(process).find_map(|(_, path)| {
            let file = File::options().read(true).write(true).open(path).ok()?;
            let mut start = [0; size_of::<Header>()];
            file.read_exact_at(&mut start, 0).ok()?;
            let map = Self::attach(file.into(), Header::nonce_of(&start)?, rank).ok()?;
            let is_ours = map.segment().rank_block(rank).liveness.process().0 == process;
            is_ours.then_some(map)
        })
    }

    /// The view of the segment. It must not be used after `self` is dropped.
    pub(crate) fn segment(&self) -> Segment {
        self.segment
    }

    /// Length of the mapping, bytes.
    pub(crate) fn length(&self) -> usize {
        self.mapping.length
    }

    /// Reserves what only `rank` and those who talk to it use, before it comes to a segment that was made without it.
    ///
    /// # Errors
    ///
    /// There is no memory for a further rank.
    pub(crate) fn back_own(&self, rank: u32) -> Result<(), SegmentError> {
        let ranges = self.segment.plan().own_ranges(rank);
        ranges.into_iter().try_for_each(|range| self.back(range))
    }

    /// Reserves the memory of the fastbox from `source` to `destination`. The sender calls it before its first use;
    /// to do it again costs a system call and changes nothing.
    ///
    /// # Errors
    ///
    /// There is no memory for it: the pair must keep to the receive queue.
    pub(crate) fn back_fastbox(&self, source: u32, destination: u32) -> Result<(), SegmentError> {
        self.back(self.segment.plan().pair_range(source, destination))
    }

    /// Reserves the memory of the parcels that `source` shares with `destination`, likewise.
    ///
    /// # Errors
    ///
    /// There is no memory for them: their messages must take other ways.
    pub(crate) fn back_parcels(&self, source: u32, destination: u32) -> Result<(), SegmentError> {
        self.back_at_once(self.segment.plan().parcel_range(source, destination))
    }

    /// Reserves the memory of the copy ring from `source` to `destination`, likewise.
    ///
    /// # Errors
    ///
    /// There is no memory for it: large messages must keep to the cells.
    pub(crate) fn back_ring(&self, source: u32, destination: u32) -> Result<(), SegmentError> {
        self.back_at_once(self.segment.plan().ring_range(source, destination))
    }

    /// Reserves memory and maps its pages at once: one by one, at first touch, would cost the first messages more.
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

    /// Reserves memory for a part of a heap, whole pages, and asks for huge ones where there is room for any.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoHeapMemory`]: there is none.
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

    /// Gives the memory of a part of a heap back to the system; what is touched there before it is backed again is zero.
    fn unback_heap(&self, part: &Range<usize>) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, length) = (part.start as u64, part.len() as u64);
        let freed =
            rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, start, length));
        debug_assert!(freed.is_ok(), "fallocate: {freed:?}");
        self.mapping.dump(part.clone(), false);
    }

    /// The byte at an offset of the mapping.
    fn place(&self, offset: usize) -> NonNull<u8> {
        self.mapping.place(offset)
    }

    /// Memory that the kernel has backed, bytes.
    #[cfg(test)]
    fn backed_bytes(&self) -> usize {
        usize::try_from(rustix::fs::fstat(&self.file).unwrap().st_blocks).unwrap() * 512
    }

    /// The file behind the segment, to be handed to another rank.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A number for a new job, so that its ranks cannot mistake another job's segment for theirs.
///
/// # Errors
///
/// [`SegmentError::Os`] where the kernel has no randomness to give.
pub(crate) fn nonce() -> Result<u64, SegmentError> {
    let mut bytes = [0; 8];
    // So few bytes come whole or not at all.
    rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))
        .map_err(os("drawing a random number"))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// An empty anonymous file, closed on exec. The seal against execution is newer than some kernels; some systems
/// insist on it and some do not know it.
pub(crate) fn new_memfd() -> Result<OwnedFd, SegmentError> {
    named_memfd("strait")
}

/// As [`new_memfd`], with a name by which it is known among the open files of a process.
pub(crate) fn named_memfd(name: &str) -> Result<OwnedFd, SegmentError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        outcome => outcome,
    }
    .map_err(os(error::MEMFD))
}

/// Opens, of all anonymous files that `process` has open, the first whose name says something to `reads`. `None`: there is none, or the
/// kernel does not let us see.
pub(crate) fn open_memfd_of<T>(
    process: u32,
    reads: impl Fn(&str) -> Option<T>,
) -> Option<(T, OwnedFd)> {
    memfds_of(process).find_map(|(name, path)| {
        let said = reads(&name)?;
        let file = File::options().read(true).write(true).open(path).ok()?;
        Some((said, file.into()))
    })
}

/// Name and path of each anonymous file that `process` has open, as far as the kernel lets us see.
fn memfds_of(process: u32) -> impl Iterator<Item = (String, PathBuf)> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let name = target.to_str()?.strip_prefix("/memfd:")?;
        Some((name.strip_suffix(" (deleted)").unwrap_or(name).to_owned(), entry.path()))
    })
}

/// Whether `process` has an anonymous file of this name open. `None`: the kernel does not let us see.
pub(crate) fn has_memfd(process: u32, name: &str) -> Option<bool> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let mut targets = files.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let (open, deleted) = (format!("/memfd:{name}"), format!("/memfd:{name} (deleted)"));
    Some(targets.any(|target| target.as_os_str() == &*open || target.as_os_str() == &*deleted))
}

/// Backs a range of `file` with memory. A signal may interrupt a long reservation, which then starts again.
pub(crate) fn reserve(file: &OwnedFd, offset: usize, length: usize) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, length as u64)
    })
}

/// Names the step that failed.
pub(crate) fn os(step: &'static str) -> impl FnOnce(Errno) -> SegmentError {
    move |error| SegmentError::Os { step, error }
}

#[cfg(test)]
mod tests;
