//! A lane: a connection of a window to one member, and the requests on it (`[OneSided04]` §3.3.1).
//!
//! Requests are done in the order of posting, so one number says which are. Each request has one of a few *slots* of registered
//! memory to itself until then: what is written is copied there, so that the origin's memory need not be registered and may be
//! changed at once; what is read, and what an atomic found, lies there afterwards.
//!
//! What a handler asks for on the same lane, it asks for *aside*: such requests have numbers of their own and no slot, so that they do not
//! take the slots of what the lane's user has not looked at yet.
//!
//! A request costs the device as much as thousands of bytes. So what is put while a request is under way, next to what was put before,
//! is *gathered* in a slot, and asked for as one: when that request is done, the slot is full, or anything else is asked for.
//!
//! Absent on purpose: waiting. What cannot be posted now is posted later, after the embedder has polled the device.

mod aside;
mod gather;

use core::fmt;
use core::ptr::NonNull;

use crate::hca::{
    Address, Completion, Connection, Hca, HcaError, Operation, Piece, PostError, Readiness, Remote,
    WorkError, WorkRequest,
};
use crate::progress::{Part, Sign, Way};

/// Requests under way on a lane, at most: a burst of 16 and its signal wait for nobody.
pub const SLOTS: usize = 32;

/// Bytes of a slot.
pub const SLOT: usize = 4096;

/// Bytes that a lane is lent: its slots, and one for an atomic aside.
pub const LENT: usize = (SLOTS + 1) * SLOT;

/// Marks the numbers of requests aside, for the device.
const ASIDE: u64 = 1 << 63;

/// What an atomic does to 8 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Adds to them, wrapping.
    Add(u64),
    /// Replaces them if they are as expected.
    Swap {
        /// What has to be there.
        expected: u64,
        /// What shall be there.
        desired: u64,
    },
}

impl Change {
    /// The request for it: what was there is left in `result`.
    #[must_use]
    pub const fn of<'a>(self, target: Remote, result: Piece) -> Operation<'a> {
        match self {
            Self::Add(addend) => Operation::FetchAndAdd { result, target, addend },
            Self::Swap { expected, desired } => {
                Operation::CompareAndSwap { result, target, expected, desired }
            }
        }
    }
}

/// Why a lane takes no more requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LaneError {
    /// It could not be connected.
    Connect(HcaError),
    /// The device refused a request.
    Refused(PostError),
    /// A request failed, and with it the connection.
    Failed(WorkError),
}

impl LaneError {
    /// By what it is known that the member is not there any more, if that is what it means.
    #[must_use]
    pub const fn sign(&self) -> Option<Sign> {
        match *self {
            Self::Connect(error @ HcaError::Unreachable { .. }) => Some(Sign::Device(error)),
            Self::Failed(error @ WorkError::Unreachable) => Some(Sign::Request(error)),
            _ => None,
        }
    }
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LaneError {}

/// One connection, and how far its requests are.
#[derive(Debug)]
pub struct Lane {
    connection: Connection,
    ready: bool,
    /// The slots, and the local key of their region.
    slots: NonNull<u8>,
    key: u32,
    inline: usize,
    longest: usize,
    limit: u64,
    acknowledged: bool,
    /// Something was written since the last read. Matters where writes are not acknowledged.
    unconfirmed: bool,
    /// What is gathered in the slot of the next request: where it goes, and its bytes.
    gathered: Option<(Remote, usize)>,
    posted: u64,
    done: u64,
    /// Likewise of requests aside.
    posted_aside: u64,
    done_aside: u64,
    broken: Option<LaneError>,
    closed: bool,
}

impl Lane {
    /// This side's end of a lane to `peer`, and the address of it, for the member.
    ///
    /// # Safety
    ///
    /// The [`LENT`] bytes at `slots` are valid and registered, for this rank to read and write, under `key`, and nobody else's until the
    /// lane's connection is closed.
    ///
    /// # Errors
    ///
    /// As [`Hca::open`].
    pub unsafe fn open<H: Hca>(
        hca: &mut H,
        peer: u32,
        slots: NonNull<u8>,
        key: u32,
    ) -> Result<(Self, Address), HcaError> {
        let (connection, address) = hca.open(peer)?;
        let capabilities = hca.capabilities();
        let lane = Self {
            connection,
            ready: false,
            slots,
            key,
            inline: capabilities.inline as usize,
            longest: capabilities.message.min(1 << 30) as usize,
            limit: u64::from(capabilities.depth).min(SLOTS as u64),
            acknowledged: capabilities.acknowledged,
            unconfirmed: false,
            gathered: None,
            posted: 0,
            done: 0,
            posted_aside: 0,
            done_aside: 0,
            broken: None,
            closed: false,
        };
        Ok((lane, address))
    }

    /// Connects to the member's end. Called again until it is true: then requests can be posted.
    ///
    /// # Errors
    ///
    /// [`LaneError::Connect`].
    pub fn connect<H: Hca>(&mut self, hca: &mut H, far: &Address) -> Result<bool, LaneError> {
        if !self.ready {
            let readiness = hca.connect(self.connection, far);
            let readiness = readiness.map_err(|error| self.breaks(LaneError::Connect(error)))?;
            self.ready = readiness == Readiness::Ready;
        }
        Ok(self.ready)
    }

    /// Closes the connection: the device touches no memory for it from now on, and nothing more can be asked for.
    ///
    /// # Errors
    ///
    /// As [`Hca::close`]. It is closed nevertheless.
    pub fn close<H: Hca>(&mut self, hca: &mut H) -> Result<(), HcaError> {
        self.breaks(LaneError::Failed(WorkError::Flushed));
        match core::mem::replace(&mut self.closed, true) {
            true => Ok(()),
            false => hca.close(self.connection),
        }
    }

    /// The device's name for this end.
    #[must_use]
    pub const fn connection(&self) -> Connection {
        self.connection
    }

    /// Most bytes that [`Lane::transfer`] moves in one request.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Takes in the end of a request.
    pub fn handle(&mut self, completion: &Completion) {
        match completion.result {
            Ok(_) if completion.id & ASIDE != 0 => {
                self.done_aside = self.done_aside.max(completion.id & !ASIDE);
            }
            Ok(_) => self.done = self.done.max(completion.id),
            Err(error) => drop(self.breaks(LaneError::Failed(error))),
        }
    }

    /// Whether request `number`, and all before it, are done.
    ///
    /// # Errors
    ///
    /// It is not, and never will be.
    pub fn is_done(&self, number: u64) -> Result<bool, LaneError> {
        match self.broken {
            Some(error) if self.done < number => Err(error),
            _ => Ok(self.done >= number),
        }
    }

    /// Whether all that was asked for has been done to the member's memory. `there` are 8 bytes that may be read, for devices that
    /// do not acknowledge writes.
    ///
    /// # Errors
    ///
    /// It never will be.
    pub fn is_flushed<H: Hca>(&mut self, hca: &mut H, there: Remote) -> Result<bool, LaneError> {
        if !self.push(hca)? || (self.unconfirmed && self.fetch(hca, 8, there)?.is_none()) {
            return Ok(false);
        }
        self.is_done(self.posted)
    }

    /// Writes at most [`SLOT`] bytes at once, which may be changed when this returns. The number of the request; `None`: not now.
    ///
    /// # Safety
    ///
    /// `from` is valid for reads, and outside the memory lent.
    ///
    /// # Errors
    ///
    /// [`LaneError`]: nothing can be asked for any more; so everywhere below.
    pub unsafe fn write<H: Hca>(
        &mut self,
        hca: &mut H,
        from: Part,
        to: Remote,
    ) -> Result<Option<u64>, LaneError> {
        debug_assert!(from.length <= SLOT, "{} bytes", from.length);
        if !self.push(hca)? || !self.takes_more()? {
            return Ok(None);
        }
        let inline = from.length <= self.inline;
        let base = if inline { from.base } else { self.slot(self.posted + 1) };
        if !inline {
            // SAFETY: the slot is free, and as long; `from` is valid by the contract.
            unsafe { from.base.copy_to_nonoverlapping(base, from.length) };
            hca.copied(from.length);
        }
        let piece = [Piece { base, length: from.length as u32, key: self.key }];
        // SAFETY: inline, or in the slot, which stays as it is until the request is done.
        unsafe { self.post(hca, Operation::Write { from: &piece, to }, inline) }
    }

    /// Reads at most [`SLOT`] bytes, into the slot of the request: see [`Lane::slot`].
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub fn fetch<H: Hca>(
        &mut self,
        hca: &mut H,
        length: usize,
        from: Remote,
    ) -> Result<Option<u64>, LaneError> {
        debug_assert!(length <= SLOT, "{length} bytes");
        if !self.push(hca)? {
            return Ok(None);
        }
        let piece = self.piece(length);
        // SAFETY: the slot is free: `post` refuses otherwise.
        unsafe { self.post(hca, Operation::Read { into: &[piece], from }, false) }
    }

    /// Changes 8 aligned bytes by an atomic of the device, which leaves what was there in the slot of the request.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub fn change<H: Hca>(
        &mut self,
        hca: &mut H,
        change: Change,
        target: Remote,
    ) -> Result<Option<u64>, LaneError> {
        if !self.push(hca)? {
            return Ok(None);
        }
        // SAFETY: as in `fetch`.
        unsafe { self.post(hca, change.of(target, self.piece(8)), false) }
    }

    /// Moves registered memory, at most [`Lane::longest`] bytes.
    ///
    /// # Safety
    ///
    /// The piece is registered, and valid for the device until the request is done or the connection closed.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub unsafe fn transfer<H: Hca>(
        &mut self,
        hca: &mut H,
        way: Way,
        piece: Piece,
        there: Remote,
    ) -> Result<Option<u64>, LaneError> {
        if !self.push(hca)? {
            return Ok(None);
        }
        let pieces = [piece];
        let operation = match way {
            Way::Read => Operation::Read { into: &pieces, from: there },
            Way::Write => Operation::Write { from: &pieces, to: there },
        };
        // SAFETY: by the contract.
        unsafe { self.post(hca, operation, false) }
    }

    /// Sends a message of no bytes, after everything that was asked for before: it completes a receive of the member's.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub fn wake<H: Hca>(&mut self, hca: &mut H) -> Result<Option<u64>, LaneError> {
        if !self.push(hca)? {
            return Ok(None);
        }
        // SAFETY: there is nothing to keep valid.
        unsafe { self.post(hca, Operation::Send { from: &[] }, false) }
    }

    /// Whether more can be asked for, or ever could.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check(&self) -> Result<(), LaneError> {
        self.broken.map_or(Ok(()), Err)
    }

    /// The slot of a request. It is the request's until [`SLOTS`] more are posted; what the device has put there may be read when the
    /// request is done.
    #[must_use]
    pub fn slot(&self, number: u64) -> NonNull<u8> {
        // SAFETY: within the memory lent.
        unsafe { self.slots.add(number as usize % SLOTS * SLOT) }
    }

    /// What an atomic found, once it is done.
    #[must_use]
    pub fn found(&self, number: u64) -> u64 {
        // SAFETY: within the memory lent, aligned, and nobody writes it any more.
        unsafe { self.slot(number).cast::<u64>().read() }
    }

    /// A piece of the slot that the next request has.
    fn piece(&self, length: usize) -> Piece {
        Piece { base: self.slot(self.posted + 1), length: length as u32, key: self.key }
    }

    /// Whether a request can be posted now: then its slot is free.
    fn takes_more(&self) -> Result<bool, LaneError> {
        match self.broken {
            Some(error) => Err(error),
            None => Ok(self.ready && self.under_way() < self.limit),
        }
    }

    const fn under_way(&self) -> u64 {
        self.posted - self.done + self.posted_aside - self.done_aside
    }

    /// # Safety
    ///
    /// As for [`Hca::post`], but for the slot of the next request, which is looked after here.
    unsafe fn post<H: Hca>(
        &mut self,
        hca: &mut H,
        operation: Operation<'_>,
        inline: bool,
    ) -> Result<Option<u64>, LaneError> {
        let id = self.posted + 1;
        let writes = matches!(operation, Operation::Write { .. } | Operation::Send { .. });
        // SAFETY: by the contract.
        if !unsafe { self.post_as(hca, id, operation, inline) }? {
            return Ok(None);
        }
        self.posted = id;
        self.unconfirmed = writes && !self.acknowledged;
        Ok(Some(id))
    }

    /// Posts a request, if it is taken now.
    ///
    /// # Safety
    ///
    /// As for [`Hca::post`].
    unsafe fn post_as<H: Hca>(
        &mut self,
        hca: &mut H,
        id: u64,
        operation: Operation<'_>,
        inline: bool,
    ) -> Result<bool, LaneError> {
        if !self.takes_more()? {
            return Ok(false);
        }
        let request = WorkRequest { id, operation, signaled: true, inline, fenced: false };
        // SAFETY: by the contract.
        match unsafe { hca.post(self.connection, &request) } {
            Ok(()) => Ok(true),
            Err(PostError::Full) => Ok(false),
            // Why, the completion of what has failed is going to say.
            Err(PostError::Broken) if self.under_way() > 0 => Ok(false),
            Err(error) => Err(self.breaks(LaneError::Refused(error))),
        }
    }

    fn breaks(&mut self, error: LaneError) -> LaneError {
        *self.broken.get_or_insert(error)
    }
}
