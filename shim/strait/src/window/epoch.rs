//! Active synchronisation: fence; post, start, complete, wait (MPI-4.1 §12.5.1 and §12.5.2).

use strait_core::engine::Fault;
use strait_core::layout::{Call, EpochKind, RankSet, Wait};
use strait_core::rma::{Record, WindowBlock};
use strait_core::sync::{Step, finish_look, reached};

use super::Window;
use super::epochs::{Assert, Epochs};
use crate::error::unless_gone;
use crate::{Error, WindowError};

/// A signal from one member to another.
#[derive(Clone, Copy, Debug)]
enum EpochSignal {
    /// The sender's part may be accessed.
    Post,
    /// The sender has completed its accesses to the receiver's part.
    Completion,
}

impl Window<'_> {
    /// Ends one epoch and begins the next, for all members. Every operation before the fence is
    /// visible after it.
    ///
    /// With both [`Assert::NO_PRECEDE`] and [`Assert::NO_SUCCEED`], the call does nothing. With
    /// [`Assert::NO_PRECEDE`] alone, it waits only for the members. Other promises save nothing
    /// here.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.fence(Assert::NO_PRECEDE)?;
    /// window.put(&[1.5], 1 - world.rank(), 0)?;
    /// window.fence(Assert::NO_SUCCEED)?;
    /// assert_eq!(window.local().load::<f64>(0)?, 1.5);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when a member died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.1, `MPI_WIN_FENCE`.
    #[inline]
    pub fn fence(&self, promise: Assert) -> Result<(), Error> {
        if promise.has(Assert::NO_PRECEDE | Assert::NO_SUCCEED) {
            return Ok(());
        }
        if self.records_events {
            return self.fence_with_events(promise);
        }
        self.fence_members(promise)
    }

    #[inline(always)]
    fn fence_members(&self, promise: Assert) -> Result<(), Error> {
        if !promise.has(Assert::NO_PRECEDE) {
            // A full memory fence is not needed here. A member's accesses on the node come before
            // its barrier, and the barrier comes before later accesses of others.
            self.flush_parts()?;
        }
        reached(Step::WindowFenced);
        self.group.barrier()
    }

    #[cold]
    #[inline(never)]
    fn fence_with_events(&self, promise: Assert) -> Result<(), Error> {
        self.fence_members(promise)?;
        if !promise.has(Assert::NO_PRECEDE) {
            self.note_epoch_ended(EpochKind::Fence, &[]);
        }
        if !promise.has(Assert::NO_SUCCEED) {
            self.note_epoch_began(EpochKind::Fence, &[]);
        }
        Ok(())
    }

    /// Exposes this rank's part to `origins`, until [`Window::wait`]. Does not wait.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// if world.rank() == 0 {
    ///     window.start(&[1], Assert::NONE)?;
    ///     window.put(&[1.5], 1, 0)?;
    ///     window.complete()?;
    /// } else {
    ///     window.post(&[0], Assert::NONE)?;
    ///     window.wait()?;
    ///     assert_eq!(window.local().load::<f64>(0)?, 1.5);
    /// }
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::EpochOpen`], [`WindowError::Target`]; [`WindowError::Device`] when the signal
    /// cannot be sent to an origin.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.2, `MPI_WIN_POST`.
    pub fn post(&self, origins: &[u32], promise: Assert) -> Result<(), Error> {
        let epochs = &mut *self.epochs.borrow_mut();
        if epochs.exposure.open {
            return Err(WindowError::EpochOpen { call: "post" }.into());
        }
        origins.iter().try_for_each(|origin| self.part(*origin).map(drop))?;
        for &origin in origins {
            let number = epochs.pairs[origin as usize].post();
            if !promise.has(Assert::NO_CHECK) {
                self.signal(EpochSignal::Post, origin, number)?;
                reached(Step::WindowPosted);
            }
        }
        epochs.exposure.begin(origins);
        self.note_epoch_began(EpochKind::Exposure, origins);
        Ok(())
    }

    /// Begins to access the parts of `targets`, until [`Window::complete`]. Does not wait: the
    /// first operation to a target waits until that target has posted.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// if world.rank() == 0 {
    ///     window.start(&[1], Assert::NONE)?;
    ///     window.put(&[1.5], 1, 0)?;
    ///     window.complete()?;
    /// } else {
    ///     window.post(&[0], Assert::NONE)?;
    ///     window.wait()?;
    ///     assert_eq!(window.local().load::<f64>(0)?, 1.5);
    /// }
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::EpochOpen`], [`WindowError::Target`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.2, `MPI_WIN_START`.
    pub fn start(&self, targets: &[u32], promise: Assert) -> Result<(), Error> {
        let epochs = &mut *self.epochs.borrow_mut();
        if epochs.access.open {
            return Err(WindowError::EpochOpen { call: "start" }.into());
        }
        targets.iter().try_for_each(|target| self.part(*target).map(drop))?;
        for &target in targets {
            let part = &self.parts[target as usize];
            epochs.pairs[target as usize].start();
            part.awaited.set(!promise.has(Assert::NO_CHECK));
            if let Some(block) = &part.block {
                block.completions(self.group.place()).prepare();
            }
        }
        epochs.access.begin(targets);
        self.note_epoch_began(EpochKind::Access, targets);
        reached(Step::WindowStarted);
        Ok(())
    }

    /// Ends the access epoch. Its operations are complete at this rank, and at the targets before
    /// they get the signal. Does not wait for targets without operations.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// if world.rank() == 0 {
    ///     window.start(&[1], Assert::NONE)?;
    ///     window.put(&[1.5], 1, 0)?;
    ///     window.complete()?;
    /// } else {
    ///     window.post(&[0], Assert::NONE)?;
    ///     window.wait()?;
    ///     assert_eq!(window.local().load::<f64>(0)?, 1.5);
    /// }
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::NoEpoch`]; [`WindowError::Device`] when the signal cannot be sent to a
    /// target.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.2, `MPI_WIN_COMPLETE`.
    pub fn complete(&self) -> Result<(), Error> {
        let epochs = &mut *self.epochs.borrow_mut();
        if !epochs.access.end() {
            return Err(WindowError::NoEpoch { call: "complete" }.into());
        }
        let mut ended = Ok(());
        for &target in &epochs.access.places {
            let number = epochs.pairs[target as usize].complete();
            // Results are long, so they are joined only after a failure.
            if let Err(error) = self.complete_at(target, number) {
                ended = ended.and(Err(error));
            }
            reached(Step::WindowCompleted);
        }
        self.note_epoch_ended(EpochKind::Access, &[]);
        ended
    }

    /// Ends the access epoch at one target.
    #[inline(always)]
    fn complete_at(&self, target: u32, number: u64) -> Result<(), Error> {
        let part = &self.parts[target as usize];
        part.awaited.set(false);
        if !part.completes_later {
            return self.signal(EpochSignal::Completion, target, number);
        }
        // A signal by the device follows the device's earlier requests. No signal follows the
        // handler's work, and a signal by the processor does not follow the device's work on the
        // node.
        let done = match part.block {
            Some(_) => self.flush_remote(part),
            None => self.await_active_messages(part),
        };
        let done = done.and_then(|()| self.flush_blocks(part));
        let signalled = unless_gone(done).and(self.signal(EpochSignal::Completion, target, number));
        // The signal does not wait for what the caller's memory waits for.
        signalled.and(unless_gone(self.complete_started(part)))
    }

    /// Raises a signal at another member. Sends nothing to a member that is gone.
    #[inline(always)]
    fn signal(&self, signal: EpochSignal, member: u32, number: u64) -> Result<(), Error> {
        let (part, place) = (&self.parts[member as usize], self.group.place());
        let (Some(block), false) = (&part.block, part.goes_by_messages()) else {
            return self.signal_remote(signal, member, number);
        };
        match signal {
            EpochSignal::Post => block.posts(place).raise(number),
            EpochSignal::Completion => block.completions(place).raise(number),
        }
        self.world.wake_sleepers([part.rank].into_iter());
        Ok(())
    }

    /// Raises a signal at another member, by the device or by a message.
    #[inline(never)]
    fn signal_remote(&self, signal: EpochSignal, member: u32, number: u64) -> Result<(), Error> {
        let (part, place) = (&self.parts[member as usize], self.group.place());
        if part.goes_by_messages() {
            let record = match signal {
                EpochSignal::Post => Record::Posted { number },
                EpochSignal::Completion => Record::Completed { number },
            };
            return self.tell(member, record);
        }
        let Some(remote) = &part.remote else { return Ok(()) };
        let offset = match signal {
            EpochSignal::Post => WindowBlock::post_offset(place),
            EpochSignal::Completion => {
                WindowBlock::completion_offset(self.parts.len() as u32, place)
            }
        };
        unless_gone(self.write_word(remote, remote.block.after(offset), number))
    }

    /// Ends the exposure epoch, after all origins have completed.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// if world.rank() == 0 {
    ///     window.start(&[1], Assert::NONE)?;
    ///     window.put(&[1.5], 1, 0)?;
    ///     window.complete()?;
    /// } else {
    ///     window.post(&[0], Assert::NONE)?;
    ///     window.wait()?;
    ///     assert_eq!(window.local().load::<f64>(0)?, 1.5);
    /// }
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`WindowError::NoEpoch`]; [`Error::Fault`] when an origin died or left without completing.
    /// The epoch has then ended too.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.2, `MPI_WIN_WAIT`.
    pub fn wait(&self) -> Result<(), Error> {
        reached(Step::WindowWaiting);
        for _ in 0..self.world.spin().short_polls() {
            if self.look_for_completions()? {
                return Ok(());
            }
            finish_look();
        }
        let what = || self.exposure_wait();
        let waited = self.world.wait_until(what, || match self.look_for_completions() {
            Ok(false) => self.loss_of_origin().map(|fault| Err(fault.into())),
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error.into())),
        });
        let ended = waited.and_then(|ended| ended);
        self.end_exposure();
        ended
    }

    /// Checks without waiting whether all origins have completed, and returns true when the
    /// exposure epoch has ended.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// if world.rank() == 0 {
    ///     window.start(&[1], Assert::NONE)?;
    ///     window.put(&[1.5], 1, 0)?;
    ///     window.complete()?;
    /// } else {
    ///     window.post(&[0], Assert::NONE)?;
    ///     while !window.test()? {
    ///         // Compute something else.
    ///     }
    /// }
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::wait`] does.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.2, `MPI_WIN_TEST`.
    pub fn test(&self) -> Result<bool, Error> {
        if self.look_for_completions()? {
            return Ok(true);
        }
        self.world.poll_for(|| self.exposure_wait())?;
        if self.look_for_completions()? {
            return Ok(true);
        }
        let Some(fault) = self.loss_of_origin() else { return Ok(false) };
        self.end_exposure();
        Err(fault.into())
    }

    /// Ends the exposure epoch, if it has not ended.
    fn end_exposure(&self) {
        if self.epochs.borrow_mut().exposure.end() {
            self.note_epoch_ended(EpochKind::Exposure, &[]);
        }
    }

    /// Removes origins that have completed from the end of the exposure epoch. Returns true when
    /// all have completed, which ends the epoch.
    #[inline(always)]
    fn look_for_completions(&self) -> Result<bool, WindowError> {
        let Epochs { pairs, exposure, .. } = &mut *self.epochs.borrow_mut();
        if !exposure.open {
            return Err(WindowError::NoEpoch { call: "wait" });
        }
        while let Some(&origin) = exposure.places.last() {
            if !pairs[origin as usize].is_completed(self.block.completions(origin)) {
                return Ok(false);
            }
            exposure.places.pop();
        }
        exposure.open = false;
        self.note_epoch_ended(EpochKind::Exposure, &[]);
        Ok(true)
    }

    /// Describes a wait in a call on this window.
    pub(super) fn wait_in(&self, call: Call) -> Wait {
        Wait { window: self.group.window(), ..Wait::new(call) }
    }

    /// Describes the wait for the end of the exposure epoch: for an origin that has not completed.
    fn exposure_wait(&self) -> Wait {
        let Epochs { exposure, .. } = &*self.epochs.borrow();
        let rank = |place: &u32| self.parts[*place as usize].rank;
        let others = RankSet::of(exposure.places.iter().map(rank));
        let peer = exposure.places.last().map(rank);
        Wait { peer, others, ..self.wait_in(Call::WindowWait) }
    }

    /// Returns the loss of an origin of the exposure epoch that will not complete any more.
    fn loss_of_origin(&self) -> Option<Fault> {
        let Epochs { pairs, exposure, .. } = &*self.epochs.borrow();
        exposure.places.iter().find_map(|&origin| {
            // The order matters: the origin's completion comes before its end.
            let loss = self.loss_of(origin)?;
            let completed = pairs[origin as usize].is_completed(self.block.completions(origin));
            (!completed).then_some(loss)
        })
    }

    pub(super) fn loss_of(&self, place: u32) -> Option<Fault> {
        let rank = self.parts[place as usize].rank;
        self.world.lock_progress().gone(rank).map(|how| how.fault(rank))
    }

    /// Waits for the target's lock, or until the target has posted for the access epoch.
    #[cold]
    #[inline(never)]
    pub(super) fn await_access(&self, target: u32) -> Result<(), Error> {
        if self.await_lock(target)? {
            return Ok(());
        }
        let pair = self.epochs.borrow().pairs[target as usize];
        let posts = self.block.posts(target);
        let mut posted = false;
        for _ in 0..self.world.spin().short_polls() {
            posted = pair.is_posted(posts);
            if posted {
                break;
            }
            finish_look();
        }
        if !posted {
            let peer = Some(self.parts[target as usize].rank);
            let what = || Wait { peer, ..self.wait_in(Call::WindowStart) };
            self.world.wait_until(what, || {
                let loss = self.loss_of(target);
                if pair.is_posted(posts) { Some(Ok(())) } else { loss.map(Err) }
            })??;
        }
        self.parts[target as usize].awaited.set(false);
        Ok(())
    }
}
