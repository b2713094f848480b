//! The record of a caller that polls and does not say what it waits for.

use core::cell::Cell;

use strait_core::layout::{Call, Count, PairCounters, UnexpectedSummary, Wait};
use strait_platform::backoff::CallTimer;
use strait_platform::clock::monotonic_ns;

use super::World;
use crate::Error;
use crate::progress::windows::baseline::Baselines;

/// What a process waits for, as far as its operations tell.
#[derive(Clone, Copy, Debug)]
pub struct PortWait {
    /// The wait.
    pub wait: Wait,
    /// The messages that no receive has taken.
    pub unexpected: UnexpectedSummary,
    /// Number of accesses to the memory of other processes so far, which move no packets.
    pub accesses: u64,
}

/// What a process that polls has done lately.
#[derive(Debug, Default)]
pub(crate) struct PollRecord {
    /// Number of calls in which something moved: a packet, or a part of a transfer.
    moves: Cell<u64>,
    wait: Cell<Option<IdleWait>>,
}

/// A wait that is recorded because nothing has moved between two checks.
#[derive(Clone, Copy, Debug)]
struct IdleWait {
    wait: Wait,
    /// Number of calls that moved something, of packets and of accesses when it began.
    moved: u64,
    since_ns: u64,
    /// Number of checks since then.
    checks: u64,
}

impl World {
    /// Makes progress like [`World::poll`], and records now and then what the caller may wait for.
    /// It counts as a wait from the second check on at which `what` returns the same and nothing
    /// has moved. The caller has looked at the fastboxes many times since the last call, and may
    /// have yielded each time. So this reads the clock often.
    pub(crate) fn poll_in_wait(
        &self,
        record: &PollRecord,
        what: impl Fn() -> Option<PortWait>,
    ) -> Result<(), Error> {
        self.with_baselines(Baselines::hurry);
        if self.progress()? {
            record.moves.set(record.moves.get().wrapping_add(1));
        }
        let observe = |polls| {
            let unexpected = self.tell_observers(None);
            let Some(PortWait { wait, unexpected, accesses }) = what() else {
                record.wait.set(None);
                return self.record_place().write_once(polls, &unexpected);
            };
            let others = accesses.wrapping_add(record.moves.get());
            let moved = self.packets().wrapping_add(others);
            let same = |it: &IdleWait| it.wait == wait && it.moved == moved;
            let next = match record.wait.get().filter(same) {
                Some(before) => IdleWait { checks: before.checks + 1, ..before },
                None => IdleWait { wait, moved, since_ns: monotonic_ns(), checks: 0 },
            };
            record.wait.set(Some(next));
            let IdleWait { wait, since_ns, checks, .. } = next;
            self.record_place().write_again(wait, since_ns, checks, &unexpected);
        };
        self.check_if(CallTimer::is_due_behind_others, || Wait::new(Call::Test), observe)
    }

    /// Returns the number of packets that this rank has sent and received on its node, as it was
    /// published last.
    pub(crate) fn packets(&self) -> u64 {
        let segment = self.segment();
        let peers = (0..segment.ranks()).map(|peer| segment.counters(self.rank, peer));
        let both = |count: &PairCounters| {
            count.get(Count::PacketsOut).wrapping_add(count.get(Count::PacketsIn))
        };
        peers.map(both).fold(0, u64::wrapping_add)
    }
}
