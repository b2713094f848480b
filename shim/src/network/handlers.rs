//! The handlers of windows: where errands come in, and the handler that carries them out (`[OneSided04]` §3.3.2).
//!
//! The handler runs where progress is made: in the calls of the target, and in its progress thread. A message that an origin sends
//! behind an errand is an event of the device, so a target that sleeps wakes up for it.

use core::ptr::NonNull;

use strait_core::hca::{Hca, Operation, Piece, Remote};
use strait_core::layout::Corrupt;
use strait_core::progress::Part;
use strait_core::rma::{Block, Change, Errand, LaneError, TRAY, TRAYS};
use strait_core::sync::{Step, reached};

use super::{LaneId, Network};
use crate::Rank;

/// What a member of a window gives its handler.
#[derive(Debug)]
pub(crate) struct Handler {
    /// The member's part.
    pub(crate) part: Part,
    /// [`TRAYS`] trays for each member, registered.
    pub(crate) trays: NonNull<u8>,
    /// Words for what the handler asks devices for, registered: one for itself, and one for each member.
    pub(crate) words: NonNull<u64>,
    /// The local key of trays and words.
    pub(crate) key: u32,
    /// Where this rank's device finds the locks of its part.
    pub(crate) block: Remote,
    /// The lane of this member to itself.
    pub(crate) own: LaneId,
    /// By place.
    pub(crate) guests: Vec<Guest>,
}

/// An origin, as a handler knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest {
    pub(crate) lane: LaneId,
    /// Its images of the trays.
    pub(crate) images: Remote,
    /// Its word for acknowledgements of this member.
    pub(crate) word: Remote,
    /// Errands that have come, and that are done.
    pub(crate) come: u64,
    pub(crate) done: u64,
}

/// The name of a handler, until it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HandlerId(usize);

/// How far a handler is with an errand.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It is about to ask for the lock, in which it expects to find this.
    Asking { expected: u64 },
    /// It has asked for it.
    Locking { expected: u64, request: u64 },
    /// The numbers are combined, and the lock is to go back.
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
    stage: Stage,
}

/// A handler, and what its handler is about.
#[derive(Debug)]
struct Open {
    handler: Handler,
    job: Option<Job>,
    /// Whose turn it was last.
    last: usize,
}

/// By name, and the receives for what wakes their handlers.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    all: Vec<Option<Open>>,
    /// Receives that are to be posted.
    owed: usize,
    /// Receives that are posted for handlers that are closed.
    spare: usize,
}

impl Handler {
    /// The handler's own word.
    const fn word(&self) -> Piece {
        Piece { base: self.words.cast(), length: 8, key: self.key }
    }

    /// The word from which the guest in `place` is told.
    fn word_for(&self, place: usize) -> NonNull<u64> {
        // SAFETY: there is one for each member.
        unsafe { self.words.add(1 + place) }
    }

    /// The tray of the next errand of the guest in `place`.
    fn tray(&self, place: usize) -> NonNull<u8> {
        let slot = self.guests[place].done as usize % TRAYS;
        // SAFETY: there are so many trays.
        unsafe { self.trays.add((place * TRAYS + slot) * TRAY) }
    }
}

impl<H: Hca> Network<H> {
    /// Opens a handler: its handler works until [`Network::close_handler`].
    ///
    /// # Safety
    ///
    /// The part and the trays are valid until then, and reached as [`Errand::carry_out`] says.
    pub(crate) unsafe fn open_handler(&mut self, handler: Handler) -> HandlerId {
        let wanted = handler.guests.len() * TRAYS;
        let Handlers { all, owed, spare } = &mut self.handlers;
        let found = wanted.min(*spare);
        (*spare, *owed) = (*spare - found, *owed + wanted - found);
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        all.resize_with(all.len().max(free + 1), || None);
        all[free] = Some(Open { handler, job: None, last: 0 });
        self.post_owed();
        HandlerId(free)
    }

    /// Closes a handler. No origin asks it for anything any more.
    pub(crate) fn close_handler(&mut self, HandlerId(id): HandlerId) {
        if let Some(open) = self.handlers.all[id].take() {
            self.handlers.spare += open.handler.guests.len() * TRAYS;
        }
    }

    /// An errand has come on a lane.
    pub(super) fn errand_came(&mut self, lane: LaneId) {
        let open = self.handlers.all.iter_mut().flatten();
        let mut guests = open.flat_map(|open| &mut open.handler.guests);
        if let Some(guest) = guests.find(|guest| guest.lane == lane) {
            guest.come += 1;
        }
        self.handlers.owed += 1;
        self.post_owed();
    }

    /// Posts the receives that are owed, as far as the device has room.
    fn post_owed(&mut self) {
        // It holds no byte, so it may be anywhere.
        let nothing = Piece { base: NonNull::dangling(), length: 0, key: 0 };
        while self.handlers.owed > 0 {
            // SAFETY: there is nothing to keep valid.
            match unsafe { self.device.post_receive(0, nothing) } {
                Ok(()) => self.handlers.owed -= 1,
                // Later; or never, and then its connections are broken.
                Err(_) => return,
            }
        }
    }

    /// Goes on with what origins asked for. Says whether anything moved. `is_gone` says who will not give a lock back.
    pub(crate) fn serve(&mut self, is_gone: impl Fn(Rank) -> bool) -> Result<bool, Corrupt> {
        let mut moved = false;
        for id in 0..self.handlers.all.len() {
            let Some(mut open) = self.handlers.all[id].take() else { continue };
            let served = self.serve_one(&mut open, &is_gone);
            self.handlers.all[id] = Some(open);
            moved |= served?;
        }
        Ok(moved)
    }

    fn serve_one(
        &mut self,
        open: &mut Open,
        is_gone: &impl Fn(Rank) -> bool,
    ) -> Result<bool, Corrupt> {
        let mut moved = false;
        loop {
            let Some(mut job) = open.job.take().map_or_else(|| open.next(), |job| Ok(Some(job)))?
            else {
                return Ok(moved);
            };
            let stage = match job.stage {
                Stage::Asking { .. } | Stage::Locking { .. } | Stage::Unlocking => {
                    self.lock_and_combine(&open.handler, &job, is_gone).inspect_err(|_| {
                        // Nobody can be served any more, and all shall know it.
                        open.handler.guests.iter().for_each(|guest| self.break_lane(guest.lane));
                    })
                }
                Stage::Giving | Stage::Telling | Stage::Told => self.answer(&open.handler, &job),
            };
            match stage {
                Ok(Some(Stage::Told)) => open.handler.guests[job.place].done += 1,
                Ok(Some(stage)) => {
                    job.stage = stage;
                    open.job = Some(job);
                }
                Ok(None) => {
                    open.job = Some(job);
                    return Ok(moved);
                }
                // It asks for nothing any more.
                Err(_) => open.handler.guests[job.place].done = open.handler.guests[job.place].come,
            }
            moved = true;
        }
    }

    /// The steps under the lock. `None`: not now.
    fn lock_and_combine(
        &mut self,
        handler: &Handler,
        job: &Job,
        is_gone: &impl Fn(Rank) -> bool,
    ) -> Result<Option<Stage>, LaneError> {
        let (own, holder) = (handler.own, u64::from(self.me) + 1);
        let lock = handler.block.after(Block::stripe_offset(job.errand.offset));
        let mut ask = |change: Change| {
            let operation = change.of(lock, handler.word());
            // SAFETY: the word is the handler's, which asks for one thing at a time.
            self.on_lane(own, |lane, device| unsafe { lane.ask_aside(device, operation) })
        };
        match job.stage {
            Stage::Asking { expected } => {
                let asked = ask(Change::Swap { expected, desired: holder })?;
                Ok(asked.map(|request| Stage::Locking { expected, request }))
            }
            Stage::Locking { expected, request } => {
                if !self.on_lane(own, |lane, _| lane.is_done_aside(request))? {
                    return Ok(None);
                }
                // SAFETY: the device is done with the word.
                let found = unsafe { handler.words.read() };
                if found == expected {
                    reached(Step::AccumulateLocked);
                    // SAFETY: read for this part, from this tray, which is the handler's until the origin is told.
                    unsafe { job.errand.carry_out(handler.part, handler.tray(job.place)) };
                    reached(Step::AccumulateWritten);
                    return Ok(Some(Stage::Unlocking));
                }
                let rank = found.checked_sub(1).and_then(|rank| Rank::try_from(rank).ok());
                let expected = if rank.is_none_or(is_gone) { found } else { 0 };
                Ok(Some(Stage::Asking { expected }))
            }
            _ => Ok(ask(Change::Swap { expected: holder, desired: 0 })?.map(|_| Stage::Giving)),
        }
    }

    /// The steps towards the origin. `None`: not now.
    fn answer(&mut self, handler: &Handler, job: &Job) -> Result<Option<Stage>, LaneError> {
        let Guest { lane, images, word, done, .. } = handler.guests[job.place];
        if let Stage::Giving = job.stage {
            let Some(length) = job.errand.answer() else { return Ok(Some(Stage::Telling)) };
            // SAFETY: a tray is long enough.
            let base = unsafe { Errand::operands(handler.tray(job.place)) };
            let piece = Piece { base, length: length as u32, key: handler.key };
            let to = images.after(done as usize % TRAYS * TRAY + Errand::filled(0));
            // It is as it is until the origin is told, behind this.
            return Ok(self.write_aside(lane, piece, to)?.map(|_| Stage::Telling));
        }
        let number = handler.word_for(job.place);
        // SAFETY: the handler's. A device that has not sent the number before yet sends this one twice, which is as true.
        unsafe { number.write(done + 1) };
        let piece = Piece { base: number.cast(), length: 8, key: handler.key };
        Ok(self.write_aside(lane, piece, word)?.map(|_| Stage::Told))
    }

    /// Writes what is registered, and stays as it is until the device is done with it.
    fn write_aside(
        &mut self,
        lane: LaneId,
        piece: Piece,
        to: Remote,
    ) -> Result<Option<u64>, LaneError> {
        let operation = Operation::Write { from: &[piece], to };
        // SAFETY: trays and words are registered as long as the handler is open.
        self.on_lane(lane, |lane, device| unsafe { lane.ask_aside(device, operation) })
    }
}

impl Open {
    /// The next errand, of whoever's turn it is.
    fn next(&mut self) -> Result<Option<Job>, Corrupt> {
        let Handler { guests, part, .. } = &self.handler;
        let by_turns = (0..guests.len()).map(|more| (self.last + 1 + more) % guests.len());
        let mut waiting = by_turns.filter(|place| guests[*place].come > guests[*place].done);
        let Some(place) = waiting.next() else { return Ok(None) };
        // SAFETY: the origin has written the tray, and leaves it alone until it is told that the errand is done.
        let errand = unsafe { Errand::read(self.handler.tray(place), *part) };
        self.last = place;
        if errand.is_err() {
            self.handler.guests[place].done = self.handler.guests[place].come;
        }
        Ok(Some(Job { place, errand: errand?, stage: Stage::Asking { expected: 0 } }))
    }
}
