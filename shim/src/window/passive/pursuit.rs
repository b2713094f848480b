//! What a member does to get a lock.

use strait_core::layout::{Call, Corrupt, Wait};
use strait_core::lock::{
    Attempt, Backoff, Coding, Hybrid, HybridStep, HybridWord, LockType, Mcs, McsStep, McsWord,
    Mode, Op, Outcome, Request, State, Words,
};
use strait_core::sync::spin_hint;

use super::far::Reached;
use super::message::{Answer, Word};
use super::{Standing, Way, count};
use crate::Error;
use crate::window::{Assert, Window, WindowError};

/// Turns of a loop that make a unit of back-off.
const UNIT: u32 = 16;

/// Pauses between two looks at everything else, and who still lives.
const PAUSES_PER_POLL: u32 = 16;

/// One member that wants the lock of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pursuit {
    lock_type: LockType,
    chase: Chase,
    /// The request to the device that is under way.
    posted: Option<u64>,
    /// The target's manager has been asked.
    asked: bool,
}

#[derive(Clone, Copy, Debug)]
enum Chase {
    Managed,
    Word(Attempt, Mode),
    Hybrid(Hybrid),
    Queue(Mcs),
}

/// What comes next.
enum Next {
    Access(Place, Op),
    Ask,
    Pause(Blame),
    Taken(Standing),
    Broken,
    Corrupt(u64),
}

/// Which word.
#[derive(Clone, Copy)]
enum Place {
    Cpu,
    Network,
    Queue(McsWord),
}

/// For whom a member waits.
#[derive(Clone, Copy, Debug)]
enum Blame {
    /// Whom a word names.
    Word(State),
    /// Who is before it in the queue; `None`: sharers, or who comes behind it.
    Queue(Option<u32>),
}

/// How far a pursuit is.
enum Chased {
    Taken(Standing),
    /// The device, or the manager, has not answered.
    Unanswered,
    Held(Blame),
    /// A word of the lock holds this value, which no member can have written.
    Corrupt(u64),
}

impl Pursuit {
    fn next(&self) -> Next {
        let lock_type = self.lock_type;
        match &self.chase {
            Chase::Managed => Next::Ask,
            Chase::Word(attempt, Mode::Cpu) => Next::Access(Place::Cpu, attempt.op()),
            Chase::Word(attempt, Mode::Network) => Next::Access(Place::Network, attempt.op()),
            Chase::Hybrid(hybrid) => match hybrid.step() {
                HybridStep::Access(HybridWord::Cpu, op) => Next::Access(Place::Cpu, op),
                HybridStep::Access(HybridWord::Network, op) => Next::Access(Place::Network, op),
                HybridStep::Ask => Next::Ask,
                HybridStep::Wait(state) => Next::Pause(Blame::Word(state)),
                HybridStep::Taken(Mode::Cpu) => Next::Taken(Standing::Cpu(lock_type)),
                HybridStep::Taken(Mode::Network) => Next::Taken(Standing::Network(lock_type)),
                HybridStep::Corrupt(found) => Next::Corrupt(found),
            },
            Chase::Queue(mcs) => match mcs.step() {
                McsStep::Access(word, op) => Next::Access(Place::Queue(word), op),
                McsStep::Wait(before) => Next::Pause(Blame::Queue(before)),
                McsStep::Done => Next::Taken(Standing::Queue(lock_type)),
                McsStep::Broken => Next::Broken,
                McsStep::Corrupt(found) => Next::Corrupt(found),
            },
        }
    }
}

impl Window<'_> {
    /// Begins to want a lock.
    #[inline(never)]
    pub(super) fn begin_lock(
        &self,
        lock_type: LockType,
        target: u32,
        promise: Assert,
    ) -> Result<(), Error> {
        let part = self.part(target)?;
        let standing = &self.passive.targets[target as usize].standing;
        if standing.get() != Standing::None || self.passive.all.get() {
            return Err(WindowError::EpochOpen { call: "lock" }.into());
        }
        if let Some(fault) = self.loss_of(target) {
            return Err(fault.into());
        }
        if promise.has(Assert::NO_CHECK) {
            standing.set(Standing::Unchecked);
            return Ok(());
        }
        self.pursue(lock_type, target);
        part.awaited.set(true);
        if target == self.group.place() {
            // Its loads and stores are no operations that could wait.
            return self.await_lock(target).map(drop);
        }
        match self.chase(target, false) {
            Ok(Chased::Taken(taken)) => self.settle_lock(target, taken),
            Ok(Chased::Unanswered | Chased::Held(_)) => {}
            Ok(Chased::Corrupt(found)) => {
                self.settle_lock(target, Standing::None);
                return Err(self.corrupt_lock(found));
            }
            Err(error) => {
                self.settle_lock(target, Standing::None);
                return Err(error);
            }
        }
        Ok(())
    }

    fn pursue(&self, lock_type: LockType, target: u32) {
        let (place, size) = (self.group.place(), self.parts.len() as u32);
        let chase = match self.passive.way {
            Way::Managers => Chase::Managed,
            Way::Cpu | Way::Network => {
                let mode = if self.passive.way == Way::Cpu { Mode::Cpu } else { Mode::Network };
                Chase::Word(Attempt::new(Coding::Signed, lock_type, place, size), mode)
            }
            Way::Queue(mode) => Chase::Queue(Mcs::new(lock_type, place, size, mode == Mode::Cpu)),
            Way::Hybrid => {
                let on_node = self.parts[target as usize].block.is_some();
                Chase::Hybrid(Hybrid::new(lock_type, place, size, on_node))
            }
        };
        let pursuit = Pursuit { lock_type, chase, posted: None, asked: false };
        self.passive.pursuits.borrow_mut().push((target, pursuit));
        self.passive.targets[target as usize].standing.set(Standing::Pursuing);
        if lock_type == LockType::Shared {
            // Before the lock can be this member's: so that nobody waits for ever for one that has died with it.
            self.say_whether_sharing(target, 1);
        }
    }

    /// Says at the target that this member shares its lock, or is about to; or that it does not any more. To one that is gone nothing
    /// is said.
    pub(super) fn say_whether_sharing(&self, target: u32, whether: u64) {
        if self.passive.way == Way::Managers {
            return;
        }
        let word = self.lock_word(target, Words::share_offset(self.group.place()));
        match word {
            Ok(Reached::Near(word)) => drop(word.access(Op::Write(whether))),
            // What follows meets the same error, and reports it.
            Ok(Reached::Far(word)) => drop(word.post(Op::Write(whether))),
            Err(_) => {}
        }
    }

    /// The lock is had, or will not be.
    fn settle_lock(&self, target: u32, standing: Standing) {
        let shared = self.pursuit(target).is_some_and(|it| it.lock_type == LockType::Shared);
        self.passive.pursuits.borrow_mut().retain(|(of, _)| *of != target);
        if shared && standing == Standing::None {
            self.say_whether_sharing(target, 0);
        }
        self.passive.targets[target as usize].standing.set(standing);
        self.parts[target as usize].awaited.set(false);
    }

    /// Waits for a lock that was asked for. False: none was.
    #[cold]
    pub(in crate::window) fn await_lock(&self, target: u32) -> Result<bool, Error> {
        match self.passive.targets[target as usize].standing.get() {
            Standing::Pursuing => {}
            Standing::Lazy => self.pursue(LockType::Shared, target),
            _ => return Ok(false),
        }
        let taken = self.wait_for_lock(target);
        self.settle_lock(target, *taken.as_ref().unwrap_or(&Standing::None));
        taken.map(|_| true)
    }

    /// As [`Window::await_lock`], but that a lock for which nothing was done yet is not asked for.
    #[cold]
    pub(in crate::window) fn await_asked_lock(&self, target: u32) -> Result<(), Error> {
        match self.passive.targets[target as usize].standing.get() {
            Standing::Pursuing => self.await_lock(target).map(drop),
            _ => Ok(()),
        }
    }

    fn wait_for_lock(&self, target: u32) -> Result<Standing, Error> {
        let (mut backoff, mut pauses) = (Backoff::new(self.passive.backoff), 0);
        let mut lost = self.is_any_lost();
        loop {
            match self.chase(target, true)? {
                Chased::Taken(standing) => return Ok(standing),
                Chased::Unanswered => {}
                Chased::Corrupt(found) => return Err(self.corrupt_lock(found)),
                Chased::Held(blame) => {
                    pauses += 1;
                    let looks = backoff.pause().saturating_mul(UNIT);
                    (0..looks.min(self.world.spin().looks())).for_each(|_| spin_hint());
                    if pauses % PAUSES_PER_POLL == 0 {
                        std::thread::yield_now();
                        self.watch_over_holders(blame);
                        self.world.poll_for(|| self.lock_wait(target, blame))?;
                        lost = self.is_any_lost();
                        self.look_for_the_lost(target, blame)?;
                    }
                    self.go_on(target, blame, lost);
                }
            }
        }
    }

    /// Describes the wait for the lock of `target`: it is for the holder where the word names one, otherwise for the target.
    fn lock_wait(&self, target: u32, blame: Blame) -> Wait {
        let place = match blame {
            Blame::Word(State::One(place)) | Blame::Queue(Some(place)) => place,
            _ => target,
        };
        let rank = self.group.ranks().get(place as usize).copied();
        Wait { peer: rank, ..Wait::new(Call::WindowLock) }
    }

    /// Makes sure that this member learns of the death of any holder where no word names the holders.
    fn watch_over_holders(&self, blame: Blame) {
        if let Blame::Word(State::Sharers(_)) | Blame::Queue(None) = blame {
            self.watch_over_members();
        }
    }

    /// Makes sure that this member learns of the death of each other member.
    pub(super) fn watch_over_members(&self) {
        self.group.ranks().iter().for_each(|rank| self.world.watch_over(*rank));
    }

    /// Follows the pursuit, until it is over or has to wait; `wait`: for who has the lock alone.
    fn chase(&self, target: u32, wait: bool) -> Result<Chased, Error> {
        loop {
            let Some(pursuit) = self.pursuit(target) else { return Ok(Chased::Unanswered) };
            match pursuit.next() {
                Next::Taken(standing) => return Ok(Chased::Taken(standing)),
                Next::Pause(blame) => return Ok(Chased::Held(blame)),
                Next::Broken => return Err(WindowError::LockBroken { target }.into()),
                Next::Corrupt(found) => return Ok(Chased::Corrupt(found)),
                Next::Ask => match self.ask_manager(target, pursuit, wait)? {
                    None => return Ok(Chased::Unanswered),
                    Some(Some(standing)) => return Ok(Chased::Taken(standing)),
                    Some(None) => {}
                },
                Next::Access(place, op) => {
                    let word = self.word_of(target, place, op)?;
                    let Some(found) = self.make_access(target, pursuit, &word, op, wait)? else {
                        return Ok(Chased::Unanswered);
                    };
                    if let Some(over) = self.take_found(target, pursuit, found) {
                        return Ok(over);
                    }
                }
            }
        }
    }

    pub(super) fn corrupt_lock(&self, found: u64) -> Error {
        Corrupt::LockWord { found, members: self.parts.len() as u32 }.into()
    }

    fn pursuit(&self, target: u32) -> Option<Pursuit> {
        let pursuits = self.passive.pursuits.borrow();
        pursuits.iter().find(|(of, _)| *of == target).map(|(_, pursuit)| *pursuit)
    }

    fn keep(&self, target: u32, pursuit: Pursuit) {
        let mut pursuits = self.passive.pursuits.borrow_mut();
        if let Some((_, kept)) = pursuits.iter_mut().find(|(of, _)| *of == target) {
            *kept = pursuit;
        }
    }

    /// What an access finds. `None`: the device is not done with it.
    fn make_access(
        &self,
        target: u32,
        mut pursuit: Pursuit,
        word: &Reached<'_, '_>,
        op: Op,
        wait: bool,
    ) -> Result<Option<u64>, Error> {
        let word = match word {
            Reached::Near(word) => return Ok(Some(word.access(op))),
            Reached::Far(word) => word,
        };
        if pursuit.posted.is_none() {
            count(&self.passive.counts.accesses);
            pursuit.posted = word.post(op)?;
        }
        let Some(number) = pursuit.posted else { return Ok(Some(0)) };
        let found = if wait { Some(word.found(number)?) } else { word.look(number)? };
        self.keep(target, pursuit);
        Ok(found)
    }

    /// Takes in what an access found. `Some`: the pursuit is over, or has to wait.
    fn take_found(&self, target: u32, mut pursuit: Pursuit, found: u64) -> Option<Chased> {
        pursuit.posted = None;
        let mut over = None;
        match &mut pursuit.chase {
            Chase::Managed => {}
            Chase::Word(attempt, mode) => match attempt.handle(found) {
                Outcome::Taken => {
                    let lock_type = pursuit.lock_type;
                    over = Some(Chased::Taken(match mode {
                        Mode::Cpu => Standing::Cpu(lock_type),
                        Mode::Network => Standing::Network(lock_type),
                    }));
                }
                Outcome::Again => {}
                Outcome::Held(state) => over = Some(Chased::Held(Blame::Word(state))),
                Outcome::Corrupt(found) => over = Some(Chased::Corrupt(found)),
            },
            Chase::Hybrid(hybrid) => {
                hybrid.handle(found, &mut **self.passive.policy.borrow_mut());
                if hybrid.has_moved() {
                    count(&self.passive.counts.to_cpu);
                }
            }
            Chase::Queue(mcs) => mcs.handle(found, |place| self.is_lost(place)),
        }
        self.keep(target, pursuit);
        over
    }

    /// Asks the target's manager. `None`: it has not answered; otherwise what the member has now, if it does not have to look elsewhere.
    fn ask_manager(
        &self,
        target: u32,
        mut pursuit: Pursuit,
        wait: bool,
    ) -> Result<Option<Option<Standing>>, Error> {
        if !pursuit.asked {
            count(&self.passive.counts.requests);
            self.say(target, Word::Request(Request::Lock(pursuit.lock_type)))?;
            pursuit.asked = true;
            self.keep(target, pursuit);
        }
        let answer = || self.answer_of(target);
        let answered = if wait {
            let what = || Wait::on(Call::WindowLock, self.group.ranks()[target as usize]);
            let answered = self.world.wait_until(what, || {
                // In this order: an answer that was given before the end counts.
                let loss = self.loss_of(target);
                answer().map(Ok).or(loss.map(Err))
            })?;
            Some(answered?)
        } else {
            answer()
        };
        let Some(answer) = answered else { return Ok(None) };
        match answer {
            Answer::Granted(Mode::Cpu) => return Ok(Some(Some(Standing::Managed))),
            Answer::Granted(Mode::Network) => {
                return Ok(Some(Some(Standing::Network(pursuit.lock_type))));
            }
            Answer::Corrupt => return Err(Corrupt::Lock { found: target }.into()),
            Answer::Denied => {
                self.look_for_the_lost(target, Blame::Word(State::Sharers(1)))?;
            }
            Answer::Elsewhere => {}
        }
        pursuit.asked = false;
        if let Chase::Hybrid(hybrid) = &mut pursuit.chase {
            hybrid.again();
        }
        self.keep(target, pursuit);
        Ok(Some(None))
    }

    /// Looks again after a wait, and takes from the dead. `lost`: whether any member has died.
    fn go_on(&self, target: u32, blame: Blame, lost: bool) {
        let Some(mut pursuit) = self.pursuit(target) else { return };
        let dead = matches!(blame, Blame::Word(State::One(place)) if self.is_lost(place));
        match (&mut pursuit.chase, blame) {
            (Chase::Word(attempt, _), Blame::Word(state)) if dead => attempt.take_over(state),
            (Chase::Hybrid(hybrid), _) if dead => hybrid.inherit(),
            (Chase::Hybrid(hybrid), _) => hybrid.again(),
            (Chase::Queue(mcs), Blame::Queue(before)) => {
                let lost = lost.then(|| match before {
                    Some(before) => self.is_lost(before),
                    None => matches!(self.lost_sharer(target), Ok(Some(_))),
                });
                mcs.again(lost);
            }
            _ => {}
        }
        self.keep(target, pursuit);
    }

    /// Fails when the target has died, or one that shared its lock, for which this member waits.
    fn look_for_the_lost(&self, target: u32, blame: Blame) -> Result<(), Error> {
        if let Some(fault) = self.loss_of(target) {
            return Err(fault.into());
        }
        if !matches!(blame, Blame::Word(State::Sharers(_))) || !self.is_any_lost() {
            return Ok(());
        }
        match self.lost_sharer(target)?.and_then(|place| self.loss_of(place)) {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// Whether the member in `place` has died.
    pub(super) fn is_lost(&self, place: u32) -> bool {
        self.loss_of(place).is_some()
    }

    pub(super) fn is_any_lost(&self) -> bool {
        (0..self.parts.len() as u32).any(|place| self.is_lost(place))
    }

    /// One that has died and shared the target's lock, or was about to.
    fn lost_sharer(&self, target: u32) -> Result<Option<u32>, Error> {
        for place in (0..self.parts.len() as u32).filter(|place| self.is_lost(*place)) {
            let word = self.lock_word(target, Words::share_offset(place))?;
            let shares = match &word {
                Reached::Near(word) => word.access(Op::Read),
                Reached::Far(word) => strait_core::lock::RemoteWord::perform(word, Op::Read)?,
            };
            if shares != 0 {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn word_of(&self, target: u32, place: Place, op: Op) -> Result<Reached<'_, '_>, Error> {
        match place {
            Place::Cpu => self.lock_word(target, Words::CPU),
            Place::Network => self.far_word(target, Words::NETWORK),
            Place::Queue(word) => self.queue_word(target, word, op),
        }
    }
}
