//! Active synchronisation: fence; post, start, complete, wait (MPI-4.1 §12.5.1 and §12.5.2).

use core::ops::BitOr;

use strait_core::layout::{Call, Wait};
use strait_core::progress::Fault;
use strait_core::rma::{Block, Pair, Record};
use strait_core::sync::{Step, finish_look, reached};

use super::{Window, WindowError, unless_gone};
use crate::Error;

/// Looks at the signals before everything else is looked at, too: longer than a line takes between far processors.
const LOOKS: u32 = 200;

/// What a caller promises of an epoch (MPI-4.1 §12.5.5). Several are joined by `|`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Assert(u8);

impl Assert {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `MPI_MODE_NOSTORE`: the part was not written by its owner's own stores since the last synchronisation.
    pub const NO_STORE: Self = Self(1);
    /// `MPI_MODE_NOPUT`: the part will not be written by puts and accumulates until the next synchronisation.
    pub const NO_PUT: Self = Self(2);
    /// `MPI_MODE_NOPRECEDE`: the fence ends no epoch with operations. All members say so, or none.
    pub const NO_PRECEDE: Self = Self(4);
    /// `MPI_MODE_NOSUCCEED`: no operations follow until the next fence. All members say so, or none.
    pub const NO_SUCCEED: Self = Self(8);
    /// `MPI_MODE_NOCHECK`: `post` was called before `start`, and both say so.
    pub const NO_CHECK: Self = Self(16);

    /// True when all of `other` is promised.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Assert {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The epochs of one member.
#[derive(Debug)]
pub(super) struct Epochs {
    pairs: Box<[Pair]>,
    /// The targets.
    access: Epoch,
    /// The origins that may not have completed: those behind them have been taken out.
    exposure: Epoch,
}

/// An epoch with some members, if it is open.
#[derive(Debug, Default)]
struct Epoch {
    open: bool,
    places: Vec<u32>,
}

impl Epoch {
    fn begin(&mut self, places: &[u32]) {
        self.open = true;
        self.places.clear();
        // Mostly one: a call of the C library's takes longer.
        places.iter().for_each(|place| self.places.push(*place));
    }

    /// Ends it. False: it was not open.
    fn end(&mut self) -> bool {
        core::mem::replace(&mut self.open, false)
    }
}

impl Epochs {
    pub(super) fn new(members: u32) -> Self {
        let pairs = (0..members).map(|_| Pair::default()).collect();
        Self { pairs, access: Epoch::default(), exposure: Epoch::default() }
    }
}

/// What one member tells another.
#[derive(Clone, Copy, Debug)]
enum Signal {
    /// Its part may be reached.
    Post,
    /// It has reached the other's part.
    Completion,
}

impl Window<'_> {
    /// Ends one epoch and begins the next, for all members: what was done in any part before is found there after.
    ///
    /// With [`Assert::NO_PRECEDE`] and [`Assert::NO_SUCCEED`] both there is nothing to do; with the first alone nothing is waited for
    /// but the members. Other promises save nothing here.
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
        if !promise.has(Assert::NO_PRECEDE) {
            // No full fence, as in a flush: what a member did on the node comes before its barrier, and that before what others do.
            self.flush_parts()?;
        }
        reached(Step::WindowFenced);
        self.group.barrier()
    }

    /// Exposes this rank's part to `origins`, until [`Window::wait`]. Does not wait.
    ///
    /// # Errors
    ///
    /// [`WindowError::EpochOpen`], [`WindowError::Target`]; [`WindowError::Device`] when an origin cannot be told.
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
                self.signal(Signal::Post, origin, number)?;
                reached(Step::WindowPosted);
            }
        }
        epochs.exposure.begin(origins);
        Ok(())
    }

    /// Begins to access the parts of `targets`, until [`Window::complete`]. Does not wait: the first operation to a target waits
    /// until that has posted.
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
        reached(Step::WindowStarted);
        Ok(())
    }

    /// Ends the access epoch: its operations are done here, and at the targets before those hear of it. Does not wait for
    /// targets to which nothing was done.
    ///
    /// # Errors
    ///
    /// [`WindowError::NoEpoch`]; [`WindowError::Device`] when a target cannot be told.
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
            // Nothing is joined where nothing failed: results are long.
            if let Err(error) = self.complete_at(target, number) {
                ended = ended.and(Err(error));
            }
            reached(Step::WindowCompleted);
        }
        ended
    }

    /// Ends the access to one target's part.
    #[inline(always)]
    fn complete_at(&self, target: u32, number: u64) -> Result<(), Error> {
        let part = &self.parts[target as usize];
        part.awaited.set(false);
        if !part.completes_later {
            return self.signal(Signal::Completion, target, number);
        }
        // A signal by the device comes behind what the device does; no signal comes behind what the handler does, and one by the
        // processor not behind what the device does on the node.
        let done = match part.block {
            Some(_) => self.flush_far(part),
            None => self.await_all_errands(part),
        };
        let done = done.and_then(|()| self.flush_blocks(part));
        unless_gone(done).and(self.signal(Signal::Completion, target, number))
    }

    /// Raises a signal of another member's. To one that is gone nothing is said.
    #[inline(always)]
    fn signal(&self, signal: Signal, member: u32, number: u64) -> Result<(), Error> {
        let (part, place) = (&self.parts[member as usize], self.group.place());
        let (Some(block), false) = (&part.block, part.goes_by_messages()) else {
            return self.signal_far(signal, member, number);
        };
        match signal {
            Signal::Post => block.posts(place).raise(number),
            Signal::Completion => block.completions(place).raise(number),
        }
        self.world.wake_sleepers([part.rank].into_iter());
        Ok(())
    }

    /// As [`Window::signal`], by the device or by a message.
    #[inline(never)]
    fn signal_far(&self, signal: Signal, member: u32, number: u64) -> Result<(), Error> {
        let (part, place) = (&self.parts[member as usize], self.group.place());
        if part.goes_by_messages() {
            let record = match signal {
                Signal::Post => Record::Posted { number },
                Signal::Completion => Record::Completed { number },
            };
            return self.tell(member, record);
        }
        let Some(far) = &part.far else { return Ok(()) };
        let offset = match signal {
            Signal::Post => Block::post_offset(place),
            Signal::Completion => Block::completion_offset(self.parts.len() as u32, place),
        };
        unless_gone(self.write_word(far, far.block.after(offset), number))
    }

    /// Ends the exposure epoch: waits until all origins have completed.
    ///
    /// # Errors
    ///
    /// [`WindowError::NoEpoch`]; [`Error::Fault`] when an origin died or left without completing. The epoch has ended then,
    /// too.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.5.2, `MPI_WIN_WAIT`.
    pub fn wait(&self) -> Result<(), Error> {
        reached(Step::WindowWaiting);
        for _ in 0..LOOKS.min(self.world.spin().looks()) {
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
        self.epochs.borrow_mut().exposure.end();
        ended
    }

    /// As [`Window::wait`], without waiting: true when the exposure epoch has ended.
    ///
    /// # Errors
    ///
    /// As [`Window::wait`].
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
        self.epochs.borrow_mut().exposure.end();
        Err(fault.into())
    }

    /// Takes out of the exposure epoch, from its end, who has completed, and says whether all have, which ends it.
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
        Ok(true)
    }

    /// What the end of the exposure epoch waits for: an origin that has not completed.
    fn exposure_wait(&self) -> Wait {
        let Epochs { exposure, .. } = &*self.epochs.borrow();
        let rank = |place: &u32| self.parts[*place as usize].rank;
        Wait { peer: exposure.places.last().map(rank), ..Wait::new(Call::WindowWait) }
    }

    /// Why an origin of the exposure epoch will not complete any more, if so.
    fn loss_of_origin(&self) -> Option<Fault> {
        let Epochs { pairs, exposure, .. } = &*self.epochs.borrow();
        exposure.places.iter().find_map(|&origin| {
            // In this order: what an origin did comes before its end.
            let loss = self.loss_of(origin)?;
            let completed = pairs[origin as usize].is_completed(self.block.completions(origin));
            (!completed).then_some(loss)
        })
    }

    pub(super) fn loss_of(&self, place: u32) -> Option<Fault> {
        let rank = self.parts[place as usize].rank;
        self.world.turn().gone(rank).map(|how| how.fault(rank))
    }

    /// Waits for the target's lock, or until it has posted for the access epoch.
    #[cold]
    #[inline(never)]
    pub(super) fn await_access(&self, target: u32) -> Result<(), Error> {
        if self.await_lock(target)? {
            return Ok(());
        }
        let pair = self.epochs.borrow().pairs[target as usize];
        let posts = self.block.posts(target);
        let mut posted = false;
        for _ in 0..LOOKS.min(self.world.spin().looks()) {
            posted = pair.is_posted(posts);
            if posted {
                break;
            }
            finish_look();
        }
        if !posted {
            let what = || Wait::on(Call::WindowStart, self.parts[target as usize].rank);
            self.world.wait_until(what, || {
                let loss = self.loss_of(target);
                if pair.is_posted(posts) { Some(Ok(())) } else { loss.map(Err) }
            })??;
        }
        self.parts[target as usize].awaited.set(false);
        Ok(())
    }
}
