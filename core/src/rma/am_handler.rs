//! The handler of a member: it carries out the active messages of the member's origins
//! (`[OneSided04]` §3.3.2).
//!
//! It runs whenever its owner makes progress. It processes one message at a time, and takes the
//! origins in turn. For the whole window, either devices or processors take the locks of a member's
//! memory, because their atomics are not atomic towards each other. Devices take them through a
//! lane of the member to itself. The processors of the member's node take them if the device has no
//! atomics.
//!
//! Absent on purpose: waiting, and the receives for the messages that announce active messages.

use core::ops::DerefMut;
use core::ptr::NonNull;

use super::{
    ActiveMessage, AtomicOp, Lane, LaneError, OPERAND_BUFFER_BYTES, OPERAND_BUFFERS, STRIPE,
    WindowBlock,
};
use crate::buffer::Part;
use crate::hca::{Hca, Operation, RemoteAddress, Sge, WorkError};
use crate::sync::{Step, reached};
use crate::wire::Corrupt;

/// Lanes by name, as their owner assigns the names.
pub trait LaneAccess {
    /// The name of a lane.
    type Name: Copy + Eq;
    /// The device of all lanes.
    type Device: Hca;

    /// Lets `act` post requests on a lane.
    ///
    /// # Errors
    ///
    /// The errors of `act`, or [`WorkError::Flushed`] if the lane does not exist any more.
    fn on<R>(
        &mut self,
        lane: Self::Name,
        act: impl FnOnce(&mut Lane, &mut Self::Device) -> Result<R, LaneError>,
    ) -> Result<R, LaneError>;

    /// Breaks a lane. Its other side learns of it.
    fn break_lane(&mut self, lane: Self::Name);
}

/// The resources of a handler.
#[derive(Clone, Copy, Debug)]
pub struct Station<N> {
    /// The member's rank, under which the handler takes locks.
    pub rank: u32,
    /// The operand buffers, [`OPERAND_BUFFERS`] for each member, registered.
    pub operand_buffers: NonNull<u8>,
    /// Words for the handler's requests to devices, registered: two for itself and one for each
    /// member.
    pub words: NonNull<u64>,
    /// Local key of operand buffers and words.
    pub key: u32,
    /// The locks of the member's memory.
    pub stripes: Stripes<N>,
}

/// How the locks of a member's memory are taken.
#[derive(Clone, Copy, Debug)]
pub enum Stripes<N> {
    /// Devices take the locks.
    Devices {
        /// Address of the member's block for its device.
        block: RemoteAddress,
        /// The lane of this member to itself.
        own: N,
    },
    /// The processors of the member's node take the locks.
    Processors(WindowBlock),
}

/// A handler's record of one origin.
#[derive(Clone, Copy, Debug)]
pub struct AmOrigin<N> {
    /// The lane to the origin.
    pub lane: N,
    /// The origin's buffers for old values.
    pub answers: RemoteAddress,
    /// The origin's word for acknowledgements of this member.
    pub word: RemoteAddress,
    /// Number of active messages that have arrived, and number that are done.
    come: u64,
    done: u64,
    /// Number of the last request to the origin. The data that it writes stays unchanged until it
    /// is done.
    asked: u64,
}

impl<N> AmOrigin<N> {
    /// Creates the record of an origin that has sent nothing yet.
    #[must_use]
    pub const fn new(lane: N, answers: RemoteAddress, word: RemoteAddress) -> Self {
        Self { lane, answers, word, come: 0, done: 0, asked: 0 }
    }
}

/// The progress of a handler with an active message.
#[derive(Clone, Copy, Debug)]
enum AmStage {
    /// The handler is about to request the lock, in which it expects this value.
    Asking { expected: u64 },
    /// The handler has requested the lock from its device.
    Locking { expected: u64, request: u64 },
    /// The numbers are combined. The device must release the lock next.
    Unlocking,
    /// The old values must be sent to the origin, if it wants them.
    Giving,
    /// The acknowledgement must be sent to the origin.
    Telling,
    /// The acknowledgement has been posted.
    Told,
}

/// An active message in progress.
#[derive(Clone, Copy, Debug)]
struct ActiveAm {
    /// Place of its origin.
    place: usize,
    message: ActiveMessage,
    /// The memory that it changes.
    memory: Part,
    stage: AmStage,
}

/// The reason why an active message cannot begin.
enum AmRefusal {
    Corrupt(Corrupt),
    /// The memory that it names is not attached any more.
    Stale,
}

/// The handler of one member of a window. The records of its origins are in the order of their
/// places.
#[derive(Debug)]
pub struct AmHandler<N, G> {
    station: Station<N>,
    origins: G,
    job: Option<ActiveAm>,
    /// Place of the origin that was served last.
    last: usize,
}

impl<N: Copy + Eq, G: DerefMut<Target = [AmOrigin<N>]>> AmHandler<N, G> {
    /// Creates a handler to which no active message has come yet.
    ///
    /// # Safety
    ///
    /// The resources in `station` are valid as long as the handler exists. Only the handler
    /// accesses operand buffers and words, except for the devices that fill operand buffers.
    #[must_use]
    pub const unsafe fn new(station: Station<N>, guests: G) -> Self {
        Self { station, origins: guests, job: None, last: 0 }
    }

    /// Returns the largest number of active messages in transit to the handler. Each of them needs
    /// a receive.
    #[must_use]
    pub fn room(&self) -> usize {
        self.origins.len() * OPERAND_BUFFERS
    }

    /// Records that an active message has arrived on a lane. Returns false if the lane is not that
    /// of an origin.
    pub fn handle(&mut self, lane: N) -> bool {
        let origin = self.origins.iter_mut().find(|origin| origin.lane == lane);
        origin.is_some_and(|origin| {
            origin.come += 1;
            true
        })
    }

    /// Processes the active messages that have arrived. Returns true if anything moved.
    ///
    /// `memory` returns the region that [`ActiveMessage::within`] names. `is_gone` returns true for
    /// a rank that will never release a lock.
    ///
    /// # Safety
    ///
    /// That region is valid. Other accesses to it meet the contract of
    /// [`ActiveMessage::carry_out`].
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if an operand buffer holds no valid active message.
    pub unsafe fn serve<L: LaneAccess<Name = N>>(
        &mut self,
        lanes: &mut L,
        memory: impl Fn(u64) -> Option<Part>,
        is_gone: impl Fn(u32) -> bool,
    ) -> Result<bool, Corrupt> {
        let mut moved = false;
        loop {
            let mut job = match self.job.take() {
                Some(job) => job,
                None => match self.waiting() {
                    None => return Ok(moved),
                    Some(place) => match self.begin(place, &memory) {
                        Ok(job) => job,
                        Err(AmRefusal::Corrupt(corrupt)) => return Err(corrupt),
                        Err(AmRefusal::Stale) => {
                            lanes.break_lane(self.origins[place].lane);
                            continue;
                        }
                    },
                },
            };
            // SAFETY: the caller guarantees valid memory (contract of `serve`).
            match unsafe { self.step(lanes, &job, &memory, &is_gone) } {
                Ok(Some(AmStage::Told)) => self.origins[job.place].done += 1,
                Ok(Some(stage)) => {
                    job.stage = stage;
                    self.job = Some(job);
                }
                Ok(None) => {
                    self.job = Some(job);
                    return Ok(moved);
                }
                // The origin cannot be answered, so its messages are dropped.
                Err(_) => self.forget(job.place),
            }
            moved = true;
        }
    }

    /// Returns the place of the next origin with an active message that has arrived.
    fn waiting(&self) -> Option<usize> {
        let count = self.origins.len();
        let mut by_turns = (0..count).map(|more| (self.last + 1 + more) % count);
        by_turns.find(|place| self.origins[*place].come > self.origins[*place].done)
    }

    /// Begins the next active message of the origin in `place`.
    fn begin(
        &mut self,
        place: usize,
        memory: impl Fn(u64) -> Option<Part>,
    ) -> Result<ActiveAm, AmRefusal> {
        self.last = place;
        let operand_buffer = self.operand_buffer(place);
        // SAFETY: the origin has written the operand buffer, and does not touch it until it is
        // acknowledged.
        let begun = memory(unsafe { ActiveMessage::within(operand_buffer) })
            .ok_or(AmRefusal::Stale)
            .and_then(|memory| {
                // SAFETY: the origin does not touch the operand buffer until it is acknowledged.
                let active_message = unsafe { ActiveMessage::read(operand_buffer, memory) }
                    .map_err(AmRefusal::Corrupt)?;
                Ok(ActiveAm {
                    place,
                    message: active_message,
                    memory,
                    stage: AmStage::Asking { expected: 0 },
                })
            });
        if begun.is_err() {
            self.forget(place);
        }
        begun
    }

    /// Drops all active messages of the origin in `place`.
    fn forget(&mut self, place: usize) {
        self.origins[place].done = self.origins[place].come;
    }

    /// Performs the next step of an active message. Returns `None` if no step is possible now.
    ///
    /// # Safety
    ///
    /// The region that `memory` returns is valid, and other accesses to it meet the contract of
    /// [`ActiveMessage::carry_out`].
    unsafe fn step<L: LaneAccess<Name = N>>(
        &mut self,
        lanes: &mut L,
        job: &ActiveAm,
        memory: impl Fn(u64) -> Option<Part>,
        is_gone: &impl Fn(u32) -> bool,
    ) -> Result<Option<AmStage>, LaneError> {
        match (job.stage, self.station.stripes) {
            (AmStage::Giving | AmStage::Telling | AmStage::Told, _) => self.answer(lanes, job),
            (_, Stripes::Devices { block, own }) => {
                let lock = block.after(WindowBlock::stripe_offset(job.message.offset));
                // SAFETY: the caller guarantees valid memory (contract of `step`).
                let stage = unsafe { self.combine_by_device(lanes, job, (own, lock), is_gone) };
                stage.inspect_err(|_| {
                    // The handler can serve no origin any more, and tells all of them by breaking
                    // their lanes.
                    self.origins.iter().for_each(|origin| lanes.break_lane(origin.lane));
                })
            }
            (_, Stripes::Processors(block)) => {
                // The memory may have been detached while another rank held the lock.
                if memory(job.message.within).is_none_or(|now| !is_same(now, job.memory)) {
                    lanes.break_lane(self.origins[job.place].lane);
                    return Err(LaneError::Failed(WorkError::RemoteAccess));
                }
                // SAFETY: the caller guarantees valid memory (contract of `step`), and it is still
                // attached.
                let done = unsafe { self.combine_by_processor(job, &block, is_gone) };
                Ok(done.then_some(AmStage::Giving))
            }
        }
    }

    /// Takes the lock, combines the numbers and releases the lock. Returns false if another rank
    /// holds the lock.
    ///
    /// # Safety
    ///
    /// The memory of `job` is valid, and other accesses to it meet the contract of
    /// [`ActiveMessage::carry_out`].
    unsafe fn combine_by_processor(
        &self,
        job: &ActiveAm,
        block: &WindowBlock,
        is_gone: &impl Fn(u32) -> bool,
    ) -> bool {
        let (lock, rank) = (block.stripe(job.message.offset), self.station.rank);
        let taken = lock.try_acquire(rank);
        if !taken.map_or_else(|holder| is_gone(holder) && lock.take_over(holder, rank), |()| true) {
            return false;
        }
        // SAFETY: the caller guarantees valid memory (contract of `combine_by_processor`).
        unsafe { self.carry_out(job) };
        lock.release(rank);
        true
    }

    /// Performs a step under a lock that devices take. Returns `None` if no step is possible now.
    ///
    /// # Safety
    ///
    /// The memory of `job` is valid, and other accesses to it meet the contract of
    /// [`ActiveMessage::carry_out`].
    unsafe fn combine_by_device<L: LaneAccess<Name = N>>(
        &self,
        lanes: &mut L,
        job: &ActiveAm,
        (own, lock): (N, RemoteAddress),
        is_gone: &impl Fn(u32) -> bool,
    ) -> Result<Option<AmStage>, LaneError> {
        let (holder, words) = (u64::from(self.station.rank) + 1, self.station.words);
        // The value found at the release of a lock is not read. It may arrive after the value found
        // at the next request for the lock, so it has a word of its own.
        let unread = words;
        // SAFETY: the handler has two words of its own.
        let read = unsafe { words.add(1) };
        let mut ask = |change: AtomicOp, found: NonNull<u64>| {
            let word = Sge { base: found.cast(), length: 8, key: self.station.key };
            let operation = change.of(lock, word);
            // SAFETY: the word belongs to the handler, which reads it only after the request that
            // writes it is done.
            lanes.on(own, |lane, device| unsafe { lane.ask_aside(device, operation) })
        };
        match job.stage {
            AmStage::Asking { expected } => {
                let asked = ask(AtomicOp::Swap { expected, desired: holder }, read)?;
                Ok(asked.map(|request| AmStage::Locking { expected, request }))
            }
            AmStage::Locking { expected, request } => {
                if !lanes.on(own, |lane, _| lane.is_done_aside(request))? {
                    return Ok(None);
                }
                // SAFETY: the device has finished with the word.
                let found = unsafe { read.read() };
                if found == expected {
                    // SAFETY: the caller guarantees valid memory (contract of `combine_by_device`).
                    unsafe { self.carry_out(job) };
                    return Ok(Some(AmStage::Unlocking));
                }
                let rank = found.checked_sub(1).and_then(|rank| u32::try_from(rank).ok());
                let expected = if rank.is_none_or(is_gone) { found } else { 0 };
                Ok(Some(AmStage::Asking { expected }))
            }
            _ => {
                let asked = ask(AtomicOp::Swap { expected: holder, desired: 0 }, unread)?;
                Ok(asked.map(|_| AmStage::Giving))
            }
        }
    }

    /// Carries the message out, under the lock.
    ///
    /// # Safety
    ///
    /// The memory of `job` is valid, and other accesses to it meet the contract of
    /// [`ActiveMessage::carry_out`].
    unsafe fn carry_out(&self, job: &ActiveAm) {
        reached(Step::AccumulateLocked);
        // SAFETY: the message was read for this memory from this operand buffer. The buffer belongs
        // to the handler until the origin is acknowledged.
        unsafe { job.message.carry_out(job.memory, self.operand_buffer(job.place)) };
        reached(Step::AccumulateWritten);
    }

    /// Performs a step towards the origin. Returns `None` if no step is possible now.
    fn answer<L: LaneAccess<Name = N>>(
        &mut self,
        lanes: &mut L,
        job: &ActiveAm,
    ) -> Result<Option<AmStage>, LaneError> {
        let Station { key, words, .. } = self.station;
        let AmOrigin { lane, answers, word, done, asked, .. } = self.origins[job.place];
        let (base, length, to, next) = if let AmStage::Giving = job.stage {
            let Some(length) = job.message.answer() else { return Ok(Some(AmStage::Telling)) };
            // SAFETY: an operand buffer has [`OPERAND_BUFFER_BYTES`] bytes.
            let base = unsafe { ActiveMessage::operands(self.operand_buffer(job.place)) };
            let to = answers.after(done as usize % OPERAND_BUFFERS * STRIPE);
            (base, length as u32, to, AmStage::Telling)
        } else {
            // After the acknowledgement the origin may write the operand buffer again. So the
            // device must have finished sending old values from it, and the previous number.
            if !lanes.on(lane, |lane, _| lane.is_done_aside(asked))? {
                return Ok(None);
            }
            // SAFETY: there is a word for each member.
            let number = unsafe { words.add(2 + job.place) };
            // SAFETY: the device has finished with the word.
            unsafe { number.write(done + 1) };
            (number.cast(), 8, word, AmStage::Told)
        };
        let from = [Sge { base, length, key }];
        let operation = Operation::Write { from: &from, to };
        // SAFETY: operand buffers and words are registered as long as the handler exists. They stay
        // unchanged until the request is done.
        let asked = lanes.on(lane, |lane, device| unsafe { lane.ask_aside(device, operation) })?;
        let Some(asked) = asked else { return Ok(None) };
        self.origins[job.place].asked = asked;
        Ok(Some(next))
    }

    /// Returns the operand buffer of the next active message of the origin in `place`.
    fn operand_buffer(&self, place: usize) -> NonNull<u8> {
        let slot = self.origins[place].done as usize % OPERAND_BUFFERS;
        // SAFETY: there are [`OPERAND_BUFFERS`] operand buffers for each member.
        unsafe {
            self.station
                .operand_buffers
                .add((place * OPERAND_BUFFERS + slot) * OPERAND_BUFFER_BYTES)
        }
    }
}

fn is_same(one: Part, other: Part) -> bool {
    (one.base, one.length) == (other.base, other.length)
}
