//! The doorbell: the word by which a sleeping rank is woken.
//!
//! A process that has published something for a rank looks at that rank's doorbell, and rings it if
//! the rank sleeps. Nearly always the rank is awake, so the look must be cheap: one load of a line
//! that rarely changes, and no fence.
//!
//! The ringer publishes and then looks; the sleeper announces its sleep and then looks again.
//! Without a full fence on both sides, either may miss the other. Here the sleeper pays for both
//! sides, with a barrier that also reaches the ringers ([`Doorbell::prepare_to_sleep`]).
//!
//! Sleeper: the owner, one thread. Ringers: any local process. All operations are wait-free. The
//! embedder makes the system calls that sleep and wake.

use core::ptr::NonNull;

use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU32, Step, light, order, reached};

/// The owner is awake. Zeroed memory has this state.
const AWAKE: u32 = 0;

/// The owner sleeps on the word, or is about to.
const ASLEEP: u32 = 1;

/// The owner sleeps in another way than on the word, or is about to.
const AWAY: u32 = 2;

/// How the owner of a doorbell sleeps, and how it must be woken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slumber {
    /// It sleeps on the doorbell's word, which is a futex.
    Word,
    /// It sleeps on file descriptors. The embedder knows one through which it can be woken.
    Descriptor,
}

/// One rank's doorbell: a futex word.
///
/// ```
/// use strait_core::shm::{Doorbell, Slumber};
/// use strait_core::sync::{Ordering, fence};
///
/// let bell = Doorbell::awake();
/// assert!(!bell.is_wanted());
/// bell.prepare_to_sleep(Slumber::Word, || fence(Ordering::SeqCst));
/// // The owner looks once more and sleeps. A process that publishes something wakes it.
/// assert!(bell.is_wanted());
/// assert_eq!(bell.ring(), Some(Slumber::Word));
/// assert_eq!(bell.ring(), None, "one process wakes it");
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Doorbell(AtomicU32);

impl Doorbell {
    /// Value of the word while its owner sleeps on it. A futex wait must return when the word has
    /// another value.
    pub const ASLEEP: u32 = ASLEEP;

    /// Creates the doorbell of a rank that is awake, for models and tests. In a segment, zeroed
    /// memory has this state.
    #[must_use]
    pub fn awake() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// Announces that the owner is about to sleep. The owner then checks every source once more,
    /// and sleeps if all are still empty.
    ///
    /// `barrier` is a full fence for this thread and for every thread that may ring:
    /// `membarrier(2)` with `GLOBAL_EXPEDITED`. With a fence for this thread alone, a ring may be
    /// missed. The sleep must then be short, unless each ringer executes a full fence of its own
    /// before [`Doorbell::is_wanted`].
    #[inline]
    pub fn prepare_to_sleep(&self, how: Slumber, barrier: impl FnOnce()) {
        let word = match how {
            Slumber::Word => ASLEEP,
            Slumber::Descriptor => AWAY,
        };
        // ORDER bell/1: Relaxed. `barrier` orders it before the owner's next check.
        self.0.store(word, order("bell/1", Relaxed));
        barrier();
    }

    /// Announces that the owner is awake again.
    #[inline]
    pub fn rise(&self) {
        // ORDER bell/2: Relaxed. A process that sees it late rings without need.
        self.0.store(AWAKE, order("bell/2", Relaxed));
    }

    /// Returns true if the owner sleeps and needs a [`Doorbell::ring`]. Called after publishing
    /// what the owner must find.
    #[inline(always)]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        // ORDER bell/3: SeqCst, pairs with the sleeper's barrier (bell/1): either we see that it
        //   sleeps, or it finds what we published. In production the barrier acts for both sides,
        //   and this fence compiles to no instruction.
        light::fence(order("bell/3", SeqCst));
        // ORDER bell/4: Relaxed. bell/3 orders it after our publication.
        self.0.load(order("bell/4", Relaxed)) != AWAKE
    }

    /// Rings the doorbell. If the owner sleeps, returns how it sleeps, and this caller must wake
    /// it.
    #[must_use]
    pub fn ring(&self) -> Option<Slumber> {
        // ORDER bell/5: Relaxed. It publishes nothing: the owner checks every source when it wakes.
        let how = match self.0.swap(AWAKE, order("bell/5", Relaxed)) {
            ASLEEP => Slumber::Word,
            AWAY => Slumber::Descriptor,
            _ => return None,
        };
        reached(Step::BellRung);
        Some(how)
    }

    /// Returns the futex word.
    #[must_use]
    pub const fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

/// A pointer to a doorbell, for processes that ring it often.
#[derive(Clone, Copy, Debug)]
pub struct DoorbellPtr(NonNull<Doorbell>);

// SAFETY: it points to an atomic in shared memory, which any thread may access.
unsafe impl Send for DoorbellPtr {}

impl DoorbellPtr {
    /// Creates a pointer to `bell`.
    ///
    /// # Safety
    ///
    /// `bell` outlives this value and its copies.
    #[must_use]
    pub unsafe fn new(bell: &Doorbell) -> Self {
        Self(NonNull::from(bell))
    }

    /// Returns the doorbell.
    #[inline(always)]
    #[must_use]
    pub const fn get(&self) -> &Doorbell {
        // SAFETY: the doorbell outlives `self` (contract of `new`).
        unsafe { self.0.as_ref() }
    }
}
