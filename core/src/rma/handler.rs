//! The handler of a member: carries out the errands of its origins (`[OneSided04]` §3.3.2).
//!
//! It goes on whenever its owner makes progress, with one errand at a time, of each origin in turn. Who takes the locks of the
//! member's memory is one question for the whole window, since the atomics of devices and of processors are not atomic towards each
//! other: devices do, by a lane of the member to itself, or the processors of its node, where a device has no atomics.
//!
//! Absent on purpose: waiting, and the receives for the messages that say that an errand has come.

use core::ops::DerefMut;
use core::ptr::NonNull;

use super::{Block, Change, Errand, Lane, LaneError, STRIPE, TRAY, TRAYS};
use crate::hca::{Hca, Operation, Piece, Remote, WorkError};
use crate::layout::Corrupt;
use crate::progress::Part;
use crate::sync::{Step, reached};

/// Lanes, by what their owner calls them.
pub trait Lanes {
    /// A name.
    type Name: Copy + Eq;
    /// The device of all of them.
    type Device: Hca;

    /// Has `act` ask something on a lane.
    ///
    /// # Errors
    ///
    /// Those of `act`; [`WorkError::Flushed`] when there is no such lane any more.
    fn on<R>(
        &mut self,
        lane: Self::Name,
        act: impl FnOnce(&mut Lane, &mut Self::Device) -> Result<R, LaneError>,
    ) -> Result<R, LaneError>;

    /// Ends a lane: its other side finds out.
    fn break_lane(&mut self, lane: Self::Name);
}

/// What a handler works with.
#[derive(Clone, Copy, Debug)]
pub struct Station<N> {
    /// The member's rank, by which it holds locks.
    pub rank: u32,
    /// [`TRAYS`] trays for each member, registered.
    pub trays: NonNull<u8>,
    /// Words for what the handler asks devices for, registered: two for itself, and one for each member.
    pub words: NonNull<u64>,
    /// The local key of trays and words.
    pub key: u32,
    /// The locks of the member's memory.
    pub stripes: Stripes<N>,
}

/// Who takes the locks of a member's memory.
#[derive(Clone, Copy, Debug)]
pub enum Stripes<N> {
    /// Devices.
    Devices {
        /// Where this member's device finds its block.
        block: Remote,
        /// The lane of this member to itself.
        own: N,
    },
    /// The processors of the member's node.
    Processors(Block),
}

/// An origin, as a handler knows it.
#[derive(Clone, Copy, Debug)]
pub struct Guest<N> {
    /// The lane to it.
    pub lane: N,
    /// Where it wants to have what was there.
    pub answers: Remote,
    /// Its word for acknowledgements of this member.
    pub word: Remote,
    /// Errands that have come, and that are done.
    come: u64,
    done: u64,
    /// The last request to it. What that writes stays as it is until it is done.
    asked: u64,
}

impl<N> Guest<N> {
    /// An origin that has asked for nothing yet.
    #[must_use]
    pub const fn new(lane: N, answers: Remote, word: Remote) -> Self {
        Self { lane, answers, word, come: 0, done: 0, asked: 0 }
    }
}

/// How far a handler is with an errand.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It is about to ask for the lock, in which it expects to find this.
    Asking { expected: u64 },
    /// It has asked its device for it.
    Locking { expected: u64, request: u64 },
    /// The numbers are combined, and the device is to give the lock back.
    Unlocking,
    /// What was there is to go to the origin, if that wants to know it.
    Giving,
    /// The origin is to be told.
    Telling,
    /// The origin has been told.
    Told,
}

/// An errand under way.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Whose it is.
    place: usize,
    errand: Errand,
    /// Where it is done.
    ground: Part,
    stage: Stage,
}

/// Why an errand is not begun.
enum Refusal {
    Corrupt(Corrupt),
    /// The memory that it names is there no more.
    Stale,
}

/// The handler of one member of a window. Its guests are in the order of their places.
#[derive(Debug)]
pub struct Handler<N, G> {
    station: Station<N>,
    guests: G,
    job: Option<Job>,
    /// Whose turn it was last.
    last: usize,
}

impl<N: Copy + Eq, G: DerefMut<Target = [Guest<N>]>> Handler<N, G> {
    /// A handler to which nothing has come yet.
    ///
    /// # Safety
    ///
    /// What the station names is valid as long as the handler is, and trays and words are its own, but for devices that fill trays.
    #[must_use]
    pub const unsafe fn new(station: Station<N>, guests: G) -> Self {
        Self { station, guests, job: None, last: 0 }
    }

    /// Most errands that are on their way to it at a time: there is a receive for each.
    #[must_use]
    pub fn room(&self) -> usize {
        self.guests.len() * TRAYS
    }

    /// An errand has come on a lane. False: not from a guest.
    pub fn handle(&mut self, lane: N) -> bool {
        let guest = self.guests.iter_mut().find(|guest| guest.lane == lane);
        guest.is_some_and(|guest| {
            guest.come += 1;
            true
        })
    }

    /// Goes on with what origins asked for. Says whether anything moved. `ground` is the memory that [`Errand::within`] names, and
    /// `is_gone` says of ranks who will not give a lock back.
    ///
    /// # Safety
    ///
    /// The memory is valid, and reached as [`Errand::carry_out`] says.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: what has come is no errand.
    pub unsafe fn serve<L: Lanes<Name = N>>(
        &mut self,
        lanes: &mut L,
        ground: impl Fn(u64) -> Option<Part>,
        is_gone: impl Fn(u32) -> bool,
    ) -> Result<bool, Corrupt> {
        let mut moved = false;
        loop {
            let mut job = match self.job.take() {
                Some(job) => job,
                None => match self.waiting() {
                    None => return Ok(moved),
                    Some(place) => match self.begin(place, &ground) {
                        Ok(job) => job,
                        Err(Refusal::Corrupt(corrupt)) => return Err(corrupt),
                        Err(Refusal::Stale) => {
                            lanes.break_lane(self.guests[place].lane);
                            continue;
                        }
                    },
                },
            };
            // SAFETY: by the contract.
            match unsafe { self.step(lanes, &job, &ground, &is_gone) } {
                Ok(Some(Stage::Told)) => self.guests[job.place].done += 1,
                Ok(Some(stage)) => {
                    job.stage = stage;
                    self.job = Some(job);
                }
                Ok(None) => {
                    self.job = Some(job);
                    return Ok(moved);
                }
                // It asks for nothing any more.
                Err(_) => self.forget(job.place),
            }
            moved = true;
        }
    }

    /// Who is next of those whose errands have come.
    fn waiting(&self) -> Option<usize> {
        let count = self.guests.len();
        let mut by_turns = (0..count).map(|more| (self.last + 1 + more) % count);
        by_turns.find(|place| self.guests[*place].come > self.guests[*place].done)
    }

    /// Begins the next errand of the guest in `place`.
    fn begin(
        &mut self,
        place: usize,
        ground: impl Fn(u64) -> Option<Part>,
    ) -> Result<Job, Refusal> {
        self.last = place;
        let tray = self.tray(place);
        // SAFETY: the origin has written the tray, and leaves it alone until it is told that the errand is done.
        let begun =
            ground(unsafe { Errand::within(tray) }).ok_or(Refusal::Stale).and_then(|ground| {
                // SAFETY: as above.
                let errand = unsafe { Errand::read(tray, ground) }.map_err(Refusal::Corrupt)?;
                Ok(Job { place, errand, ground, stage: Stage::Asking { expected: 0 } })
            });
        if begun.is_err() {
            self.forget(place);
        }
        begun
    }

    /// Nothing more is done for the guest in `place`.
    fn forget(&mut self, place: usize) {
        self.guests[place].done = self.guests[place].come;
    }

    /// The next step of an errand. `None`: not now.
    ///
    /// # Safety
    ///
    /// As for [`Handler::serve`].
    unsafe fn step<L: Lanes<Name = N>>(
        &mut self,
        lanes: &mut L,
        job: &Job,
        ground: impl Fn(u64) -> Option<Part>,
        is_gone: &impl Fn(u32) -> bool,
    ) -> Result<Option<Stage>, LaneError> {
        match (job.stage, self.station.stripes) {
            (Stage::Giving | Stage::Telling | Stage::Told, _) => self.answer(lanes, job),
            (_, Stripes::Devices { block, own }) => {
                let lock = block.after(Block::stripe_offset(job.errand.offset));
                // SAFETY: by the contract.
                let stage = unsafe { self.combine_far(lanes, job, (own, lock), is_gone) };
                stage.inspect_err(|_| {
                    // Nobody can be served any more, and all shall know it.
                    self.guests.iter().for_each(|guest| lanes.break_lane(guest.lane));
                })
            }
            (_, Stripes::Processors(block)) => {
                // It may have been taken away while the lock was another's.
                if ground(job.errand.within).is_none_or(|now| !is_same(now, job.ground)) {
                    lanes.break_lane(self.guests[job.place].lane);
                    return Err(LaneError::Failed(WorkError::RemoteAccess));
                }
                // SAFETY: by the contract.
                Ok(unsafe { self.combine_near(job, &block, is_gone) }.then_some(Stage::Giving))
            }
        }
    }

    /// Takes the lock, combines, and gives it back. False: the lock is another's.
    ///
    /// # Safety
    ///
    /// As for [`Handler::serve`].
    unsafe fn combine_near(
        &self,
        job: &Job,
        block: &Block,
        is_gone: &impl Fn(u32) -> bool,
    ) -> bool {
        let (lock, rank) = (block.stripe(job.errand.offset), self.station.rank);
        let taken = lock.try_acquire(rank);
        if !taken.map_or_else(|holder| is_gone(holder) && lock.take_over(holder, rank), |()| true) {
            return false;
        }
        // SAFETY: by the contract.
        unsafe { self.carry_out(job) };
        lock.release(rank);
        true
    }

    /// The steps under a lock that devices take. `None`: not now.
    ///
    /// # Safety
    ///
    /// As for [`Handler::serve`].
    unsafe fn combine_far<L: Lanes<Name = N>>(
        &self,
        lanes: &mut L,
        job: &Job,
        (own, lock): (N, Remote),
        is_gone: &impl Fn(u32) -> bool,
    ) -> Result<Option<Stage>, LaneError> {
        let (holder, words) = (u64::from(self.station.rank) + 1, self.station.words);
        // What is found when the lock goes back is not asked for, and may come after what is found in the next one.
        let unread = words;
        // SAFETY: there are two.
        let read = unsafe { words.add(1) };
        let mut ask = |change: Change, found: NonNull<u64>| {
            let word = Piece { base: found.cast(), length: 8, key: self.station.key };
            let operation = change.of(lock, word);
            // SAFETY: the word is the handler's, which reads what one request at a time has found.
            lanes.on(own, |lane, device| unsafe { lane.ask_aside(device, operation) })
        };
        match job.stage {
            Stage::Asking { expected } => {
                let asked = ask(Change::Swap { expected, desired: holder }, read)?;
                Ok(asked.map(|request| Stage::Locking { expected, request }))
            }
            Stage::Locking { expected, request } => {
                if !lanes.on(own, |lane, _| lane.is_done_aside(request))? {
                    return Ok(None);
                }
                // SAFETY: the device is done with the word.
                let found = unsafe { read.read() };
                if found == expected {
                    // SAFETY: by the contract.
                    unsafe { self.carry_out(job) };
                    return Ok(Some(Stage::Unlocking));
                }
                let rank = found.checked_sub(1).and_then(|rank| u32::try_from(rank).ok());
                let expected = if rank.is_none_or(is_gone) { found } else { 0 };
                Ok(Some(Stage::Asking { expected }))
            }
            _ => {
                let asked = ask(Change::Swap { expected: holder, desired: 0 }, unread)?;
                Ok(asked.map(|_| Stage::Giving))
            }
        }
    }

    /// What is done under the lock.
    ///
    /// # Safety
    ///
    /// As for [`Handler::serve`].
    unsafe fn carry_out(&self, job: &Job) {
        reached(Step::AccumulateLocked);
        // SAFETY: read for this memory, from this tray, which is the handler's until the origin is told.
        unsafe { job.errand.carry_out(job.ground, self.tray(job.place)) };
        reached(Step::AccumulateWritten);
    }

    /// The steps towards the origin. `None`: not now.
    fn answer<L: Lanes<Name = N>>(
        &mut self,
        lanes: &mut L,
        job: &Job,
    ) -> Result<Option<Stage>, LaneError> {
        let Station { key, words, .. } = self.station;
        let Guest { lane, answers, word, done, asked, .. } = self.guests[job.place];
        let (base, length, to, next) = if let Stage::Giving = job.stage {
            let Some(length) = job.errand.answer() else { return Ok(Some(Stage::Telling)) };
            // SAFETY: a tray is long enough.
            let base = unsafe { Errand::operands(self.tray(job.place)) };
            let to = answers.after(done as usize % TRAYS * STRIPE);
            (base, length as u32, to, Stage::Telling)
        } else {
            // When the origin has been told it may write the tray anew, from which something may be on its way; so may be the number
            // before.
            if !lanes.on(lane, |lane, _| lane.is_done_aside(asked))? {
                return Ok(None);
            }
            // SAFETY: there is one for each member.
            let number = unsafe { words.add(2 + job.place) };
            // SAFETY: the device is done with it.
            unsafe { number.write(done + 1) };
            (number.cast(), 8, word, Stage::Told)
        };
        let from = [Piece { base, length, key }];
        let operation = Operation::Write { from: &from, to };
        // SAFETY: trays and words are registered as long as the handler is there, and stay as they are until the request is done.
        let asked = lanes.on(lane, |lane, device| unsafe { lane.ask_aside(device, operation) })?;
        let Some(asked) = asked else { return Ok(None) };
        self.guests[job.place].asked = asked;
        Ok(Some(next))
    }

    /// The tray of the next errand of the guest in `place`.
    fn tray(&self, place: usize) -> NonNull<u8> {
        let slot = self.guests[place].done as usize % TRAYS;
        // SAFETY: there are so many trays.
        unsafe { self.station.trays.add((place * TRAYS + slot) * TRAY) }
    }
}

fn is_same(one: Part, other: Part) -> bool {
    (one.base, one.length) == (other.base, other.length)
}
