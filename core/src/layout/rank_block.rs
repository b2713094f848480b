//! What one rank owns in the segment besides its cells.

use super::{WaitRecord, golden};
use crate::shm::{Doorbell, FreeQueue, Hand, RecvQueue, Seats};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, CacheLine, order};

/// The control block of one rank.
///
/// | offset | size | field        | written by                           |
/// |-------:|-----:|--------------|--------------------------------------|
/// |      0 |  128 | `recv_queue` | producers (line 0), owner (both)     |
/// |    128 |   64 | `free_queue` | whoever returns a cell, owner        |
/// |    192 |   64 | `liveness`   | owner, launcher                      |
/// |    256 |   64 | `doorbell`   | owner, whoever wakes it              |
/// |    320 |   64 | `waiting`    | owner                                |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RankBlock {
    /// Where the rank's messages arrive.
    pub recv_queue: RecvQueue,
    /// Where the rank's own cells come back.
    pub free_queue: FreeQueue,
    /// Whether the rank is there.
    pub liveness: CacheLine<Liveness>,
    /// Rung when there is something for the sleeping owner to look at.
    pub doorbell: CacheLine<Doorbell>,
    /// What the owner waits for.
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

/// Who a rank is to the operating system, whether it still lives, and what it was about when it died.
#[derive(Debug)]
#[repr(C)]
pub struct Liveness {
    state: AtomicU32,
    pid: AtomicU32,
    start_time: AtomicU64,
    /// The cell that the rank is putting into a queue. Here, because its line is the owner's own while the rank lives.
    pub hand: Hand,
    witness: AtomicU64,
    namespace: AtomicU64,
    /// The barrier slots that the rank uses.
    pub seats: Seats,
    inside: AtomicU32,
}

golden::structure!(Liveness { state, pid, start_time, hand, witness, namespace, seats, inside });

/// The stages of a rank's life, in their only order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Life {
    /// Has not attached yet. It may be sent to: its queue is there already.
    Unborn,
    /// Attached; [`Liveness::process`] identifies it.
    Alive,
    /// Ended without leaving: killed, or crashed.
    Dead,
    /// Left in good order. It reads no more messages, and its death comes too late to matter.
    Finished,
}

impl Liveness {
    /// A rank that has not attached, for models and tests: in a segment, zeroed memory already says so.
    #[must_use]
    pub fn unborn() -> Self {
        Self {
            state: AtomicU32::new(Life::Unborn as u32),
            pid: AtomicU32::new(0),
            start_time: AtomicU64::new(0),
            hand: Hand::empty(),
            witness: AtomicU64::new(0),
            namespace: AtomicU64::new(0),
            seats: Seats::none(),
            inside: AtomicU32::new(0),
        }
    }

    /// Says that this rank has attached, as the process `pid` that started at `start_time` (clock ticks since
    /// boot, the 22nd field of `/proc/PID/stat`: it tells a process from a later one with the same number).
    pub fn attach(&self, pid: u32, start_time: u64) {
        self.pid.store(pid, Relaxed);
        self.start_time.store(start_time, Relaxed);
        // ORDER life/1: Release, pairs with life/2: who sees `Alive` sees whose life it is.
        self.state.store(Life::Alive as u32, order("life/1", Release));
    }

    /// Says which set of process numbers the rank's number belongs to, as the number of its process namespace. Said before
    /// [`Liveness::attach`]. Zero, the state without it: nobody knows.
    pub fn set_namespace(&self, namespace: u64) {
        self.namespace.store(namespace, Relaxed);
    }

    /// What [`Liveness::set_namespace`] said, valid once the rank is [`Life::Alive`].
    #[must_use]
    pub fn namespace(&self) -> u64 {
        self.namespace.load(Relaxed)
    }

    /// Says where in this rank's memory a number lies that no other process has there: who reads it through the process
    /// number that [`Liveness::process`] gives, reads the memory of this rank and of nobody else. Said before the rank
    /// sends its first message, which publishes it.
    pub fn set_witness(&self, address: u64) {
        self.witness.store(address, Relaxed);
    }

    /// What [`Liveness::set_witness`] said; zero when nothing was.
    #[must_use]
    pub fn witness(&self) -> u64 {
        self.witness.load(Relaxed)
    }

    /// Says whether this rank waits inside the library: whoever sends it a large message then has its help.
    pub fn set_inside(&self, inside: bool) {
        self.inside.store(u32::from(inside), Relaxed);
    }

    /// What [`Liveness::set_inside`] said last. It decides how fast a message is, never whether it comes.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.inside.load(Relaxed) != 0
    }

    /// Says that this rank has left in good order (owner), or that it is dead (whoever saw it die).
    ///
    /// A rank that left is not dead, in whatever order the two are said.
    pub fn end(&self, how: Life) {
        // ORDER life/3: Release. Everything the rank published comes before its end, so that a peer who sees the end
        //   (life/2) and then drains the queues finds all of it.
        let _ = self.state.fetch_max(how as u32, order("life/3", Release));
    }

    /// The stage the rank has reached. A value that no stage has counts as dead.
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

    /// Process number and start time, valid once the rank is [`Life::Alive`].
    #[must_use]
    pub fn process(&self) -> (u32, u64) {
        (self.pid.load(Relaxed), self.start_time.load(Relaxed))
    }
}
