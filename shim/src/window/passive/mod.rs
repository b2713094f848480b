//! Passive synchronisation: lock and unlock (MPI-4.1 §12.5.3), in six designs (`[OneSided04]` chapter 4, `[HybridLock09]`).
//!
//! A lock does not wait: it asks, if that can be done at once, and the first operation to the target waits, or unlock does. What a
//! member does to get a lock is a [`Pursuit`]: one of the machines of [`strait_core::lock`], whose accesses to words are made
//! here, by the processor or by the device ([`far`]), or a request to the target's lock manager ([`desk`]).

mod design;
mod desk;
mod desks;
mod far;
mod message;
mod open;
mod pursuit;
mod release;
#[cfg(test)]
mod tests;

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use strait_core::lock::{Coding, LockType, LockWord, Mode, Op, Policy, State, Words};

pub use design::{LockDesign, LockPolicy, WindowOptions};
pub(crate) use desks::{Desks, started};
pub(super) use open::Opening;
use pursuit::Pursuit;

use super::{Assert, Window, WindowError};
use crate::Error;

/// What a member has of the lock of a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    /// Nothing.
    None,
    /// `lock_all` was called, and nothing was done to the target.
    Lazy,
    /// It wants the lock.
    Pursuing,
    /// It has the lock, at the CPU word.
    Cpu(LockType),
    /// At the network word.
    Network(LockType),
    /// Of the target's manager.
    Managed,
    /// At the head of the queue, or through it.
    Queue(LockType),
    /// It promised that nobody else wants the lock.
    Unchecked,
}

/// The lock of one target.
#[derive(Debug)]
struct Target {
    standing: Cell<Standing>,
    /// The word by which it is had on the node, if that is its way.
    cpu: Option<NonNull<LockWord>>,
}

/// How locks are had in a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// From managers.
    Managers,
    /// By test-and-set, at CPU words: the members are on one node.
    Cpu,
    /// By test-and-set, at network words.
    Network,
    /// By queues: by processors, or by devices.
    Queue(Mode),
    /// At two words.
    Hybrid,
}

/// What a member did for the locks of a window, and what its own lock is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LockCounters {
    /// The mode in which the lock of this member's part is.
    pub mode: Mode,
    /// How often this member's lock manager has moved that lock to network mode.
    pub to_network: u64,
    /// How often this member has moved a lock to CPU mode.
    pub to_cpu: u64,
    /// Accesses of this member to words of locks by the device.
    pub accesses: u64,
    /// Requests of this member to lock managers.
    pub requests: u64,
}

/// Counted by one member.
#[derive(Debug, Default)]
struct Counts {
    to_cpu: Cell<u64>,
    accesses: Cell<u64>,
    requests: Cell<u64>,
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// The locks of a window, as one member sees them.
pub(super) struct Passive {
    asked: LockDesign,
    design: LockDesign,
    way: Way,
    targets: Box<[Target]>,
    pursuits: RefCell<Vec<(u32, Pursuit)>>,
    /// Between `lock_all` and `unlock_all`.
    all: Cell<bool>,
    policy: RefCell<Box<dyn Policy + Send>>,
    /// Most units of a back-off.
    backoff: u32,
    desk: Option<u64>,
    counts: Counts,
}

impl Window<'_> {
    /// The design of this window's locks. It is the one that was asked for, but where that needs atomics of a device that has none: then
    /// [`LockDesign::TwoSided`].
    #[must_use]
    pub const fn lock_design(&self) -> LockDesign {
        self.passive.design
    }

    /// The design that was asked for.
    #[must_use]
    pub const fn lock_design_asked(&self) -> LockDesign {
        self.passive.asked
    }

    /// Whether locks and unlocks need the target's processor: to have a lock manager served, in a call or by a thread. A hybrid lock
    /// does only when a member on another node finds it in CPU mode.
    #[must_use]
    pub const fn lock_needs_target(&self) -> bool {
        matches!(self.passive.way, Way::Managers | Way::Hybrid)
    }

    /// What this member did for the locks of this window, and the mode of its own.
    #[must_use]
    pub fn lock_counters(&self) -> LockCounters {
        let Passive { counts, desk, .. } = &self.passive;
        let words = self.block.locks();
        let mode = match Coding::Signed.state(words.at(Words::CPU).access(Op::Read)) {
            State::Elsewhere(_) => Mode::Network,
            _ => self.passive.mode_without_mark(),
        };
        let to_network = desk.and_then(|desk| self.world.on_desk(desk, |desk| desk.moved()));
        LockCounters {
            mode,
            to_network: to_network.unwrap_or(0),
            to_cpu: counts.to_cpu.get(),
            accesses: counts.accesses.get(),
            requests: counts.requests.get(),
        }
    }

    /// Begins an access epoch with the target alone, until [`Window::unlock`]. Does not wait for who has the lock, but for this
    /// member's own: the first operation to the target does, or a flush. [`Assert::NO_CHECK`] promises that no other member
    /// wants a lock that excludes this one, and nothing is done.
    ///
    /// # Errors
    ///
    /// [`WindowError::EpochOpen`] when it is locked already, [`WindowError::Target`]; [`Error::Fault`] when the target died.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_LOCK`; `[OneSided04]` §4.1, that it does not block.
    #[inline]
    pub fn lock(&self, lock_type: LockType, target: u32, promise: Assert) -> Result<(), Error> {
        if let Some(lock) = self.passive.targets.get(target as usize)
            && let Some(word) = lock.cpu
            && (lock.standing.get(), lock_type, promise)
                == (Standing::None, LockType::Exclusive, Assert::NONE)
        {
            let (expected, desired) = (0, Coding::Signed.word(State::One(self.group.place())));
            // SAFETY: a word of the target's, mapped as long as the window.
            let word = unsafe { word.as_ref() };
            if word.access(Op::CompareAndSwap { expected, desired }) == expected {
                lock.standing.set(Standing::Cpu(lock_type));
                return Ok(());
            }
        }
        self.begin_lock(lock_type, target, promise)
    }

    /// Ends the access epoch: all operations to the target are complete, here and there, and the lock is another's.
    ///
    /// # Errors
    ///
    /// [`WindowError::NoEpoch`]; [`Error::Fault`] when the target died, or one that shared the lock, for which this member waited:
    /// the epoch has ended then, too.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_UNLOCK`.
    #[inline]
    pub fn unlock(&self, target: u32) -> Result<(), Error> {
        if let Some(lock) = self.passive.targets.get(target as usize)
            && lock.standing.get() == Standing::Cpu(LockType::Exclusive)
            && self.passive.way == Way::Cpu
            && let Some(word) = lock.cpu
        {
            let release = Coding::Signed.release(LockType::Exclusive, self.group.place());
            // SAFETY: as in `lock`.
            unsafe { word.as_ref() }.access(release);
            lock.standing.set(Standing::None);
            return self.poll_sometimes();
        }
        self.end_lock(target, "unlock")
    }

    /// Begins an access epoch with all members, each with a shared lock, until [`Window::unlock_all`]. A lock is asked for with the
    /// first operation to its target, and never if there is none.
    ///
    /// # Errors
    ///
    /// [`WindowError::EpochOpen`] when any target is locked.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_LOCK_ALL`.
    pub fn lock_all(&self, promise: Assert) -> Result<(), Error> {
        let targets = &self.passive.targets;
        let is_locked = |target: &Target| target.standing.get() != Standing::None;
        if self.passive.all.get() || targets.iter().any(is_locked) {
            return Err(WindowError::EpochOpen { call: "lock_all" }.into());
        }
        self.passive.all.set(true);
        let unchecked = promise.has(Assert::NO_CHECK);
        for (target, part) in targets.iter().zip(&self.parts) {
            target.standing.set(if unchecked { Standing::Unchecked } else { Standing::Lazy });
            part.awaited.set(!unchecked);
        }
        Ok(())
    }

    /// Ends the access epoch with all members, as [`Window::unlock`] does with one. That members died to which nothing was done is no
    /// error.
    ///
    /// # Errors
    ///
    /// The first of [`Window::unlock`]; the epoch has ended with all.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_UNLOCK_ALL`.
    pub fn unlock_all(&self) -> Result<(), Error> {
        if !self.passive.all.replace(false) {
            return Err(WindowError::NoEpoch { call: "unlock_all" }.into());
        }
        let members = 0..self.parts.len() as u32;
        members.map(|target| self.end_lock(target, "unlock_all")).fold(Ok(()), Result::and)
    }
}

impl Passive {
    /// The mode of a lock whose CPU word does not say that it is elsewhere.
    const fn mode_without_mark(&self) -> Mode {
        match self.way {
            Way::Network | Way::Queue(Mode::Network) => Mode::Network,
            Way::Managers | Way::Cpu | Way::Queue(Mode::Cpu) | Way::Hybrid => Mode::Cpu,
        }
    }
}
