//! The doorbell: how a rank that sleeps learns that there is something to look at.
//!
//! Whoever has published something for a rank looks at that rank's bell, and rings it if the rank sleeps. Nearly
//! always it does not, so looking has to be cheap: one load of a line that rarely changes, and no fence. Publishing
//! and then looking, against lying down and then looking again, needs a full fence on both sides, or either may miss
//! the other; here the sleeper pays for both, with a barrier that reaches the other side too ([`Doorbell::lie_down`]).
//!
//! Sleeper: the owner, one thread. Ringers: any local process. All operations are wait-free; sleeping and waking are
//! system calls, and made by whoever embeds this.

use core::ptr::NonNull;

use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU32, Step, light, order, reached};

/// The owner looks by itself. Zeroed memory says so.
const AWAKE: u32 = 0;

/// The owner sleeps on the word, or is about to.
const ASLEEP: u32 = 1;

/// The owner sleeps, or is about to, and another way than on the word.
const AWAY: u32 = 2;

/// How the owner of a bell sleeps, and is to be woken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slumber {
    /// On the bell's word, which is a futex.
    Word,
    /// On descriptors, one of which the embedder knows how to ring.
    Descriptor,
}

/// One rank's bell: a futex word.
#[derive(Debug)]
#[repr(transparent)]
pub struct Doorbell(AtomicU32);

impl Doorbell {
    /// What the word holds while its owner sleeps on it: a futex wait must return when it does not.
    pub const ASLEEP: u32 = ASLEEP;

    /// The bell of a rank that is awake, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn awake() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// Says that the owner is about to sleep. It then looks once more at everything, and sleeps if that is all still
    /// empty.
    ///
    /// `barrier` is a full fence for this thread and for every thread that may ring: `membarrier(2)` with
    /// `GLOBAL_EXPEDITED`. With a fence for this thread alone a ring may be missed, and the sleep must be short; unless each
    /// ringer has a full fence of its own before [`Doorbell::is_wanted`].
    #[inline]
    pub fn lie_down(&self, how: Slumber, barrier: impl FnOnce()) {
        let word = match how {
            Slumber::Word => ASLEEP,
            Slumber::Descriptor => AWAY,
        };
        // ORDER bell/1: Relaxed. `barrier` puts it before the owner's next look.
        self.0.store(word, order("bell/1", Relaxed));
        barrier();
    }

    /// Says that the owner looks by itself again.
    #[inline]
    pub fn rise(&self) {
        // ORDER bell/2: Relaxed. Who sees it late rings for nothing.
        self.0.store(AWAKE, order("bell/2", Relaxed));
    }

    /// True when the owner sleeps and [`Doorbell::ring`] is called for. Asked after publishing what the owner is to find.
    #[inline(always)]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        // ORDER bell/3: SeqCst, pairs with the sleeper's barrier (bell/1): either we see that it sleeps, or it finds what
        //   we published. In production the barrier stands for both sides, and this is no instruction.
        light::fence(order("bell/3", SeqCst));
        // ORDER bell/4: Relaxed, put after our publishing by bell/3.
        self.0.load(order("bell/4", Relaxed)) != AWAKE
    }

    /// Rings. If the owner sleeps, the caller is the one who has to wake it, in the way that it sleeps.
    #[must_use]
    pub fn ring(&self) -> Option<Slumber> {
        // ORDER bell/5: Relaxed. It carries nothing: the owner looks everywhere when it wakes.
        let how = match self.0.swap(AWAKE, order("bell/5", Relaxed)) {
            ASLEEP => Slumber::Word,
            AWAY => Slumber::Descriptor,
            _ => return None,
        };
        reached(Step::BellRung);
        Some(how)
    }

    /// The futex word.
    #[must_use]
    pub const fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

/// Where a bell hangs, for those who ring it often.
#[derive(Clone, Copy, Debug)]
pub struct DoorbellPtr(NonNull<Doorbell>);

// SAFETY: it points to an atomic in shared memory, which any thread may reach.
unsafe impl Send for DoorbellPtr {}

impl DoorbellPtr {
    /// The place of `bell`.
    ///
    /// # Safety
    ///
    /// The bell outlives this value and its copies.
    #[must_use]
    pub const unsafe fn new(bell: &Doorbell) -> Self {
        Self(NonNull::from_ref(bell))
    }

    /// The bell.
    #[inline(always)]
    #[must_use]
    pub const fn get(&self) -> &Doorbell {
        // SAFETY: it outlives `self` (contract of `new`).
        unsafe { self.0.as_ref() }
    }
}
