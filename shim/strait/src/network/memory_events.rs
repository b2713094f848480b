//! The rules for registrations that outlive their use, and the events that end them.
//!
//! An RDMA device reaches the pages that were at an address at registration, whatever is mapped
//! there later. So a registration may stay only where a change of the memory is reported. The heap
//! in the segment reports its own changes. The program reports changes of all other memory, if it
//! has promised to. A software device reaches memory by its address at the time of a request, so
//! all its registrations may stay.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use strait_core::regcache::MemoryWatch;
use strait_platform::segment::Heap;

/// The program's report of changes: returns the next address range with other memory behind it now.
pub(crate) type Program = Box<dyn FnMut() -> Option<Range<usize>> + Send>;

/// The sources of reports that memory has changed.
#[derive(Default)]
pub(crate) struct MemoryEvents {
    /// The device needs no reports.
    pub(super) everything: bool,
    pub(super) heap: Option<Arc<Heap>>,
    pub(crate) program: Option<Program>,
}

impl MemoryWatch for MemoryEvents {
    fn next(&mut self) -> Option<(u64, u64)> {
        let gone = self.heap.as_ref().and_then(|heap| heap.next_given_back());
        let gone = gone.or_else(|| self.program.as_mut().and_then(|program| program()));
        gone.map(|gone| (gone.start as u64, gone.len() as u64))
    }

    fn covers(&self, address: u64, length: u64) -> bool {
        let is_inside = |heap: &Arc<Heap>| {
            let addresses = heap.addresses();
            let start = usize::try_from(address).unwrap_or(0);
            let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
            addresses.start <= start && end <= addresses.end
        };
        self.everything || self.program.is_some() || self.heap.as_ref().is_some_and(is_inside)
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { everything, heap, program } = self;
        let mut debug = f.debug_struct("MemoryEvents");
        debug.field("everything", everything).field("heap", &heap.is_some());
        debug.field("program", &program.is_some()).finish()
    }
}
