//! The numbers of a counter.

use core::cell::Cell;

/// The numbers of operations that have ended.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounts {
    /// Operations that succeeded.
    pub(crate) good: Cell<u64>,
    /// Operations that failed.
    pub(crate) bad: Cell<u64>,
}

impl TrafficCounts {
    /// Counts an operation that has ended.
    #[inline(always)]
    pub(crate) fn count(&self, well: bool) {
        let counter = if well { &self.good } else { &self.bad };
        counter.set(counter.get() + 1);
    }
}
