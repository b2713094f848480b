//! Giving locks back, and what passes between members and managers.

use strait_core::layout::{Call, Wait};
use strait_core::lock::{
    Coding, LockType, McsRelease, McsStep, Mode, Op, RemoteWord, Request, Words,
};
use strait_core::rma;

use super::far::Reached;
use super::message::{Answer, Word};
use super::{Standing, Way, count};
use crate::window::{Window, WindowError};
use crate::{Error, World};

/// Turns of a wait for the next member of the queue between two checks that links to all members exist.
const WAITS_PER_WATCH: u32 = 16;

impl Window<'_> {
    /// Completes the operations to the target, and gives its lock back.
    #[inline(never)]
    pub(super) fn end_lock(&self, target: u32, call: &'static str) -> Result<(), Error> {
        let part = self.part(target)?;
        let standing = &self.passive.targets[target as usize].standing;
        match standing.get() {
            Standing::None if call == "unlock_all" => return Ok(()),
            Standing::None => return Err(WindowError::NoEpoch { call }.into()),
            Standing::Lazy => {
                standing.set(Standing::None);
                part.awaited.set(false);
                return Ok(());
            }
            Standing::Pursuing => drop(self.await_lock(target)?),
            _ => {}
        }
        let held = standing.replace(Standing::None);
        rma::flush();
        let flushed = self.flush_part(part);
        // Whatever became of the operations: others are waiting.
        let released = self.give_lock_back(target, held);
        self.poll_sometimes()?;
        flushed.and(released)
    }

    fn give_lock_back(&self, target: u32, held: Standing) -> Result<(), Error> {
        let place = self.group.place();
        let (size, mut shared) = (self.parts.len() as u32, false);
        match held {
            Standing::Cpu(lock_type) => {
                shared = lock_type == LockType::Shared;
                let lock = &self.passive.targets[target as usize];
                if let Some(word) = lock.cpu {
                    // SAFETY: a word of the target's, mapped as long as the window.
                    unsafe { word.as_ref() }.access(Coding::Signed.release(lock_type, place));
                }
            }
            Standing::Network(lock_type) => {
                shared = lock_type == LockType::Shared;
                let coding = match self.passive.way {
                    Way::Hybrid => Coding::Ranks { size },
                    _ => Coding::Signed,
                };
                count(&self.passive.counts.accesses);
                if let Reached::Far(word) = self.far_word(target, Words::NETWORK)? {
                    // Nobody waits for the device: what comes later to the target comes behind it.
                    word.post(coding.release(lock_type, place))?;
                }
            }
            Standing::Managed => self.say(target, Word::Request(Request::Unlock))?,
            Standing::Queue(lock_type) => {
                shared = lock_type == LockType::Shared;
                self.leave_queue(target, lock_type)?;
            }
            Standing::None | Standing::Lazy | Standing::Pursuing | Standing::Unchecked => {}
        }
        if shared {
            self.say_whether_sharing(target, 0);
        }
        Ok(())
    }

    fn leave_queue(&self, target: u32, lock_type: LockType) -> Result<(), Error> {
        let size = self.parts.len() as u32;
        let native_swap = self.passive.way == Way::Queue(Mode::Cpu);
        let mut release = McsRelease::new(lock_type, self.group.place(), size, native_swap);
        let mut waits = 0_u32;
        loop {
            match release.step() {
                McsStep::Access(word, op) => {
                    let reached = self.queue_word(target, word, op)?;
                    if let Reached::Far(_) = reached {
                        count(&self.passive.counts.accesses);
                    }
                    match reached.perform(op) {
                        Ok(found) => release.handle(found, |place| self.is_lost(place)),
                        // Who was next has died; those behind it find out.
                        Err(_) if matches!(op, Op::Write(_)) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
                McsStep::Wait(_) => {
                    std::thread::yield_now();
                    waits = waits.wrapping_add(1);
                    if waits.is_multiple_of(WAITS_PER_WATCH) {
                        self.watch_over_members();
                    }
                    self.world.poll()?;
                    release.again(self.is_any_lost());
                }
                McsStep::Done | McsStep::Broken => return Ok(()),
                McsStep::Corrupt(found) => return Err(self.corrupt_lock(found)),
            }
        }
    }

    /// Says something to the manager of a target.
    pub(super) fn say(&self, target: u32, word: Word) -> Result<(), Error> {
        let Some(number) = self.passive.desk else { return Ok(()) };
        self.world.say_at_desk(number, target, word)
    }

    /// What the manager of a target has answered.
    pub(super) fn answer_of(&self, target: u32) -> Option<Answer> {
        let number = self.passive.desk?;
        self.world.on_desk(number, |desk| desk.take_answer(target)).flatten()
    }

    /// Waits until nobody has or wants anything of this member's manager: all members have ended their epochs.
    pub(in crate::window) fn close_desk(&self) -> Result<(), Error> {
        let Some(number) = self.passive.desk else { return Ok(()) };
        let is_idle = || self.world.on_desk(number, |desk| desk.is_idle()).unwrap_or(true);
        let what = || Wait::new(Call::WindowFree);
        self.world.wait_until(what, || is_idle().then_some(()))?;
        self.world.close_desk(number);
        Ok(())
    }
}

impl World {
    /// What came of `act` on a desk that is open.
    pub(super) fn on_desk<R>(
        &self,
        number: u64,
        act: impl FnOnce(&mut super::desk::Desk) -> R,
    ) -> Option<R> {
        self.with_desks(|desks| desks.desk(number).map(act))
    }

    fn say_at_desk(&self, number: u64, target: u32, word: Word) -> Result<(), Error> {
        self.with_desks(|desks| {
            let said = desks.desk(number).map(|desk| desk.message(target, word));
            said.into_iter().for_each(|(to, message)| desks.say(to, message));
        });
        self.progress().map(drop)
    }

    fn close_desk(&self, number: u64) {
        self.with_desks(|desks| desks.close(number));
    }
}
