//! The memory that one rank owns in the segment besides its cells.

use super::WaitRecord;
use crate::golden;
use crate::shm::{Doorbell, FreeQueue, InFlightMarker, RecvQueue, Seats};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, CacheLine, order};

/// The control block of one rank.
///
/// | offset | size | field        | written by                               |
/// |-------:|-----:|--------------|------------------------------------------|
/// |      0 |  128 | `recv_queue` | producers (line 0), owner (both)         |
/// |    128 |   64 | `free_queue` | any rank that returns a cell, owner      |
/// |    192 |   64 | `liveness`   | owner, launcher                          |
/// |    256 |   64 | `doorbell`   | owner, any rank that wakes it            |
/// |    320 |   64 | `waiting`    | owner                                    |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RankBlock {
    /// The queue of incoming messages.
    pub recv_queue: RecvQueue,
    /// The queue to which the rank's own cells return.
    pub free_queue: FreeQueue,
    /// The rank's process and its state.
    pub liveness: CacheLine<Liveness>,
    /// The doorbell that peers ring when a sleeping owner has something to poll.
    pub doorbell: CacheLine<Doorbell>,
    /// The record of what the owner waits for.
    pub waiting: CacheLine<WaitRecord>,
}

golden::structure!(RankBlock { recv_queue, free_queue, liveness, doorbell, waiting });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(size_of::<RankBlock>(), 6 * CACHE_LINE);
    const_assert_eq!(offset_of!(RankBlock, free_queue), 128);
    const_assert_eq!(offset_of!(RankBlock, liveness), 192);
    const_assert_eq!(offset_of!(RankBlock, doorbell), 256);
    const_assert_eq!(offset_of!(RankBlock, waiting), 320);
};

/// The process of a rank, the stage of its life, and what it was doing when it died.
#[derive(Debug)]
#[repr(C)]
pub struct Liveness {
    state: AtomicU32,
    pid: AtomicU32,
    start_time: AtomicU64,
    /// The cell that the rank is putting into a queue. The word is here because the owner alone
    /// writes its line while the rank lives.
    pub in_flight: InFlightMarker,
    witness: AtomicU64,
    namespace: AtomicU64,
    /// The barrier slots that the rank uses.
    pub seats: Seats,
    inside: AtomicU32,
}

golden::structure!(Liveness {
    state,
    pid,
    start_time,
    in_flight,
    witness,
    namespace,
    seats,
    inside
});

/// The stages of a rank's life, in their only order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Life {
    /// The rank has not attached yet. Peers may send to it, because its queue already exists.
    Unborn,
    /// The rank is attached; [`Liveness::process`] identifies it.
    Alive,
    /// The rank ended without leaving: it was killed or crashed.
    Dead,
    /// The rank left in good order. It reads no more messages, and its later death has no effect.
    Finished,
}

impl Liveness {
    /// Creates the state of a rank that has not attached, for models and tests. In a segment,
    /// zeroed memory is that state.
    #[must_use]
    pub fn unborn() -> Self {
        Self {
            state: AtomicU32::new(Life::Unborn as u32),
            pid: AtomicU32::new(0),
            start_time: AtomicU64::new(0),
            in_flight: InFlightMarker::empty(),
            witness: AtomicU64::new(0),
            namespace: AtomicU64::new(0),
            seats: Seats::none(),
            inside: AtomicU32::new(0),
        }
    }

    /// Records that this rank has attached, as the process `pid` that started at `start_time`.
    ///
    /// `start_time` is in clock ticks since boot, the 22nd field of `/proc/PID/stat`. It
    /// distinguishes a process from a later one with the same number.
    pub fn attach(&self, pid: u32, start_time: u64) {
        self.pid.store(pid, Relaxed);
        self.start_time.store(start_time, Relaxed);
        // ORDER life/1: Release, pairs with life/2: a reader that sees `Alive` also sees `pid` and
        // `start_time`.
        self.state.store(Life::Alive as u32, order("life/1", Release));
    }

    /// Records the process namespace that the rank's process number belongs to. The caller sets it
    /// before [`Liveness::attach`]. Zero, the initial value, means unknown.
    pub fn set_namespace(&self, namespace: u64) {
        self.namespace.store(namespace, Relaxed);
    }

    /// Returns the value of [`Liveness::set_namespace`], valid once the rank is [`Life::Alive`].
    #[must_use]
    pub fn namespace(&self) -> u64 {
        self.namespace.load(Relaxed)
    }

    /// Records the address of this rank's witness, a number that no other process has at that
    /// address. A peer reads it through the process number that [`Liveness::process`] returns, and
    /// so checks that it reads this rank's memory. The caller sets it before the rank sends its
    /// first message, which publishes it.
    pub fn set_witness(&self, address: u64) {
        self.witness.store(address, Relaxed);
    }

    /// Returns the value of [`Liveness::set_witness`], or zero if it was not set.
    #[must_use]
    pub fn witness(&self) -> u64 {
        self.witness.load(Relaxed)
    }

    /// Records whether this rank waits inside the library, where it helps with the transfer of a
    /// large message.
    pub fn set_inside(&self, inside: bool) {
        self.inside.store(u32::from(inside), Relaxed);
    }

    /// Returns the last value of [`Liveness::set_inside`]. It affects the speed of a message, never
    /// its delivery.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.inside.load(Relaxed) != 0
    }

    /// Records that this rank has left in good order (by the owner), or that it is dead (by the
    /// process that saw it die).
    ///
    /// A rank that left is not dead, in whatever order the two are recorded.
    pub fn end(&self, how: Life) {
        // ORDER life/3: Release, pairs with life/2. All that the rank published precedes its end: a
        // peer that sees the end and then drains the queues finds all of it.
        let _ = self.state.fetch_max(how as u32, order("life/3", Release));
    }

    /// Returns the stage that the rank has reached. An invalid value counts as dead.
    #[must_use]
    pub fn state(&self) -> Life {
        // ORDER life/2: Acquire, pairs with life/1 and life/3.
        match self.state.load(order("life/2", Acquire)) {
            0 => Life::Unborn,
            1 => Life::Alive,
            3 => Life::Finished,
            _ => Life::Dead,
        }
    }

    /// Returns the process number and start time, valid once the rank is [`Life::Alive`].
    #[must_use]
    pub fn process(&self) -> (u32, u64) {
        (self.pid.load(Relaxed), self.start_time.load(Relaxed))
    }
}
