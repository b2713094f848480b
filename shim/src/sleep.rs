//! Sleeping until the doorbell rings, and waking those who sleep.

use core::sync::atomic::AtomicU32;
#[cfg(test)]
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
use crate::chime::{self, Chime, Name};
use crate::hca::cq::Events;

/// How long a rank sleeps at most, so that it looks now and then who still lives.
const LONGEST: Duration = Duration::from_millis(50);

/// The same where the kernel offers no barrier that reaches the other ranks: then a ring may be missed, and this is what
/// it costs.
const LONGEST_UNSURE: Duration = Duration::from_millis(1);

/// How a rank sleeps on this machine.
#[derive(Debug)]
pub(crate) struct Sleep {
    barrier: Barrier,
    longest: Duration,
    #[cfg(test)]
    count: AtomicU32,
    /// Where it sleeps: on its bell's word, or on descriptors.
    beside: Option<Beside>,
}

/// What a rank with a device sleeps on.
#[derive(Debug)]
struct Beside {
    /// Rung with the doorbell.
    chime: Chime,
    /// Of the device.
    events: Events,
    /// Of those who call.
    door: OwnedFd,
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
        let barrier = if registered.is_ok() { Barrier::Everywhere } else { Barrier::Here };
        Self::with(barrier)
    }

    const fn with(barrier: Barrier) -> Self {
        Self {
            barrier,
            longest: LONGEST,
            #[cfg(test)]
            count: AtomicU32::new(0),
            beside: None,
        }
    }

    /// Has `rank` of `segment` woken by events of its device and of its door, too.
    pub(crate) fn beside(
        mut self,
        (events, door): (Events, OwnedFd),
        segment: &Segment,
        rank: Rank,
    ) -> io::Result<Self> {
        let chime = Chime::hang(&name(segment, rank))?;
        self.beside = Some(Beside { chime, events, door });
        Ok(self)
    }

    /// As where the kernel refuses to register.
    #[cfg(test)]
    pub(crate) const fn without_membarrier() -> Self {
        Self::with(Barrier::Here)
    }

    /// So long that a ring which is missed is not overlooked.
    #[cfg(test)]
    pub(crate) const fn for_ever(&mut self) {
        self.longest = Duration::from_secs(3600);
    }

    /// How often it slept until it was woken.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Says that this rank, whose bell it is, is about to sleep. It then looks once more, and sleeps by [`Sleep::wait`] if there is
    /// nothing: no longer than this says.
    pub(crate) fn lie_down(&self, bell: &Doorbell) -> Duration {
        let mut longest = LONGEST_UNSURE;
        if let Some(beside) = &self.beside {
            // Before the bell can be rung again.
            beside.chime.hush();
        }
        bell.lie_down(self.how(), || {
            // Refused now although it was granted before: nothing to rely on.
            if self.barrier == Barrier::Everywhere
                && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
            {
                longest = self.longest;
            } else {
                fence(SeqCst);
            }
        });
        longest
    }

    /// As [`Sleep::lie_down`], for a moment: a ring that comes just now may be missed.
    pub(crate) fn doze(&self, bell: &Doorbell) {
        bell.lie_down(self.how(), || ());
    }

    const fn how(&self) -> Slumber {
        if self.beside.is_some() { Slumber::Descriptor } else { Slumber::Word }
    }

    /// Sleeps until `bell`, this rank's, is rung, or its device or door has an event, or for a while. However it ends: the caller looks
    /// again, and may sleep again.
    pub(crate) fn wait(&self, bell: &Doorbell, longest: Duration) {
        let timeout = Timespec::try_from(longest).ok();
        match &self.beside {
            // It does not begin when the bell was rung.
            None => {
                let (word, flags) = (word(bell), futex::Flags::empty());
                let _ = futex::wait(word, flags, Doorbell::ASLEEP, timeout.as_ref());
            }
            Some(Beside { chime, events, door }) => {
                let all = [chime.as_fd(), events.as_fd(), door.as_fd()];
                let mut descriptors = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
                let _ = poll(&mut descriptors, timeout.as_ref());
            }
        }
        #[cfg(test)]
        self.count.fetch_add(u32::from(longest == self.longest), Relaxed);
    }

    /// Has whoever of `rank`, this one, sleeps look again.
    pub(crate) fn stir(&self, segment: &Segment, rank: Rank) {
        match self.how() {
            Slumber::Word => wake_all(&segment.rank_block(rank).doorbell),
            Slumber::Descriptor => chime::ring(&name(segment, rank)),
        }
    }
}

/// The futex word as the system call takes it.
fn word(bell: &Doorbell) -> &AtomicU32 {
    // SAFETY: an atomic word that lives as long as `bell`, and is reached by atomic operations alone.
    unsafe { AtomicU32::from_ptr(bell.word().as_ptr()) }
}

/// What the chime of `rank` is called.
const fn name(segment: &Segment, rank: Rank) -> Name {
    Name { kind: "rank", nonce: segment.nonce(), rank }
}

/// Rings the bell of a rank that has something to look at, and wakes the rank if it sleeps.
#[cold]
#[inline(never)]
pub(crate) fn wake(segment: &Segment, rank: Rank) {
    let bell = &segment.rank_block(rank).doorbell;
    match bell.ring() {
        Some(Slumber::Word) => wake_all(bell),
        Some(Slumber::Descriptor) => chime::ring(&name(segment, rank)),
        None => {}
    }
}

/// Wakes who sleeps on the word: a call, and a progress thread beside it.
fn wake_all(bell: &Doorbell) {
    // It fails for no address that is mapped.
    let _ = futex::wake(word(bell), futex::Flags::empty(), i32::MAX as u32);
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;
    use crate::World;
    use crate::boot::Contact;
    use crate::hca::cq::EventDriven as _;
    use crate::hca::soft::{Fabric, Mode, SoftHca};
    use crate::network::Door;

    /// Two threads that wake each other in turn, each a thousand times: one that is not woken sleeps on for an hour.
    fn take_turns(mut sleeps: [Sleep; 2], segment: Segment) {
        sleeps.iter_mut().for_each(Sleep::for_ever);
        let turn = AtomicU32::new(0);
        let play = |me: u32, sleep: Sleep, segment: Segment| {
            for _ in 0..1000 {
                let is_mine = || turn.load(Ordering::Acquire) % 2 == me;
                while !is_mine() {
                    let bell = &segment.rank_block(me).doorbell;
                    let longest = sleep.lie_down(bell);
                    if !is_mine() {
                        sleep.wait(bell, longest);
                    }
                    bell.rise();
                }
                turn.fetch_add(1, Ordering::Release);
                if segment.rank_block(1 - me).doorbell.is_wanted() {
                    wake(&segment, 1 - me);
                }
            }
        };
        thread::scope(|scope| {
            for (me, sleep) in (0..2).zip(sleeps) {
                let play = &play;
                scope.spawn(move || play(me, sleep, segment));
            }
        });
        assert_eq!(turn.into_inner(), 2000);
        let up = (0..2).all(|rank| !segment.rank_block(rank).doorbell.is_wanted());
        assert!(up, "both are up");
    }

    #[test]
    fn sleepers_are_woken() {
        let worlds = World::in_process(2).unwrap();
        take_turns([0, 1].map(|_| Sleep::register()), worlds[0].segment());
    }

    #[test]
    fn sleepers_with_a_device_are_woken() {
        let worlds = World::in_process(2).unwrap();
        let (fabric, segment) = (Fabric::create(2).unwrap(), worlds[0].segment());
        let devices = [0, 1].map(|rank| SoftHca::attach(&fabric, rank, Mode::Inline).unwrap());
        let sleeps = [0, 1].map(|rank| {
            let own =
                Contact { nonce: segment.nonce(), rank, host: 0, address: None, key: [0; 16] };
            let door = Door::open(own, false).unwrap().events().unwrap();
            let events = (devices[rank as usize].events(), door);
            Sleep::register().beside(events, &segment, rank).unwrap()
        });
        take_turns(sleeps, segment);
    }

    #[test]
    fn sleepers_wake_where_the_kernel_has_no_barrier_for_them() {
        let worlds = World::in_process(2).unwrap();
        let sleeps = [Sleep::without_membarrier(), Sleep::without_membarrier()];
        take_turns(sleeps, worlds[0].segment());
    }

    #[test]
    fn who_leaves_rings() {
        let mut worlds = World::in_process(2).unwrap();
        let sleeper = worlds.pop().unwrap();
        let segment = sleeper.segment();
        let bell = &segment.rank_block(1).doorbell;
        bell.lie_down(Slumber::Word, || ());
        worlds.pop().unwrap().finalize().unwrap();
        assert!(!bell.is_wanted());
    }
}
