//! Release of locks, and messages between members and lock managers.

use strait_core::layout::{Call, EpochKind, EventKind};
use strait_core::lock::{
    Coding, LockMode, LockRequest, LockType, LockWords, McsRelease, McsStep, McsWord, RemoteWord,
    WordAccess,
};
use strait_core::rma;
use strait_platform::backoff::WindowQueueBackoff;

use super::remote::Reached;
use super::standing::LockStanding;
use super::state::{LockMethod, count};
use crate::progress::windows::lock_manager::WindowLockManager;
use crate::progress::windows::lock_message::{LockPayload, LockReply};
use crate::window::Window;
use crate::{Error, WindowError, World};

impl Window<'_> {
    /// Completes the operations to the target, and releases its lock.
    #[inline(never)]
    pub(super) fn end_lock(&self, target: u32, call: &'static str) -> Result<(), Error> {
        let part = self.part(target)?;
        let standing = &self.passive.targets[target as usize].standing;
        match standing.get() {
            LockStanding::None if call == "unlock_all" => return Ok(()),
            LockStanding::None => return Err(WindowError::NoEpoch { call }.into()),
            LockStanding::Lazy => {
                standing.set(LockStanding::None);
                part.awaited.set(false);
                return Ok(());
            }
            LockStanding::Pursuing => drop(self.await_lock(target)?),
            _ => {}
        }
        let held = standing.replace(LockStanding::None);
        rma::flush();
        let flushed = self.flush_part(part);
        // The lock is released even after failed operations, since other members wait for it.
        let released = self.give_lock_back(target, held);
        if call == "unlock" {
            self.note_epoch_ended(EpochKind::Lock, &[target]);
        }
        self.poll_sometimes()?;
        flushed.and(released)
    }

    fn give_lock_back(&self, target: u32, held: LockStanding) -> Result<(), Error> {
        let place = self.group.place();
        let (size, mut shared) = (self.parts.len() as u32, false);
        if held.is_held() {
            self.note_lock(EventKind::LockReleased, target, 0);
        }
        match held {
            LockStanding::CpuExclusive | LockStanding::CpuShared => {
                shared = held == LockStanding::CpuShared;
                let lock_type = if shared { LockType::Shared } else { LockType::Exclusive };
                let release = Coding::Signed.release(lock_type, place);
                match self.lock_word(target, self.passive.way.word_for_processors())? {
                    Reached::Near(word) => drop(word.access(release)),
                    // Processors and devices share the word of the lock.
                    Reached::Far(word) => {
                        count(&self.passive.counts.accesses);
                        word.post(release)?;
                    }
                }
            }
            LockStanding::Network(lock_type) => {
                shared = lock_type == LockType::Shared;
                let coding = match self.passive.way {
                    LockMethod::Hybrid => Coding::Ranks { size },
                    _ => Coding::Signed,
                };
                count(&self.passive.counts.accesses);
                if let Reached::Far(word) = self.remote_word(target, LockWords::NETWORK)? {
                    // No wait for the device is needed: later requests to the target follow this
                    // one.
                    word.post(coding.release(lock_type, place))?;
                }
            }
            LockStanding::Managed => self.say(target, LockPayload::Request(LockRequest::Unlock))?,
            LockStanding::Queue(lock_type, queued) => {
                shared = lock_type == LockType::Shared;
                self.leave_queue(target, lock_type, queued)?;
            }
            LockStanding::None
            | LockStanding::Lazy
            | LockStanding::Pursuing
            | LockStanding::Unchecked => {}
        }
        if shared {
            self.say_whether_sharing(target, 0);
        }
        Ok(())
    }

    fn leave_queue(&self, target: u32, lock_type: LockType, queued: bool) -> Result<(), Error> {
        let size = self.parts.len() as u32;
        let native_swap = self.passive.way == LockMethod::Queue(LockMode::Cpu);
        let mut release = McsRelease::new(lock_type, self.group.place(), size, native_swap, queued);
        let mut backoff = WindowQueueBackoff::default();
        loop {
            match release.step() {
                McsStep::Access(word_kind, op) => {
                    let reached = self.queue_word(target, word_kind, op)?;
                    if let Reached::Far(_) = reached {
                        count(&self.passive.counts.accesses);
                    }
                    let found = match reached {
                        // No wait for the device is needed: later requests to the target follow
                        // this one.
                        Reached::Far(word) if word_kind == McsWord::Holders => {
                            word.post(op).map(|_| 0)
                        }
                        reached => reached.perform(op),
                    };
                    let found = match found {
                        // The next member has died. The members behind it find that out.
                        Err(_) if matches!(op, WordAccess::Write(_)) => 0,
                        found => found?,
                    };
                    release.handle(found, |place| self.is_lost(place));
                }
                McsStep::Wait(_) => {
                    if backoff.pause() {
                        self.watch_over_members();
                    }
                    self.world.poll()?;
                    release.again(self.is_any_lost());
                }
                McsStep::Done | McsStep::Held(_) => return Ok(()),
                McsStep::Corrupt(found) => return Err(self.corrupt_lock(found)),
            }
        }
    }

    /// Sends a message to the manager of a target.
    pub(super) fn say(&self, target: u32, word: LockPayload) -> Result<(), Error> {
        let Some(number) = self.passive.manager else { return Ok(()) };
        self.world.send_lock_message(number, target, word)
    }

    /// Takes the answer of the manager of a target, if it has arrived.
    pub(super) fn answer_of(&self, target: u32) -> Option<LockReply> {
        let number = self.passive.manager?;
        self.world
            .on_lock_manager(number, |lock_manager| lock_manager.take_answer(target))
            .flatten()
    }

    /// Waits until no member holds or wants a lock of this member's manager: all members have ended
    /// their epochs.
    pub(in crate::window) fn close_lock_manager(&self) -> Result<(), Error> {
        let Some(number) = self.passive.manager else { return Ok(()) };
        let is_idle = || {
            self.world
                .on_lock_manager(number, |lock_manager| lock_manager.is_idle())
                .unwrap_or(true)
        };
        let what = || self.wait_in(Call::WindowFree);
        self.world.wait_until(what, || is_idle().then_some(()))?;
        self.world.close_lock_manager(number);
        Ok(())
    }
}

impl World {
    /// Returns the result of `act` on a lock manager, if that is open.
    pub(super) fn on_lock_manager<R>(
        &self,
        number: u64,
        act: impl FnOnce(&mut WindowLockManager) -> R,
    ) -> Option<R> {
        self.with_lock_managers(|lock_managers| lock_managers.manager(number).map(act))
    }

    fn send_lock_message(&self, number: u64, target: u32, word: LockPayload) -> Result<(), Error> {
        self.with_lock_managers(|lock_managers| {
            let said = lock_managers
                .manager(number)
                .map(|lock_manager| lock_manager.message(target, word));
            said.into_iter().for_each(|(to, message)| lock_managers.say(to, message));
        });
        self.progress().map(drop)
    }

    /// Stops the thread of a window, if it has one, and closes its lock manager.
    pub(super) fn close_lock_manager(&self, number: u64) {
        self.engine().stop_window_thread(number);
        self.with_lock_managers(|lock_managers| lock_managers.close(number));
    }
}
