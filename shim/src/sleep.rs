//! Sleeping until the doorbell rings, and waking those who sleep.

use core::sync::atomic::AtomicU32;
use core::time::Duration;

use rustix::event::Timespec;
use rustix::thread::{MembarrierCommand, futex, membarrier};
use strait_core::shm::Doorbell;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;

/// How long a rank sleeps at most, so that it looks now and then who still lives.
const LONGEST: Duration = Duration::from_millis(50);

/// The same where the kernel offers no barrier that reaches the other ranks: then a ring may be missed, and this is what
/// it costs.
const LONGEST_UNSURE: Duration = Duration::from_millis(1);

/// How a rank sleeps on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    barrier: Barrier,
}

/// How a sleeper makes sure that no ring is missed ([`Doorbell::lie_down`]).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Barrier {
    /// By a barrier in every process that has registered for it, as each rank has.
    Everywhere,
    /// By a fence of its own, which is not enough, and a short sleep.
    Here,
}

impl Sleep {
    /// Registers this process, so that others may sleep while it might ring.
    pub(crate) fn register() -> Self {
        let registered = membarrier(MembarrierCommand::RegisterGlobalExpedited);
        Self { barrier: if registered.is_ok() { Barrier::Everywhere } else { Barrier::Here } }
    }

    /// As where the kernel refuses to register.
    #[cfg(test)]
    pub(crate) const fn without_membarrier() -> Self {
        Self { barrier: Barrier::Here }
    }

    /// Sleeps until `bell`, this rank's, is rung, or for a while; not at all when `look`, which is called once more after
    /// lying down, finds something, which is the answer.
    pub(crate) fn sleep<E>(
        self,
        bell: &Doorbell,
        look: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut longest = LONGEST_UNSURE;
        bell.lie_down(|| {
            // Refused now although it was granted before: nothing to rely on.
            if self.barrier == Barrier::Everywhere
                && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
            {
                longest = LONGEST;
            } else {
                fence(SeqCst);
            }
        });
        Self::wait(bell, longest, look)
    }

    /// As [`Sleep::sleep`], for a moment: a ring may be missed, and may be of no use, since what comes from other nodes rings no
    /// bell.
    pub(crate) fn nap<E>(
        bell: &Doorbell,
        longest: Duration,
        look: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        bell.lie_down(|| fence(SeqCst));
        Self::wait(bell, longest, look)
    }

    fn wait<E>(
        bell: &Doorbell,
        longest: Duration,
        look: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let found = look();
        if matches!(found, Ok(false)) {
            let timeout = Timespec::try_from(longest).ok();
            let flags = futex::Flags::empty();
            // However it ends: the caller looks again, and may sleep again. It does not begin when the bell was rung.
            let _ = futex::wait(word(bell), flags, Doorbell::ASLEEP, timeout.as_ref());
        }
        bell.rise();
        found
    }
}

/// The futex word as the system call takes it.
pub(crate) fn word(bell: &Doorbell) -> &AtomicU32 {
    // SAFETY: an atomic word that lives as long as `bell`, and is reached by atomic operations alone.
    unsafe { AtomicU32::from_ptr(bell.word().as_ptr()) }
}

/// Rings the bell of a rank that has something to look at, and wakes the rank if it sleeps.
#[cold]
#[inline(never)]
pub(crate) fn wake(bell: &Doorbell) {
    if bell.ring() {
        // It fails for no address that is mapped.
        let _ = futex::wake(word(bell), futex::Flags::empty(), 1);
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;
    use crate::World;

    /// Two threads that wake each other in turn, each a thousand times: one that is not woken sleeps on for its longest.
    fn take_turns(sleep: Sleep) {
        let (bells, turn) = ([Doorbell::awake(), Doorbell::awake()], AtomicU32::new(0));
        let play = |me: u32| {
            for _ in 0..1000 {
                let is_mine = || Ok::<_, Infallible>(turn.load(Ordering::Acquire) % 2 == me);
                while is_mine() == Ok(false) {
                    let found = sleep.sleep(&bells[me as usize], is_mine);
                    assert!(found.is_ok());
                }
                turn.fetch_add(1, Ordering::Release);
                let other = &bells[1 - me as usize];
                if other.is_wanted() {
                    wake(other);
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert_eq!(turn.into_inner(), 2000);
        assert!(bells.iter().all(|bell| !bell.is_wanted()), "both are up");
    }

    #[test]
    fn sleepers_are_woken() {
        take_turns(Sleep::register());
    }

    #[test]
    fn sleepers_wake_where_the_kernel_has_no_barrier_for_them() {
        take_turns(Sleep::without_membarrier());
    }

    #[test]
    fn who_leaves_rings() {
        let mut worlds = World::in_process(2).unwrap();
        let sleeper = worlds.pop().unwrap();
        let segment = sleeper.segment();
        let bell = &segment.rank_block(1).doorbell;
        bell.lie_down(|| ());
        worlds.pop().unwrap().finalize().unwrap();
        assert!(!bell.is_wanted());
    }
}
