//! Sleeps until the doorbell rings, and wakes sleeping ranks.

use core::sync::atomic::AtomicU32;
#[cfg(any(test, feature = "testing"))]
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{MembarrierCommand, futex, membarrier};
use strait_core::layout::Segment;
use strait_core::shm::{Doorbell, Slumber};
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;

use crate::Rank;
use crate::backoff::{SLEEP_MAX, SLEEP_MAX_UNSURE};
use crate::events::Events;
use crate::wakeup_socket::{self, WakeupName, WakeupSocket};

/// The way in which a rank sleeps on this machine.
#[derive(Debug)]
pub struct Sleep {
    barrier: SleepFence,
    longest: Duration,
    #[cfg(any(test, feature = "testing"))]
    count: AtomicU32,
    /// The descriptors on which it sleeps; `None` when it sleeps on its doorbell's word.
    beside: Option<Beside>,
}

/// The descriptors on which a rank with a device sleeps.
#[derive(Debug)]
struct Beside {
    /// Receives a datagram when the doorbell rings.
    wakeup_socket: WakeupSocket,
    /// Events of the device.
    events: Events,
    /// The connection listener.
    listener: OwnedFd,
}

/// The barrier with which a sleeper makes sure that no ring is missed
/// ([`Doorbell::prepare_to_sleep`]).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SleepFence {
    /// A barrier in every process that has registered for it. Each rank has.
    Everywhere,
    /// A fence of this process, which is not enough, and a short sleep.
    Here,
}

impl Sleep {
    /// Registers this process for the barrier, so that other ranks may sleep while it might ring.
    pub fn register() -> Self {
        let registered = membarrier(MembarrierCommand::RegisterGlobalExpedited);
        let barrier = if registered.is_ok() { SleepFence::Everywhere } else { SleepFence::Here };
        Self::with(barrier)
    }

    const fn with(barrier: SleepFence) -> Self {
        Self {
            barrier,
            longest: SLEEP_MAX,
            #[cfg(any(test, feature = "testing"))]
            count: AtomicU32::new(0),
            beside: None,
        }
    }

    /// Lets events of the device and of the connection listener wake `rank` of `segment` too.
    pub fn beside(
        mut self,
        (events, listener): (Events, OwnedFd),
        segment: &Segment,
        rank: Rank,
    ) -> io::Result<Self> {
        let wakeup_socket = WakeupSocket::bind(&name(segment, rank))?;
        self.beside = Some(Beside { wakeup_socket, events, listener });
        Ok(self)
    }

    /// Behaves as on a kernel that refuses to register.
    #[cfg(any(test, feature = "testing"))]
    pub const fn without_membarrier() -> Self {
        Self::with(SleepFence::Here)
    }

    /// Sets the upper bound on one sleep to an hour, so that a missed ring fails a test.
    #[cfg(any(test, feature = "testing"))]
    pub const fn for_ever(&mut self) {
        self.longest = Duration::from_secs(3600);
    }

    /// Returns the number of sleeps with the full time limit, which a wake-up usually ends.
    #[cfg(any(test, feature = "testing"))]
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Announces that this rank, which owns `bell`, is about to sleep. The caller then polls once
    /// more. If it finds nothing, it calls [`Sleep::wait`] with the returned upper bound.
    pub fn prepare(&self, bell: &Doorbell) -> Duration {
        let mut longest = SLEEP_MAX_UNSURE;
        if let Some(beside) = &self.beside {
            // This must precede the next ring.
            beside.wakeup_socket.drain();
        }
        bell.prepare_to_sleep(self.how(), || {
            // The kernel may refuse now although it accepted the registration: do not rely on it.
            if self.barrier == SleepFence::Everywhere
                && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
            {
                longest = self.longest;
            } else {
                fence(SeqCst);
            }
        });
        longest
    }

    /// Announces a short sleep, as [`Sleep::prepare`] does but without a barrier: a ring at this
    /// moment may be missed.
    pub fn prepare_briefly(&self, bell: &Doorbell) {
        bell.prepare_to_sleep(self.how(), || ());
    }

    const fn how(&self) -> Slumber {
        if self.beside.is_some() { Slumber::Descriptor } else { Slumber::Word }
    }

    /// Sleeps until `bell`, which this rank owns, is rung, its device or connection listener has an
    /// event, or `longest` has passed. In every case the caller polls again, and may sleep again.
    pub fn wait(&self, bell: &Doorbell, longest: Duration) {
        let timeout = Timespec::try_from(longest).ok();
        match &self.beside {
            // The call returns at once when the bell has been rung.
            None => {
                let (word, flags) = (word(bell), futex::Flags::empty());
                let _ = futex::wait(word, flags, Doorbell::ASLEEP, timeout.as_ref());
            }
            Some(Beside { wakeup_socket, events, listener }) => {
                let all = [wakeup_socket.as_fd(), events.as_fd(), listener.as_fd()];
                let mut descriptors = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
                let _ = poll(&mut descriptors, timeout.as_ref());
            }
        }
        #[cfg(any(test, feature = "testing"))]
        self.count.fetch_add(u32::from(longest == self.longest), Relaxed);
    }

    /// Wakes the threads of this process, `rank`, that sleep, so that they poll again.
    pub fn wake_own(&self, segment: &Segment, rank: Rank) {
        match self.how() {
            Slumber::Word => wake_all(&segment.rank_block(rank).doorbell),
            Slumber::Descriptor => wakeup_socket::notify(&name(segment, rank)),
        }
    }
}

/// Returns the futex word in the type that the system call takes.
fn word(bell: &Doorbell) -> &AtomicU32 {
    // SAFETY: the pointer is to an atomic word that lives as long as `bell`, and every access to it
    // is atomic.
    unsafe { AtomicU32::from_ptr(bell.word().as_ptr()) }
}

/// Returns the name of the wake-up socket of `rank`.
const fn name(segment: &Segment, rank: Rank) -> WakeupName {
    WakeupName { kind: "rank", nonce: segment.nonce(), rank }
}

/// Rings the doorbell of a rank that has something to poll, and wakes the rank if it sleeps.
#[cold]
#[inline(never)]
pub fn wake(segment: &Segment, rank: Rank) {
    let bell = &segment.rank_block(rank).doorbell;
    match bell.ring() {
        Some(Slumber::Word) => wake_all(bell),
        Some(Slumber::Descriptor) => wakeup_socket::notify(&name(segment, rank)),
        None => {}
    }
}

/// Wakes all threads that sleep on the word: a blocking call, and a progress thread beside it.
fn wake_all(bell: &Doorbell) {
    // The call does not fail for a mapped address.
    let _ = futex::wake(word(bell), futex::Flags::empty(), i32::MAX as u32);
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests {
    use strait_core::layout::SegmentConfig;

    use super::testing::take_turns;
    use super::*;
    use crate::segment::SegmentMap;

    fn map() -> SegmentMap {
        let config =
            SegmentConfig { cells_per_rank: 2, cell_payload: 1024, ..SegmentConfig::new(2) };
        SegmentMap::create(config, 1).unwrap()
    }

    #[test]
    fn sleepers_are_woken() {
        let map = map();
        take_turns([0, 1].map(|_| Sleep::register()), *map.view());
    }

    #[test]
    fn sleepers_wake_where_the_kernel_has_no_barrier_for_them() {
        let sleeps = [Sleep::without_membarrier(), Sleep::without_membarrier()];
        let map = map();
        take_turns(sleeps, *map.view());
    }
}
