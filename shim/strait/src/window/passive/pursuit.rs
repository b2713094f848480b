//! The steps of a member to get a lock.

use strait_core::layout::{Corrupt, EpochKind, EventKind};
use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, Hybrid, LockMode, LockRequest, LockState, LockType, LockWords,
    Mcs, McsWord, WordAccess,
};
use strait_platform::backoff::WindowLockBackoff;

use super::remote::Reached;
use super::standing::LockStanding;
use super::state::{LockMethod, count};
use super::steps::{Blame, Chase, LockWordKind, NextStep, Pursuit};
use crate::progress::windows::lock_message::{LockPayload, LockReply};
use crate::window::Window;
use crate::window::epochs::Assert;
use crate::{Error, WindowError};

/// The state of a pursuit after a chase.
enum Chased {
    Taken(LockStanding),
    /// The device or the manager has not answered.
    Unanswered,
    Held(Blame),
    /// A word of the lock holds this value, which no member can have written.
    Corrupt(u64),
}

impl Window<'_> {
    /// Begins to pursue a lock.
    #[inline(never)]
    pub(super) fn begin_lock(
        &self,
        lock_type: LockType,
        target: u32,
        promise: Assert,
    ) -> Result<(), Error> {
        self.part(target)?;
        let standing = &self.passive.targets[target as usize].standing;
        if standing.get() != LockStanding::None || self.passive.all.get() {
            return Err(WindowError::EpochOpen { call: "lock" }.into());
        }
        if let Some(fault) = self.loss_of(target) {
            return Err(fault.into());
        }
        self.note_epoch_began(EpochKind::Lock, &[target]);
        if promise.has(Assert::NO_CHECK) {
            standing.set(LockStanding::Unchecked);
            return Ok(());
        }
        let requested = self.request_lock(lock_type, target);
        if requested.is_err() {
            self.note_epoch_ended(EpochKind::Lock, &[target]);
        }
        requested
    }

    /// Begins to pursue a lock, and takes it if that is possible at once.
    fn request_lock(&self, lock_type: LockType, target: u32) -> Result<(), Error> {
        self.pursue(lock_type, target);
        self.parts[target as usize].awaited.set(true);
        if target == self.group.place() {
            // Loads and stores of its own part are no operations that could wait.
            return self.await_lock(target).map(drop);
        }
        match self.chase(target, false) {
            Ok(Chased::Taken(taken)) => self.settle_lock(target, taken),
            Ok(Chased::Unanswered | Chased::Held(_)) => {}
            Ok(Chased::Corrupt(found)) => {
                self.settle_lock(target, LockStanding::None);
                return Err(self.corrupt_lock(found));
            }
            Err(error) => {
                self.settle_lock(target, LockStanding::None);
                return Err(error);
            }
        }
        Ok(())
    }

    fn pursue(&self, lock_type: LockType, target: u32) {
        let (place, size) = (self.group.place(), self.parts.len() as u32);
        let chase = match self.passive.way {
            LockMethod::Managers => Chase::Managed,
            LockMethod::Cpu | LockMethod::Network | LockMethod::Coherent => {
                let mode = if self.passive.way == LockMethod::Network {
                    LockMode::Network
                } else {
                    LockMode::Cpu
                };
                Chase::Word(Attempt::new(Coding::Signed, lock_type, place, size), mode)
            }
            LockMethod::Queue(mode) => {
                Chase::Queue(Mcs::new(lock_type, place, size, mode == LockMode::Cpu))
            }
            LockMethod::Hybrid => {
                let on_node = self.parts[target as usize].block.is_some();
                Chase::Hybrid(Hybrid::new(lock_type, place, size, on_node))
            }
        };
        let request = self.request_for(lock_type, target);
        let pursuit = Pursuit { lock_type, request, chase, posted: None, asked: false };
        self.passive.pursuits.borrow_mut().push((target, pursuit));
        self.passive.targets[target as usize].standing.set(LockStanding::Pursuing);
        if lock_type == LockType::Shared {
            // This comes before the member can hold the lock, so that a lock that died with it
            // blocks no member for ever.
            self.say_whether_sharing(target, 1);
        }
    }

    /// Returns the request to a lock manager. A member that has other locks of the window must not
    /// wait behind an exclusive request: that may wait for a member which waits for this one.
    fn request_for(&self, lock_type: LockType, target: u32) -> LockRequest {
        let targets = (0..).zip(&self.passive.targets);
        let has_others = || {
            targets
                .filter(|(other, _)| *other != target)
                .any(|(_, lock)| lock.standing.get() != LockStanding::None)
        };
        match lock_type {
            LockType::Shared if has_others() => LockRequest::ShareAhead,
            _ => LockRequest::Lock(lock_type),
        }
    }

    /// Records at the target whether this member shares its lock, or is about to. Skips a target
    /// that is gone.
    pub(super) fn say_whether_sharing(&self, target: u32, whether: u64) {
        if self.passive.way == LockMethod::Managers {
            return;
        }
        let word = self.lock_word(target, LockWords::share_offset(self.group.place()));
        match word {
            Ok(Reached::Near(word)) => drop(word.access(WordAccess::Write(whether))),
            // The next access meets the same error and reports it.
            Ok(Reached::Far(word)) => drop(word.post(WordAccess::Write(whether))),
            Err(_) => {}
        }
    }

    /// Ends the pursuit with its result.
    fn settle_lock(&self, target: u32, standing: LockStanding) {
        let shared = self.pursuit(target).is_some_and(|it| it.lock_type == LockType::Shared);
        if standing.is_held() {
            self.note_lock(EventKind::LockTaken, target, u64::from(!shared));
        }
        self.passive.pursuits.borrow_mut().retain(|(of, _)| *of != target);
        if shared && standing == LockStanding::None {
            self.say_whether_sharing(target, 0);
        }
        self.passive.targets[target as usize].standing.set(standing);
        self.parts[target as usize].awaited.set(false);
    }

    /// Waits for a lock that was requested. Returns false when none was.
    #[cold]
    pub(in crate::window) fn await_lock(&self, target: u32) -> Result<bool, Error> {
        match self.passive.targets[target as usize].standing.get() {
            LockStanding::Pursuing => {}
            LockStanding::Lazy if matches!(self.passive.way, LockMethod::Queue(_)) => {
                self.share_in_order();
                return self.share(target).map(|()| true);
            }
            LockStanding::Lazy => self.pursue(LockType::Shared, target),
            _ => return Ok(false),
        }
        self.finish_pursuit(target).map(|()| true)
    }

    /// Waits for the lock that this member pursues.
    fn finish_pursuit(&self, target: u32) -> Result<(), Error> {
        let taken = self.wait_for_lock(target);
        self.settle_lock(target, *taken.as_ref().unwrap_or(&LockStanding::None));
        taken.map(drop)
    }

    /// Shares the locks of all members, for `lock_all` where each lock is a queue.
    ///
    /// A queue lets no member share ahead of exclusive requests. So members take the locks in the
    /// order of the targets: otherwise two of them could wait for each other.
    fn share_in_order(&self) {
        for target in 0..self.parts.len() as u32 {
            // The first operation to a target asks again, and reports the error.
            if self.share(target).is_err() {
                self.passive.targets[target as usize].standing.set(LockStanding::Lazy);
                self.parts[target as usize].awaited.set(true);
            }
        }
    }

    /// Shares the lock of a target, if `lock_all` has not taken it yet.
    fn share(&self, target: u32) -> Result<(), Error> {
        if self.passive.targets[target as usize].standing.get() != LockStanding::Lazy {
            return Ok(());
        }
        self.pursue(LockType::Shared, target);
        self.finish_pursuit(target)
    }

    /// Waits for the lock, without requesting one for which nothing was done yet.
    #[cold]
    pub(in crate::window) fn await_asked_lock(&self, target: u32) -> Result<(), Error> {
        match self.passive.targets[target as usize].standing.get() {
            LockStanding::Pursuing => self.await_lock(target).map(drop),
            _ => Ok(()),
        }
    }

    fn wait_for_lock(&self, target: u32) -> Result<LockStanding, Error> {
        let mut backoff = WindowLockBackoff::new(self.passive.backoff, self.world.spin());
        let mut lost = self.is_any_lost();
        let mut record = self.world.record_of_loop();
        loop {
            match self.chase(target, true)? {
                Chased::Taken(standing) => return Ok(standing),
                Chased::Unanswered => {}
                Chased::Corrupt(found) => return Err(self.corrupt_lock(found)),
                Chased::Held(blame) => {
                    if backoff.pause() {
                        self.watch_over_holders(blame);
                        self.world.is_kept_awake();
                        self.world.poll_in_loop(&mut record, || self.lock_wait(target, blame))?;
                        lost = self.is_any_lost();
                        self.look_for_the_lost(target, blame)?;
                    }
                    self.go_on(target, blame, lost);
                }
            }
        }
    }

    /// Continues the pursuit until it is over or has to wait. With `wait`, it waits only for a
    /// holder.
    fn chase(&self, target: u32, wait: bool) -> Result<Chased, Error> {
        loop {
            let Some(pursuit) = self.pursuit(target) else { return Ok(Chased::Unanswered) };
            match pursuit.next() {
                NextStep::Taken(standing) => return Ok(Chased::Taken(standing)),
                NextStep::Pause(blame) => return Ok(Chased::Held(blame)),
                NextStep::Corrupt(found) => return Ok(Chased::Corrupt(found)),
                NextStep::Ask => match self.ask_manager(target, pursuit, wait)? {
                    None => return Ok(Chased::Unanswered),
                    Some(Some(standing)) => return Ok(Chased::Taken(standing)),
                    Some(None) => {}
                },
                NextStep::Access(place, op) => {
                    let word = self.word_of(target, place, op)?;
                    let found = match self.make_access(target, pursuit, &word, op, wait) {
                        // The member before this one in the queue has died. Its death ends the wait
                        // behind it.
                        Err(_) if Self::tells_a_member(place, op) => Some(0),
                        found => found?,
                    };
                    let Some(found) = found else { return Ok(Chased::Unanswered) };
                    if let Some(over) = self.take_found(target, pursuit, found) {
                        return Ok(over);
                    }
                }
            }
        }
    }

    /// Returns whether an access tells a member of a queue something, in its own words.
    const fn tells_a_member(place: LockWordKind, op: WordAccess) -> bool {
        matches!(
            (place, op),
            (LockWordKind::Queue(McsWord::Next(_) | McsWord::Flag(_)), WordAccess::Write(_))
        )
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

    /// Returns the value that an access finds. `None`: the device has not completed it.
    fn make_access(
        &self,
        target: u32,
        mut pursuit: Pursuit,
        word: &Reached<'_, '_>,
        op: WordAccess,
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

    /// Takes in the value of an access. `Some`: the pursuit is over, or has to wait.
    fn take_found(&self, target: u32, mut pursuit: Pursuit, found: u64) -> Option<Chased> {
        pursuit.posted = None;
        let mut over = None;
        match &mut pursuit.chase {
            Chase::Managed => {}
            Chase::Word(attempt, mode) => match attempt.handle(found) {
                AttemptOutcome::Taken => {
                    let lock_type = pursuit.lock_type;
                    over = Some(Chased::Taken(match mode {
                        LockMode::Cpu => LockStanding::cpu(lock_type),
                        LockMode::Network => LockStanding::Network(lock_type),
                    }));
                }
                AttemptOutcome::Again => {}
                AttemptOutcome::Held(state) => over = Some(Chased::Held(Blame::Word(state))),
                AttemptOutcome::Corrupt(found) => over = Some(Chased::Corrupt(found)),
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

    /// Asks the target's manager. `None`: no answer yet. `Some(None)`: the member has to look
    /// elsewhere.
    fn ask_manager(
        &self,
        target: u32,
        mut pursuit: Pursuit,
        wait: bool,
    ) -> Result<Option<Option<LockStanding>>, Error> {
        if !pursuit.asked {
            count(&self.passive.counts.requests);
            self.say(target, LockPayload::Request(pursuit.request))?;
            pursuit.asked = true;
            self.keep(target, pursuit);
        }
        let answer = || self.answer_of(target);
        let answered = if wait {
            let what = || self.wait_for_manager(target);
            let answered = self.world.wait_until(what, || {
                // The order matters: an answer before the target's end counts.
                let loss = self.loss_of(target);
                answer().map(Ok).or(loss.map(Err))
            })?;
            Some(answered?)
        } else {
            answer()
        };
        let Some(answer) = answered else { return Ok(None) };
        match answer {
            LockReply::Granted(LockMode::Cpu) => return Ok(Some(Some(LockStanding::Managed))),
            LockReply::Granted(LockMode::Network) => {
                return Ok(Some(Some(LockStanding::Network(pursuit.lock_type))));
            }
            LockReply::Corrupt => return Err(Corrupt::Lock { found: target }.into()),
            LockReply::Denied => {
                self.look_for_the_lost(target, Blame::Word(LockState::Sharers(1)))?;
            }
            LockReply::Elsewhere => {}
        }
        pursuit.asked = false;
        if let Chase::Hybrid(hybrid) = &mut pursuit.chase {
            hybrid.again();
        }
        self.keep(target, pursuit);
        Ok(Some(None))
    }

    /// Looks again after a wait, and takes over from the dead. `lost`: whether any member has died.
    fn go_on(&self, target: u32, blame: Blame, lost: bool) {
        let Some(mut pursuit) = self.pursuit(target) else { return };
        let dead = matches!(blame, Blame::Word(LockState::One(place)) if self.is_lost(place));
        match (&mut pursuit.chase, blame) {
            (Chase::Word(attempt, _), Blame::Word(state)) if dead => attempt.take_over(state),
            (Chase::Hybrid(hybrid), _) if dead => hybrid.inherit(),
            (Chase::Hybrid(hybrid), _) => hybrid.again(),
            (Chase::Queue(mcs), Blame::Word(state)) if dead => mcs.take_over(state),
            (Chase::Queue(mcs), blame) => {
                let lost = lost.then(|| match blame {
                    Blame::Queue(before) => before.is_some_and(|before| self.is_lost(before)),
                    Blame::Word(LockState::Sharers(_)) => {
                        matches!(self.lost_sharer(target), Ok(Some(_)))
                    }
                    Blame::Word(_) => false,
                });
                mcs.again(lost);
            }
            _ => {}
        }
        self.keep(target, pursuit);
    }

    /// Fails when the target has died, or a sharer of its lock has died for which this member
    /// waits.
    fn look_for_the_lost(&self, target: u32, blame: Blame) -> Result<(), Error> {
        if let Some(fault) = self.loss_of(target) {
            return Err(fault.into());
        }
        if !matches!(blame, Blame::Word(LockState::Sharers(_))) || !self.is_any_lost() {
            return Ok(());
        }
        // A member at the head of a queue breaks that first, and gives up without it.
        let chase = self.pursuit(target).map(|pursuit| pursuit.chase);
        if matches!(chase, Some(Chase::Queue(mcs)) if mcs.is_queued()) {
            return Ok(());
        }
        match self.lost_sharer(target)?.and_then(|place| self.loss_of(place)) {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// Returns whether the member in `place` has died or left.
    pub(super) fn is_lost(&self, place: u32) -> bool {
        self.loss_of(place).is_some()
    }

    pub(super) fn is_any_lost(&self) -> bool {
        (0..self.parts.len() as u32).any(|place| self.is_lost(place))
    }

    /// Returns a member that died while it shared the target's lock, or was about to.
    fn lost_sharer(&self, target: u32) -> Result<Option<u32>, Error> {
        for place in (0..self.parts.len() as u32).filter(|place| self.is_lost(*place)) {
            let word = self.lock_word(target, LockWords::share_offset(place))?;
            let shares = match &word {
                Reached::Near(word) => word.access(WordAccess::Read),
                Reached::Far(word) => {
                    strait_core::lock::RemoteWord::perform(word, WordAccess::Read)?
                }
            };
            if shares != 0 {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn word_of(
        &self,
        target: u32,
        place: LockWordKind,
        op: WordAccess,
    ) -> Result<Reached<'_, '_>, Error> {
        match place {
            LockWordKind::Cpu => self.lock_word(target, self.passive.way.word_for_processors()),
            LockWordKind::Network => self.remote_word(target, LockWords::NETWORK),
            LockWordKind::Queue(word) => self.queue_word(target, word, op),
        }
    }
}
