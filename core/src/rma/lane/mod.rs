//! A lane: a connection of a window to one member, and the requests on it (`[OneSided04]` §3.3.1).
//!
//! Requests complete in the order of posting, so one number tells which are done. Until then, each
//! request has a *slot* of registered memory of its own. Data to write is copied there, so that the
//! origin's memory need not be registered and may be changed at once. Data that was read, and the
//! value that an atomic found, lie there afterwards.
//!
//! A handler posts its requests on the same lane *aside*. Such requests have numbers of their own
//! and no slot. They therefore do not take the slots of results that the lane's user has not read
//! yet.
//!
//! A request costs the device as much as thousands of bytes. So puts during a request in progress,
//! to addresses next to the previous put, are *gathered* in a slot. They are posted as one request
//! when the earlier request is done, the slot is full, or anything else is posted.
//!
//! The memory of the slots is lent to the lane when it first has a request. So a window of many
//! members takes memory for those that it accesses.
//!
//! Absent on purpose: waiting. A request that cannot be posted now is posted later, after the
//! embedder has polled the device.

mod aside;
mod gather;
mod landing;
mod slots;

use core::fmt;
use core::ptr::NonNull;

use crate::buffer::{Direction, Part};
use crate::engine::FailureCause;
use crate::hca::{
    Address, Completion, Connection, Hca, HcaError, Operation, PostError, Readiness, RemoteAddress,
    Sge, WorkError, WorkRequest,
};

/// Largest number of requests in progress on a lane. A burst of 16 requests and its signal fit
/// without a wait.
pub const SLOTS: usize = 32;

/// Size of a slot in bytes.
pub const SLOT: usize = 4096;

/// Size in bytes of the memory lent to a lane: its slots, and one slot for an atomic aside.
pub const LENT: usize = (SLOTS + 1) * SLOT;

/// Marks the numbers of requests aside, for the device.
const ASIDE: u64 = 1 << 63;

/// An atomic operation on 8 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtomicOp {
    /// Adds to the value, with wrap-around.
    Add(u64),
    /// Replaces the value if it is the expected one.
    Swap {
        /// Expected old value.
        expected: u64,
        /// New value.
        desired: u64,
    },
}

impl AtomicOp {
    /// Returns the request for the change. It leaves the old value in `result`.
    #[must_use]
    pub const fn of<'a>(self, target: RemoteAddress, result: Sge) -> Operation<'a> {
        match self {
            Self::Add(addend) => Operation::FetchAndAdd { result, target, addend },
            Self::Swap { expected, desired } => {
                Operation::CompareAndSwap { result, target, expected, desired }
            }
        }
    }
}

/// The reason why a lane takes no more requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LaneError {
    /// The lane could not be connected.
    Connect(HcaError),
    /// The device refused a request.
    Refused(PostError),
    /// A request failed, and with it the connection.
    Failed(WorkError),
    /// There is no memory for the slots, or the device cannot register it.
    Memory(HcaError),
}

impl LaneError {
    /// Returns whether the lane could not be connected because the member has closed its end.
    #[must_use]
    pub const fn has_closed_end(&self) -> bool {
        matches!(self, Self::Connect(HcaError::Unreachable { .. } | HcaError::Refused { .. }))
    }

    /// Returns the failure cause of the member, if the error means that the member is gone.
    #[must_use]
    pub const fn sign(&self) -> Option<FailureCause> {
        match *self {
            Self::Connect(error @ (HcaError::Unreachable { .. } | HcaError::Connect { .. })) => {
                Some(FailureCause::Device(error))
            }
            Self::Failed(error @ WorkError::Unreachable) => Some(FailureCause::Request(error)),
            _ => None,
        }
    }
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) | Self::Memory(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LaneError {}

/// A connection and the state of its requests.
#[derive(Debug)]
pub struct Lane {
    connection: Connection,
    ready: bool,
    /// The slots, and the local key of their region, once they are lent.
    memory: Option<(NonNull<u8>, u32)>,
    /// A request could not be posted because the lane has no slots.
    wants_memory: bool,
    inline: usize,
    longest: usize,
    limit: u64,
    acknowledged: bool,
    /// True if data was written since the last read. Matters for devices that do not acknowledge
    /// writes.
    unconfirmed: bool,
    /// Target and length in bytes of the puts gathered in the slot of the next request.
    gathered: Option<(RemoteAddress, usize)>,
    posted: u64,
    done: u64,
    /// Numbers of the last requests aside that were posted and done.
    posted_aside: u64,
    done_aside: u64,
    /// Destinations of read bytes that lie in slots, by the slot of the request.
    landings: [Option<Part>; SLOTS],
    broken: Option<LaneError>,
    closed: bool,
}

impl Lane {
    /// Opens this side's end of a lane to `peer`, with its slots. Returns the lane and the end's
    /// address, for the member.
    ///
    /// # Safety
    ///
    /// The contract of [`Lane::lend`].
    ///
    /// # Errors
    ///
    /// The errors of [`Hca::open`].
    pub unsafe fn open<H: Hca>(
        hca: &mut H,
        peer: u32,
        slots: NonNull<u8>,
        key: u32,
    ) -> Result<(Self, Address), HcaError> {
        let (mut lane, address) = Self::open_without_slots(hca, peer)?;
        // SAFETY: the caller guarantees the same (contract of `open`).
        unsafe { lane.lend(slots, key) };
        Ok((lane, address))
    }

    /// Opens this side's end of a lane to `peer`. No request can be posted before it is lent slots:
    /// see [`Lane::wants_slots`].
    ///
    /// # Errors
    ///
    /// The errors of [`Hca::open`].
    pub fn open_without_slots<H: Hca>(hca: &mut H, peer: u32) -> Result<(Self, Address), HcaError> {
        let (connection, address) = hca.open(peer)?;
        let capabilities = hca.capabilities();
        let lane = Self {
            connection,
            ready: false,
            memory: None,
            wants_memory: false,
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
            landings: [None; SLOTS],
            broken: None,
            closed: false,
        };
        Ok((lane, address))
    }

    /// Connects to the member's end. The caller repeats the call until it returns true; then
    /// requests can be posted.
    ///
    /// # Errors
    ///
    /// [`LaneError::Connect`].
    pub fn connect<H: Hca>(&mut self, hca: &mut H, remote: &Address) -> Result<bool, LaneError> {
        if !self.ready {
            let readiness = hca.connect(self.connection, remote);
            let readiness = readiness.map_err(|error| self.breaks(LaneError::Connect(error)))?;
            self.ready = readiness == Readiness::Ready;
        }
        Ok(self.ready)
    }

    /// Closes the connection. From then on the device accesses no memory for it, and no request can
    /// be posted.
    ///
    /// # Errors
    ///
    /// The errors of [`Hca::close`]. The connection is closed nevertheless.
    pub fn close<H: Hca>(&mut self, hca: &mut H) -> Result<(), HcaError> {
        self.breaks(LaneError::Failed(WorkError::Flushed));
        match core::mem::replace(&mut self.closed, true) {
            true => Ok(()),
            false => hca.close(self.connection),
        }
    }

    /// Returns the device's name for this end.
    #[must_use]
    pub const fn connection(&self) -> Connection {
        self.connection
    }

    /// Returns the largest number of bytes that [`Lane::transfer`] moves in one request.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Processes the completion of a request.
    pub fn handle(&mut self, completion: &Completion) {
        match completion.result {
            Ok(_) if completion.id & ASIDE != 0 => {
                self.done_aside = self.done_aside.max(completion.id & !ASIDE);
            }
            Ok(_) => {
                let before = self.done;
                self.done = before.max(completion.id);
                (before + 1..=self.done).for_each(|number| self.land(number));
            }
            Err(error) => drop(self.breaks(LaneError::Failed(error))),
        }
    }

    /// Returns true if request `number`, and all before it, are done.
    ///
    /// # Errors
    ///
    /// The error that broke the lane, if the request is not done and never will be.
    pub fn is_done(&self, number: u64) -> Result<bool, LaneError> {
        match self.broken {
            Some(error) if self.done < number => Err(error),
            _ => Ok(self.done >= number),
        }
    }

    /// Returns true if all requests have taken effect in the member's memory.
    ///
    /// `there` are 8 bytes that may be read, for devices that do not acknowledge writes.
    ///
    /// # Errors
    ///
    /// The error that broke the lane, if the requests never will be done.
    pub fn is_flushed<H: Hca>(
        &mut self,
        hca: &mut H,
        there: RemoteAddress,
    ) -> Result<bool, LaneError> {
        if !self.push(hca)? || (self.unconfirmed && self.fetch(hca, 8, there)?.is_none()) {
            return Ok(false);
        }
        self.is_done(self.posted)
    }

    /// Writes at most [`SLOT`] bytes in a request of their own. The source may be changed when this
    /// returns.
    ///
    /// Returns the number of the request, or `None` if it cannot be posted now.
    ///
    /// # Safety
    ///
    /// `from` is valid for reads, and outside the memory lent.
    ///
    /// # Errors
    ///
    /// The [`LaneError`] that broke the lane. No request can be posted any more.
    pub unsafe fn write<H: Hca>(
        &mut self,
        hca: &mut H,
        from: Part,
        to: RemoteAddress,
    ) -> Result<Option<u64>, LaneError> {
        debug_assert!(from.length <= SLOT, "{} bytes", from.length);
        if !self.push(hca)? || !self.takes_more()? {
            return Ok(None);
        }
        let inline = from.length <= self.inline;
        let base = if inline { from.base } else { self.slot(self.posted + 1) };
        if !inline {
            // SAFETY: the slot is free and long enough; `from` is valid (contract of `write`).
            unsafe { from.base.copy_to_nonoverlapping(base, from.length) };
            hca.copied(from.length);
        }
        let piece = [Sge { base, length: from.length as u32, key: self.key() }];
        // SAFETY: the data is inline, or in the slot, which stays unchanged until the request is
        // done.
        unsafe { self.post(hca, Operation::Write { from: &piece, to }, inline) }
    }

    /// Reads at most [`SLOT`] bytes into the slot of the request: see [`Lane::slot`].
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub fn fetch<H: Hca>(
        &mut self,
        hca: &mut H,
        length: usize,
        from: RemoteAddress,
    ) -> Result<Option<u64>, LaneError> {
        debug_assert!(length <= SLOT, "{length} bytes");
        if !self.push(hca)? {
            return Ok(None);
        }
        let piece = self.piece(length);
        // SAFETY: the slot is free, else `post` refuses the request.
        unsafe { self.post(hca, Operation::Read { into: &[piece], from }, false) }
    }

    /// Changes 8 aligned bytes by an atomic of the device. It leaves the old value in the slot of
    /// the request.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub fn change<H: Hca>(
        &mut self,
        hca: &mut H,
        change: AtomicOp,
        target: RemoteAddress,
    ) -> Result<Option<u64>, LaneError> {
        if !self.push(hca)? {
            return Ok(None);
        }
        // SAFETY: the slot is free, else `post` refuses the request.
        unsafe { self.post(hca, change.of(target, self.piece(8)), false) }
    }

    /// Moves registered memory, at most [`Lane::longest`] bytes.
    ///
    /// # Safety
    ///
    /// The piece is registered, and valid for the device until the request is done or the
    /// connection is closed.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub unsafe fn transfer<H: Hca>(
        &mut self,
        hca: &mut H,
        way: Direction,
        piece: Sge,
        there: RemoteAddress,
    ) -> Result<Option<u64>, LaneError> {
        if !self.push(hca)? {
            return Ok(None);
        }
        let pieces = [piece];
        let operation = match way {
            Direction::Read => Operation::Read { into: &pieces, from: there },
            Direction::Write => Operation::Write { from: &pieces, to: there },
        };
        // SAFETY: the caller guarantees a registered, valid piece (contract of `transfer`).
        unsafe { self.post(hca, operation, false) }
    }

    /// Sends an empty message after all earlier requests. It completes a receive of the member.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub fn wake<H: Hca>(&mut self, hca: &mut H) -> Result<Option<u64>, LaneError> {
        if !self.push(hca)? {
            return Ok(None);
        }
        // SAFETY: an empty message has no memory to keep valid.
        unsafe { self.post(hca, Operation::Send { from: &[] }, false) }
    }

    /// Returns `Ok` if requests can be posted, now or later.
    ///
    /// # Errors
    ///
    /// The error that broke the lane.
    pub fn check(&self) -> Result<(), LaneError> {
        self.broken.map_or(Ok(()), Err)
    }

    /// Returns true if a request can be posted now. Its slot is then free.
    fn takes_more(&mut self) -> Result<bool, LaneError> {
        match self.broken {
            Some(error) => Err(error),
            None if self.memory.is_none() => {
                self.wants_memory = self.ready;
                Ok(false)
            }
            None => Ok(self.ready && self.under_way() < self.limit),
        }
    }

    const fn under_way(&self) -> u64 {
        self.posted - self.done + self.posted_aside - self.done_aside
    }

    /// # Safety
    ///
    /// The contract of [`Hca::post`] holds, except that this function ensures that the slot of the
    /// next request is free.
    unsafe fn post<H: Hca>(
        &mut self,
        hca: &mut H,
        operation: Operation<'_>,
        inline: bool,
    ) -> Result<Option<u64>, LaneError> {
        let id = self.posted + 1;
        let writes = matches!(operation, Operation::Write { .. } | Operation::Send { .. });
        // SAFETY: the caller guarantees the contract of [`Hca::post`] (contract of `post`).
        if !unsafe { self.post_as(hca, id, operation, inline) }? {
            return Ok(None);
        }
        self.posted = id;
        self.unconfirmed = writes && !self.acknowledged;
        Ok(Some(id))
    }

    /// Posts a request, if the device takes it now.
    ///
    /// # Safety
    ///
    /// The contract of [`Hca::post`] holds.
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
        // SAFETY: the caller guarantees the contract of [`Hca::post`] (contract of `post_as`).
        match unsafe { hca.post(self.connection, &request) } {
            Ok(()) => Ok(true),
            Err(PostError::Full) => Ok(false),
            // The completion of the failed request will tell the cause.
            Err(PostError::Broken) if self.under_way() > 0 => Ok(false),
            Err(error) => Err(self.breaks(LaneError::Refused(error))),
        }
    }

    fn breaks(&mut self, error: LaneError) -> LaneError {
        *self.broken.get_or_insert(error)
    }
}
