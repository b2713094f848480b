//! The wait loop of a world, which also learns of ranks that died or left.

use core::fmt;

use strait_core::engine::{Fault, Outcome, Owner, RequestId, Status};
use strait_core::layout::{Call, EventKind, Life, Liveness, ShortName, UnexpectedSummary, Wait};
use strait_core::wire::Key;
use strait_platform::backoff::{Backoff, CallTimer, Next};
use strait_platform::record::{RecordPlace, WaitRecorder};

use super::World;
use crate::Error;
use crate::memory::ShmEngine;
use crate::network::{Network, TransferId, WindowTransfer};
use crate::progress::windows::baseline::Baselines;
use crate::reserved::is_of_windows;

/// A mark in the segment: this rank waits inside the library while a large message is under way,
/// so it helps to move it.
struct InsideMark<'a>(&'a Liveness);

impl<'a> InsideMark<'a> {
    /// Sets the mark. Returns `None` if an outer wait of this rank has set it.
    fn enter(liveness: &'a Liveness) -> Option<Self> {
        if liveness.is_inside() {
            return None;
        }
        liveness.set_inside(true);
        Some(Self(liveness))
    }
}

impl Drop for InsideMark<'_> {
    fn drop(&mut self) {
        self.0.set_inside(false);
    }
}

/// The record of one wait, with the events of its begin and its end.
struct RecordedWait<'a> {
    world: &'a World,
    recorder: WaitRecorder<'a>,
}

impl<'a> RecordedWait<'a> {
    const fn new(world: &'a World, recorder: WaitRecorder<'a>) -> Self {
        Self { world, recorder }
    }

    #[cold]
    fn renew(&mut self, mut wait: Wait, turns: u64) {
        wait.caller = wait.caller.or_else(|| self.world.caller_name());
        let unexpected = self.world.tell_observers(wait.peer);
        if self.recorder.renew(wait, turns, &unexpected) {
            self.world.note_wait(EventKind::WaitBegan, wait);
        }
    }
}

impl Drop for RecordedWait<'_> {
    fn drop(&mut self) {
        if self.recorder.has_written() {
            self.world.note_wait(EventKind::WaitEnded, Wait::new(Call::Request));
        }
    }
}

/// The wait record of a loop that makes progress itself.
pub struct LoopRecord<'a> {
    record: RecordedWait<'a>,
    turns: u64,
}

impl fmt::Debug for LoopRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopRecord").field("turns", &self.turns).finish_non_exhaustive()
    }
}

impl World {
    /// Sets the function that the program has called, for the record of waits.
    #[inline(always)]
    pub(crate) fn set_caller(&self, name: fn() -> &'static str) {
        self.caller.set(Some(name));
    }

    fn caller_name(&self) -> Option<ShortName> {
        ShortName::new(self.caller.get()?())
    }

    /// Makes progress for a call that does not wait. A program with only such calls learns of
    /// deaths here.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        self.poll_for(|| Wait::new(Call::Test))
    }

    /// Makes progress like [`World::poll`], for a call that does not wait for `what`.
    pub(crate) fn poll_for(&self, what: impl Fn() -> Wait) -> Result<(), Error> {
        self.progress_and_check(CallTimer::is_due, what, |wait| {
            let unexpected = self.tell_observers(wait.peer);
            self.record_place().write_once(wait, &unexpected);
        })
    }

    /// Makes progress like [`World::poll`], in a loop that waits for `what`. `record` lasts as long
    /// as that loop.
    pub(crate) fn poll_in_loop(
        &self,
        record: &mut LoopRecord<'_>,
        what: impl Fn() -> Wait,
    ) -> Result<(), Error> {
        record.turns += 1;
        let renew = |wait| record.record.renew(wait, record.turns);
        self.progress_and_check(CallTimer::is_due, what, renew)
    }

    /// Returns the record of a loop that waits by calls of [`World::poll_in_loop`].
    pub(crate) fn record_of_loop(&self) -> LoopRecord<'_> {
        LoopRecord { record: self.recorded_wait(), turns: 0 }
    }

    fn recorded_wait(&self) -> RecordedWait<'_> {
        RecordedWait::new(self, WaitRecorder::new(self.record_place()))
    }

    /// Returns the places in which this rank records its waits.
    pub(crate) fn record_place(&self) -> RecordPlace<'_> {
        RecordPlace::of(&self.map, self.rank)
    }

    /// Copies the engine's counters to the segment, and describes the messages that no receive has
    /// taken: those of the rank that is waited for first.
    pub(super) fn tell_observers(&self, awaited: Option<u32>) -> UnexpectedSummary {
        let engine = self.lock_progress();
        engine.publish_counts();
        engine.unexpected_summary(awaited)
    }

    /// Records an event of a wait, if events are recorded.
    fn note_wait(&self, kind: EventKind, wait: Wait) {
        // A tag and a context as the record has them, with the top bits for "any" and "none".
        let key = Key::new(wait.context.unwrap_or(0), wait.tag.unwrap_or(u32::MAX));
        let peer = wait.peer.unwrap_or(u32::MAX);
        self.lock_progress().note(kind, peer, key, wait.call as u64);
    }

    /// Makes progress. When it is time to look for ranks that have died (`is_due`), it calls
    /// `write` with what this rank waits for, and looks.
    pub(super) fn progress_and_check(
        &self,
        is_due: impl FnOnce(&mut CallTimer) -> bool,
        what: impl Fn() -> Wait,
        write: impl FnOnce(Wait),
    ) -> Result<(), Error> {
        self.with_baselines(Baselines::hurry);
        self.progress()?;
        self.check_if(is_due, what, write)
    }

    /// The second half of [`World::progress_and_check`].
    pub(super) fn check_if(
        &self,
        is_due: impl FnOnce(&mut CallTimer) -> bool,
        what: impl Fn() -> Wait,
        write: impl FnOnce(Wait),
    ) -> Result<(), Error> {
        let mut call_timer = self.call_timer.get();
        let due = is_due(&mut call_timer);
        self.call_timer.set(call_timer);
        if due {
            let wait = what();
            write(wait);
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

    /// Makes progress until `look` returns a value. That value comes by progress, by the end of a
    /// peer, or with a ring of the doorbell. `look` may make calls on this world. `what` describes
    /// the wait. It is called only when the wait takes long.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use strait::{Call, Wait};
    ///
    /// let world = &strait::World::in_process(1)?[0];
    /// let flag = AtomicBool::new(true);
    /// let look = || flag.load(Ordering::Acquire).then_some("the flag is set");
    /// assert_eq!(world.wait_until(|| Wait::new(Call::Request), look)?, "the flag is set");
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::OutOfMemory`] when no progress can be made.
    pub fn wait_until<T>(
        &self,
        what: impl Fn() -> Wait,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Error> {
        // A progress thread has nothing to do during this wait.
        let _guard = self.lock_progress();
        // Waits are often short, so the time of the last check outlives them.
        let mut backoff = Backoff::new(self.spin).checked_at(self.checked.get());
        let segment = self.segment();
        let mut inside = None;
        let mut record = self.recorded_wait();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if inside.is_none() && self.lock_progress().is_transferring() {
                inside = InsideMark::enter(&segment.rank_block(self.rank).liveness);
                if inside.is_some() {
                    // A partner may sleep because this rank was away. It moves from now on.
                    self.lock_progress().tell_partners();
                }
            }
            self.with_baselines(Baselines::hurry);
            let next = match self.progress()? {
                true if backoff.moved() => Next::CheckLiveness,
                true => Next::Poll,
                false => backoff.pause(),
            };
            match next {
                Next::Poll => {}
                Next::CheckLiveness => {
                    let wait = what();
                    record.renew(wait, backoff.polls());
                    self.watch_over_peer_of(wait);
                    if !self.look_for_the_gone()? {
                        backoff.check_next();
                        std::thread::yield_now();
                    }
                    self.checked.set(backoff.checked());
                }
                Next::Sleep if self.is_kept_awake() => {}
                Next::Sleep => match &self.idle {
                    Some(idle) => idle(),
                    None => {
                        if let Some(found) = self.sleep(&mut backoff, &mut look)? {
                            return Ok(found);
                        }
                    }
                },
            }
        }
    }

    /// Checks everything once more and then sleeps once. Returns what `look` found in that check.
    fn sleep<T>(
        &self,
        backoff: &mut Backoff,
        look: &mut impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let place = self.engine.place();
        let bell = place.bell();
        let wakeup_source =
            self.lock_progress().context().arm_wakeups() && !self.is_written_silently();
        let longest = place.sleep.prepare(bell.get());
        let found = look();
        let moved = if found.is_some() { Ok(true) } else { self.progress() };
        if matches!(moved, Ok(false)) {
            let time = (!wakeup_source).then(|| backoff.sleep_time());
            place.sleep.wait(bell.get(), time.map_or(longest, |time| time.min(longest)));
            backoff.read_clock_next();
        }
        bell.get().rise();
        if moved? && found.is_none() {
            backoff.reset();
        }
        Ok(found)
    }

    /// Waits for an operation, and ends its claim on its buffer in any case.
    pub(crate) fn wait(&self, id: RequestId) -> Result<Outcome, Error> {
        if let Some(status) = self.wait_for_lines(id) {
            return Ok(Ok(status));
        }
        let what = || self.lock_progress().wait_of(id);
        self.wait_until_over(id, what, || None)
    }

    /// Waits until an operation is over, or `loss` returns why no end of it is awaited any longer.
    /// Ends the operation's claim on its buffer in any case.
    pub(crate) fn wait_until_over(
        &self,
        id: RequestId,
        what: impl Fn() -> Wait,
        loss: impl Fn() -> Option<Fault>,
    ) -> Result<Outcome, Error> {
        // After its outcome was taken, an operation has no number. The progress thread may have
        // started another one that has the same number now.
        let mut is_over = false;
        let waited = self.wait_until(what, || {
            // The order matters: the outcome of an operation that ended before the loss counts.
            let lost = loss();
            if lost.is_some() {
                self.take_what_has_come();
            }
            let outcome = self.lock_progress().test(id);
            is_over = outcome.is_some();
            outcome.or(lost.map(Err))
        });
        if !is_over {
            self.settle(id);
        }
        waited
    }

    /// Takes the packets that have come, also if all peers have left since the last poll. Others
    /// may go on sending, so their number is limited.
    fn take_what_has_come(&self) {
        const POLLS: u32 = 1000;
        for _ in 0..POLLS {
            // The next poll meets an error again.
            if !matches!(self.progress(), Ok(true)) {
                return;
            }
        }
    }

    /// Ends an operation's claim on its buffer without its outcome. The operation has not ended.
    pub(crate) fn settle(&self, id: RequestId) {
        let what = || Wait { call: Call::Settle, ..self.lock_progress().wait_of(id) };
        self.settle_by(what, |engine| engine.detach(id).is_ok());
    }

    /// Waits until the peers have received all messages of this rank, or are gone. This rank
    /// leaves, so it discards messages that the peers still keep for it. It serves only messages of
    /// the peers' windows.
    pub(super) fn hand_over_all(&self) -> Result<(), Error> {
        let what = || self.lock_progress().wait_of_leaving();
        self.with_baselines(Baselines::press_all);
        self.wait_until(what, || {
            if self.with_baselines(|all| all.is_handed_over()) && self.lock_progress().is_flushed()
            {
                return Some(());
            }
            // The next poll meets a lack of memory again.
            let _ = self.lock_progress().discard_kept(is_of_windows);
            None
        })
    }

    /// Returns the outcome of a transfer on a window's lane, if it has ended.
    pub(crate) fn test_transfer(&self, id: TransferId) -> Option<Result<Status, Error>> {
        let (transfer, ended) = self.with_network(|network| network.take_ended(id))??;
        let WindowTransfer { rank, bytes, .. } = transfer;
        let status = Status { source: rank, tag: 0, bytes };
        Some(ended.map(|()| status).map_err(|error| self.lane_failure(rank, error)))
    }

    /// Waits until a transfer has ended. Ends it when no progress can be made.
    pub(crate) fn settle_transfer(&self, id: TransferId) {
        let what = || Wait::new(Call::WindowFlush);
        if self.wait_until(what, || self.test_transfer(id).map(drop)).is_err() {
            self.with_network(|network| network.abandon(id));
        }
    }

    /// Returns the outcome of a message for a window, if it has ended.
    pub(crate) fn test_moving(&self, id: RequestId) -> Option<Outcome> {
        let outcome = self.lock_progress().test(id)?;
        self.with_baselines(|all| all.forget(id));
        Some(outcome)
    }

    /// Waits until a message for a window has ended. Ends it when no progress can be made.
    pub(crate) fn settle_moving(&self, id: RequestId) {
        let what = || self.lock_progress().wait_of(id);
        if self.wait_until(what, || self.test_moving(id).map(drop)).is_err() {
            self.with_baselines(|all| all.forget(id));
            self.settle(id);
        }
    }

    /// Settles all operations of a scope, as [`World::settle`] does for one.
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

    /// Ends claims by `detach`, which may have to wait. A peer may be moving a piece of a large
    /// message. Without memory for a copy, the rest of a send must leave from where it is.
    fn settle_by(&self, what: impl Fn() -> Wait, detach: impl Fn(&mut ShmEngine) -> bool) {
        if self.wait_until(what, || detach(&mut self.lock_progress()).then_some(())).is_ok() {
            return;
        }
        // No progress can be made any more, and yet nothing may access the buffers from now on.
        let mut guard = self.lock_progress();
        let context = guard.context();
        context.resources.network.as_deref_mut().into_iter().for_each(Network::close_all);
        let segment = self.segment();
        let is_gone = |rank| segment.rank_block(rank).liveness.state() >= Life::Dead;
        while !context.engine.stop(is_gone) {
            context.resources.watch.check(&segment, self.rank);
            std::thread::yield_now();
        }
    }

    /// Tells the engine which ranks died or left since the last call. Returns false when some
    /// deaths could not be settled yet.
    pub(crate) fn look_for_the_gone(&self) -> Result<bool, Error> {
        self.lock_progress().round().detect_failures()
    }
}

#[cfg(test)]
mod tests;
