//! How a world passes the time until something comes, and learns who is gone.

use strait_core::layout::{Call, Life, Liveness, Wait};
use strait_core::progress::{Outcome, Owner, RequestId, Status};

use record::Recorder;

use super::{ShmEngine, World};
use crate::Error;
use crate::network::{Network, Transfer, TransferId};
use crate::patience::{Pass, Patience};
use crate::window::{Baselines, failed};

mod record;

/// A rank that waits for a message whose sender may use an RTR for it.
struct Inside<'a>(&'a Liveness);

impl<'a> Inside<'a> {
    fn enter(liveness: &'a Liveness) -> Self {
        liveness.set_inside(true);
        Self(liveness)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set_inside(false);
    }
}

impl World {
    /// Makes progress for a call that does not wait. A program that makes only such calls learns of deaths here.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        self.poll_for(|| Wait::new(Call::Test))
    }

    /// [`World::poll`] in a loop that waits for `what`.
    pub(crate) fn poll_for(&self, what: impl Fn() -> Wait) -> Result<(), Error> {
        self.with_baselines(Baselines::hurry);
        self.progress()?;
        let mut glance = self.glance.get();
        let due = glance.is_due();
        self.glance.set(glance);
        if due {
            let wait = what();
            record::write_once(&self.map.segment().rank_block(self.rank).waiting, wait);
            self.watch_over_peer_of(wait);
            self.look_for_the_gone()?;
        }
        Ok(())
    }

    /// Makes sure that this rank learns of the death of the rank that `wait` names.
    fn watch_over_peer_of(&self, wait: Wait) {
        if let Some(peer) = wait.peer {
            self.watch_over(peer);
        }
    }

    /// Makes progress until `look` finds what it looks for. What that is comes by progress, by the end of a peer, or with
    /// a ring of the doorbell. `look` may make calls on this world. `what` says what is awaited; it is asked when that takes long.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::OutOfMemory`]: no progress can be made.
    pub fn wait_until<T>(
        &self,
        what: impl Fn() -> Wait,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Error> {
        // A progress thread has nothing to do meanwhile.
        let _turn = self.turn();
        let mut patience = Patience::new(self.spin);
        let segment = self.map.segment();
        let mut inside = None;
        let mut record = Recorder::new(&segment.rank_block(self.rank).waiting);
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if inside.is_none() && self.turn().is_asking() {
                inside = Some(Inside::enter(&segment.rank_block(self.rank).liveness));
            }
            self.with_baselines(Baselines::hurry);
            let pass = match self.progress()? {
                true if patience.moved() => Pass::LookForTheGone,
                true => Pass::Again,
                false => patience.pass(),
            };
            match pass {
                Pass::Again => {}
                Pass::LookForTheGone => {
                    let wait = what();
                    record.renew(wait, patience.turns());
                    self.watch_over_peer_of(wait);
                    if !self.look_for_the_gone()? {
                        patience.wonder();
                        std::thread::yield_now();
                    }
                }
                Pass::Sleep if let Some(idle) = &self.idle => idle(),
                Pass::Sleep => {
                    if let Some(found) = self.sleep(&mut patience, &mut look)? {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Sleeps for once, after looking at everything again. What `look` found then.
    fn sleep<T>(
        &self,
        patience: &mut Patience,
        look: &mut impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let place = &self.turns.place;
        let bell = place.bell();
        let vigil = self.turn().motor().keep_vigil() && !self.has_far_windows();
        let longest = place.sleep.lie_down(bell.get());
        let found = look();
        let moved = if found.is_some() { Ok(true) } else { self.progress() };
        if matches!(moved, Ok(false)) {
            let nap = (!vigil).then(|| patience.nap());
            place.sleep.wait(bell.get(), nap.map_or(longest, |nap| nap.min(longest)));
            patience.glance();
        }
        bell.get().rise();
        if moved? && found.is_none() {
            patience.reset();
        }
        Ok(found)
    }

    /// Waits for an operation, and ends its claim on its buffer whatever happens.
    pub(crate) fn wait(&self, id: RequestId) -> Result<Outcome, Error> {
        let what = || self.turn().wait_of(id);
        let outcome = self.wait_until(what, || self.turn().test(id));
        if outcome.is_err() {
            self.settle(id);
        }
        outcome
    }

    /// Ends an operation's claim on its buffer without its outcome.
    pub(crate) fn settle(&self, id: RequestId) {
        let what = || Wait { call: Call::Settle, ..self.turn().wait_of(id) };
        self.settle_by(what, |engine| engine.detach(id).is_ok());
    }

    /// How a transfer on a window's lane ended, if it has.
    pub(crate) fn test_transfer(&self, id: TransferId) -> Option<Result<Status, Error>> {
        let (transfer, ended) = self.with_network(|network| network.take_ended(id))??;
        let Transfer { rank, bytes, .. } = transfer;
        let status = Status { source: rank, tag: 0, bytes };
        Some(ended.map(|()| status).map_err(|error| failed(self, rank, error)))
    }

    /// Waits until a transfer has ended, or ends it when no progress can be made.
    pub(crate) fn settle_transfer(&self, id: TransferId) {
        let what = || Wait::new(Call::WindowFlush);
        if self.wait_until(what, || self.test_transfer(id).map(drop)).is_err() {
            self.with_network(|network| network.abandon(id));
        }
    }

    /// How a message for a window ended, if it has.
    pub(crate) fn test_moving(&self, id: RequestId) -> Option<Outcome> {
        let outcome = self.turn().test(id)?;
        self.with_baselines(|all| all.forget(id));
        Some(outcome)
    }

    /// Waits until a message for a window has ended, or ends it when no progress can be made.
    pub(crate) fn settle_moving(&self, id: RequestId) {
        let what = || self.turn().wait_of(id);
        if self.wait_until(what, || self.test_moving(id).map(drop)).is_err() {
            self.with_baselines(|all| all.forget(id));
            self.settle(id);
        }
    }

    /// As [`World::settle`], for all operations of a scope.
    pub(crate) fn settle_owned(&self, owner: Owner) {
        while let Some(id) = self.with_baselines(|all| all.kept_for(owner)) {
            self.settle_moving(id);
        }
        while let Some(id) = self.with_network(|network| network.transfer_of(owner)).flatten() {
            self.settle_transfer(id);
        }
        let what = || Wait::new(Call::Settle);
        self.settle_by(what, |engine| engine.detach_owned(owner).is_ok());
    }

    /// Ends claims by `detach`, which may have to wait: for a peer that is in the middle of moving a piece of a large message,
    /// or, when there is no memory to copy the rest of a send, until it has left from where it is.
    fn settle_by(&self, what: impl Fn() -> Wait, detach: impl Fn(&mut ShmEngine) -> bool) {
        if self.wait_until(what, || detach(&mut self.turn()).then_some(())).is_ok() {
            return;
        }
        // No progress can be made any more: nothing may touch the buffers all the same.
        let mut turn = self.turn();
        let motor = turn.motor();
        motor.gear.network.as_deref_mut().into_iter().for_each(Network::close_all);
        let segment = self.map.segment();
        let is_gone = |rank| segment.rank_block(rank).liveness.state() >= Life::Dead;
        while !motor.engine.stop(is_gone) {
            motor.gear.watch.check(&segment, self.rank);
            std::thread::yield_now();
        }
    }

    /// Tells the engine who died or left since the last look. False: not all of it could be settled yet.
    pub(crate) fn look_for_the_gone(&self) -> Result<bool, Error> {
        self.turn().motor().look_for_the_gone()
    }
}

#[cfg(test)]
mod tests;
