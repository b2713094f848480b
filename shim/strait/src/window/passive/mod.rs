//! Passive synchronisation: lock and unlock (MPI-4.1 §12.5.3), in seven designs (`[OneSided04]`
//! chapter 4, `[HybridLock09]`).
//!
//! A lock call does not wait. It sends its request, if that is possible at once. The first
//! operation to the target waits for the lock, or unlock does. [`steps`] hold a member's steps to
//! get a lock: a machine of [`strait_core::lock`], or a request to the target's lock manager
//! ([`crate::progress::windows`]). [`pursuit`] makes the machine's accesses to words, by the
//! processor or by the device ([`remote`]).

mod holders;
pub(super) mod opening;
mod pursuit;
mod release;
mod remote;
mod standing;
pub(crate) mod state;
mod steps;
#[cfg(test)]
mod tests;

use strait_core::layout::EpochKind;
use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, LockMode, LockState, LockType, LockWords, WordAccess,
};
use strait_core::rma;

use super::Window;
use super::epochs::Assert;
use crate::{Error, LockDesign, WindowError};
use standing::LockStanding;
use state::{LockCounters, LockMethod, LockTarget, Passive};

impl Window<'_> {
    /// Returns the design of this window's locks. It is the requested design, unless that needs
    /// device atomics and a device has none. Then it is [`LockDesign::TwoSided`].
    ///
    /// ```
    /// # use strait::{Assert, Window, LockDesign};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).locks(LockDesign::Mcs).allocate(64)?;
    /// assert_eq!(window.lock_design(), LockDesign::Mcs);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub const fn lock_design(&self) -> LockDesign {
        self.passive.design
    }

    /// Returns the requested design of the locks.
    ///
    /// ```
    /// # use strait::{Assert, Window, LockDesign};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).locks(LockDesign::Mcs).allocate(64)?;
    /// assert_eq!(window.lock_design_asked(), LockDesign::Mcs);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub const fn lock_design_asked(&self) -> LockDesign {
        self.passive.asked
    }

    /// Returns whether lock and unlock need the target's processor, in a call or a thread, to serve
    /// a lock manager. A hybrid lock needs it only when a member on another node finds the lock in
    /// CPU mode.
    ///
    /// ```
    /// # use strait::{Assert, Window, LockDesign};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).locks(LockDesign::TestAndSet).allocate(64)?;
    /// assert!(!window.lock_needs_target());
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub const fn lock_needs_target(&self) -> bool {
        matches!(self.passive.way, LockMethod::Managers | LockMethod::Hybrid)
    }

    /// Returns the counters of this member for the locks of this window, and the mode of its own
    /// lock.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// assert_eq!(window.lock_counters().requests, 0);
    /// window.free()
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn lock_counters(&self) -> LockCounters {
        let Passive { counts, manager: lock_manager, .. } = &self.passive;
        let words = self.block.locks();
        let mode = match Coding::Signed.state(words.at(LockWords::CPU).access(WordAccess::Read)) {
            LockState::Elsewhere(_) => LockMode::Network,
            _ => self.passive.mode_without_mark(),
        };
        let to_network = lock_manager.and_then(|lock_manager| {
            self.world.on_lock_manager(lock_manager, |lock_manager| lock_manager.moved())
        });
        LockCounters {
            mode,
            to_network: to_network.unwrap_or(0),
            to_cpu: counts.to_cpu.get(),
            accesses: counts.accesses.get(),
            requests: counts.requests.get(),
        }
    }

    /// Begins an access epoch at one target, until [`Window::unlock`]. Does not wait for the holder
    /// of the lock, except for this member's own lock. The first operation to the target waits, or
    /// a flush. [`Assert::NO_CHECK`] promises that no other member wants a lock that excludes this
    /// one; the call then does nothing.
    ///
    /// ```
    /// # use strait::{Assert, Window, LockType};
    /// # strait::World::run_in_process(4, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.lock(LockType::Exclusive, 0, Assert::NONE)?;
    /// let mut count = [0_u64];
    /// window.get(&mut count, 0, 0)?;
    /// window.put(&[count[0] + 1], 0, 0)?;
    /// window.unlock(0)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::EpochOpen`] when the target is locked already, [`WindowError::Target`] when
    /// it does not exist; [`Error::Fault`] when it died.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_LOCK`; `[OneSided04]` §4.1 for its not blocking.
    #[inline]
    pub fn lock(&self, lock_type: LockType, target: u32, promise: Assert) -> Result<(), Error> {
        if let Some(lock) = self.passive.targets.get(target as usize)
            && let Some(word) = lock.cpu
            && (lock.standing.get(), lock_type, promise)
                == (LockStanding::None, LockType::Exclusive, Assert::NONE)
        {
            let (expected, desired) = (0, Coding::Signed.word(LockState::One(self.group.place())));
            // SAFETY: the word belongs to the target and is mapped as long as the window.
            let word = unsafe { word.as_ref() };
            if word.access(WordAccess::CompareAndSwap { expected, desired }) == expected {
                lock.standing.set(LockStanding::CpuExclusive);
                return Ok(());
            }
        }
        if let Some(lock) = self.passive.targets.get(target as usize)
            && (lock.standing.get(), lock_type, promise)
                == (LockStanding::None, LockType::Shared, Assert::NONE)
            && self.share_at_once(lock)
        {
            return Ok(());
        }
        self.begin_lock(lock_type, target, promise)
    }

    /// Ends the access epoch. All operations to the target are then complete, at this rank and at
    /// the target, and the lock is released.
    ///
    /// ```
    /// # use strait::{Assert, Window, LockType};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.lock(LockType::Shared, 1, Assert::NONE)?;
    /// let mut number = [0_u64];
    /// window.get(&mut number, 1, 0)?;
    /// window.unlock(1)?;
    /// // Here the operations are complete, and the lock is free again.
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::NoEpoch`]; [`Error::Fault`] when the target died, or a sharer of the lock
    /// died for which this member waited. The epoch has then ended too.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_UNLOCK`.
    #[inline]
    pub fn unlock(&self, target: u32) -> Result<(), Error> {
        if let Some(lock) = self.passive.targets.get(target as usize)
            && lock.standing.get() == LockStanding::CpuExclusive
            && self.passive.way == LockMethod::Cpu
            && let Some(word) = lock.cpu
        {
            let release = Coding::Signed.release(LockType::Exclusive, self.group.place());
            // SAFETY: the word belongs to the target and is mapped as long as the window.
            unsafe { word.as_ref() }.access(release);
            lock.standing.set(LockStanding::None);
            return self.poll_sometimes();
        }
        if let Some(lock) = self.passive.targets.get(target as usize)
            && lock.standing.get() == LockStanding::CpuShared
            && self.leave_at_once(lock)
        {
            return self.poll_sometimes();
        }
        self.end_lock(target, "unlock")
    }

    /// Takes a shared lock if no member holds it exclusively. Returns false if the lock is not
    /// free to share now, or is of another design; then nothing has changed.
    #[inline(always)]
    fn share_at_once(&self, lock: &LockTarget) -> bool {
        let Some((word, share)) = lock.cpu.zip(lock.share) else { return false };
        // SAFETY: the words belong to the target and are mapped as long as the window.
        let (word, share) = unsafe { (word.as_ref(), share.as_ref()) };
        // This comes before the member can hold the lock, so that a lock that died with it blocks
        // no member for ever.
        share.access(WordAccess::Write(1));
        let (place, members) = (self.group.place(), self.parts.len() as u32);
        let mut attempt = Attempt::new(Coding::Signed, LockType::Shared, place, members);
        loop {
            match attempt.handle(word.access(attempt.op())) {
                AttemptOutcome::Taken => {
                    lock.standing.set(LockStanding::CpuShared);
                    return true;
                }
                AttemptOutcome::Again => {}
                AttemptOutcome::Held(_) | AttemptOutcome::Corrupt(_) => {
                    share.access(WordAccess::Write(0));
                    return false;
                }
            }
        }
    }

    /// Releases a shared lock, if all members take it at its word. Returns false otherwise; then
    /// nothing has changed.
    #[inline(always)]
    fn leave_at_once(&self, lock: &LockTarget) -> bool {
        let Some((word, share)) = lock.cpu.zip(lock.share) else { return false };
        rma::flush();
        // SAFETY: the words belong to the target and are mapped as long as the window.
        let (word, share) = unsafe { (word.as_ref(), share.as_ref()) };
        word.access(Coding::Signed.release(LockType::Shared, self.group.place()));
        share.access(WordAccess::Write(0));
        lock.standing.set(LockStanding::None);
        true
    }

    /// Begins an access epoch at all members, each with a shared lock, until
    /// [`Window::unlock_all`]. The first operation to a target requests its lock.
    ///
    /// ```
    /// # use strait::{Assert, Window, Op};
    /// # strait::World::run_in_process(3, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.lock_all(Assert::NONE)?;
    /// for target in 0..3 {
    ///     window.accumulate(&[1_u64], target, 0, Op::Sum)?;
    /// }
    /// window.unlock_all()?;
    /// window.free()
    /// # }).unwrap();
    /// ```
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
        let is_locked = |target: &LockTarget| target.standing.get() != LockStanding::None;
        if self.passive.all.get() || targets.iter().any(is_locked) {
            return Err(WindowError::EpochOpen { call: "lock_all" }.into());
        }
        self.passive.all.set(true);
        self.note_epoch_began(EpochKind::Lock, &[]);
        let unchecked = promise.has(Assert::NO_CHECK);
        for (target, part) in targets.iter().zip(&self.parts) {
            target.standing.set(if unchecked {
                LockStanding::Unchecked
            } else {
                LockStanding::Lazy
            });
            part.awaited.set(!unchecked);
        }
        Ok(())
    }

    /// Ends the access epoch at all members, as [`Window::unlock`] does at one. The death of a
    /// member without operations is no error.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.lock_all(Assert::NONE)?;
    /// window.put(&[world.rank()], 0, world.rank() as usize)?;
    /// window.unlock_all()?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of [`Window::unlock`]; the epoch has ended at all members.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.3, `MPI_WIN_UNLOCK_ALL`.
    pub fn unlock_all(&self) -> Result<(), Error> {
        if !self.passive.all.replace(false) {
            return Err(WindowError::NoEpoch { call: "unlock_all" }.into());
        }
        let members = 0..self.parts.len() as u32;
        let ended = members.map(|target| self.end_lock(target, "unlock_all"));
        let ended = ended.fold(Ok(()), Result::and);
        self.note_epoch_ended(EpochKind::Lock, &[]);
        ended
    }
}
