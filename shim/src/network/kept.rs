//! Which registrations outlive their use, and what ends them.
//!
//! A card reaches the pages that were at an address when it was registered, whatever is mapped there later. So a registration may stay only
//! where somebody says when the memory is not what it was: of a rank's heap in the segment, the heap itself; of all other memory, the
//! program, if it has promised to. A software device reaches memory by its address at the time of a request, and keeps everything.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use strait_core::regcache::Watch;

use crate::segment::Heap;

/// What a program says of its memory: the next addresses behind which there is something else now.
pub(crate) type Program = Box<dyn FnMut() -> Option<Range<usize>> + Send>;

/// Who says when memory is not what it was.
#[derive(Default)]
pub(crate) struct Kept {
    /// The device needs nobody to say it.
    pub(super) everything: bool,
    pub(super) heap: Option<Arc<Heap>>,
    pub(crate) program: Option<Program>,
}

impl Watch for Kept {
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

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { everything, heap, program } = self;
        let mut debug = f.debug_struct("Kept");
        debug.field("everything", everything).field("heap", &heap.is_some());
        debug.field("program", &program.is_some()).finish()
    }
}
