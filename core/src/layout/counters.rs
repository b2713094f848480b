//! Counters of one rank about one peer, for observers.
//!
//! The rank counts where a message has left the short path. The numbers of all packets are copied
//! here when the rank checks its peers' liveness, so they may be some time old.

use crate::golden;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Number of counters.
const COUNTERS: usize = 8;

/// What a counter counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Count {
    /// Packets that were sent to the peer on all paths, at the last check.
    PacketsOut,
    /// Packets that were received from the peer on all paths, at the last check.
    PacketsIn,
    /// Packets that were sent through cells.
    Cells,
    /// Large messages that were sent by a transfer.
    Transfers,
    /// Bytes of these messages.
    TransferBytes,
    /// Messages that their sender kept until the peer pulled them.
    Deferred,
    /// Messages of the peer that met no receive when they arrived.
    Unexpected,
    /// Sends that found no room and had to wait.
    Blocked,
}

/// The counters of one rank about one peer. Only the rank writes them.
#[derive(Debug)]
#[repr(C)]
pub struct PairCounters {
    counters: [AtomicU64; COUNTERS],
}

golden::structure!(PairCounters { counters });

impl PairCounters {
    /// Adds `by` to a counter. Only the rank calls it, from one thread at a time.
    #[inline]
    pub fn add(&self, count: Count, by: u64) {
        let counter = &self.counters[count as usize];
        counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// Sets a counter.
    pub fn set(&self, count: Count, value: u64) {
        self.counters[count as usize].store(value, Relaxed);
    }

    /// Returns the value of a counter.
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        self.counters[count as usize].load(Relaxed)
    }
}
