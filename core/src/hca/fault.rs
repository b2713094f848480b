//! A device with faults: a wrapper that makes any device fail as the seed determines.
//!
//! The wrapper makes a request impossible before it is posted, and replaces the reported error. The
//! device below does the rest: it breaks the connection on both sides, flushes, and keeps the
//! order.
//!
//! Absent on purpose: faults that no device has, such as a write that completes without having been
//! done.

use core::ptr::NonNull;

use heapless::{Deque, Vec};

use super::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, Operation, PostError,
    Readiness, Region, RemoteAddress, Sge, WorkError, WorkRequest,
};

/// Maximum number of completions held back at a time.
const HELD: usize = 64;

/// Maximum number of doomed requests at a time. A further one is not made to fail.
const DOOMED: usize = 64;

/// The kinds of faults and their rates.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Faults {
    /// The seed of all random choices.
    pub seed: u64,
    /// Requests per million that are lost on every retry of the device: [`WorkError::Unreachable`].
    pub lose: u32,
    /// Requests per million that fail with [`Faults::error`].
    pub fail: u32,
    /// The error of failed requests.
    pub error: Option<WorkError>,
    /// Number of the request at which the connection breaks, regardless of the rates. It counts
    /// from 0 over all connections.
    pub break_at: Option<u64>,
    /// Posts per million that are refused as if the queue were full.
    pub refuse: u32,
    /// Completions per million that are held back, together with those that follow them.
    pub delay: u32,
    /// Maximum number of polls for which a completion is held back.
    pub delay_polls: u32,
}

/// A device with faults.
#[derive(Debug)]
pub struct Faulty<H> {
    inner: H,
    faults: Faults,
    random: Random,
    posted: u64,
    doomed: Vec<Doom, DOOMED>,
    held: DelayedCompletions,
}

/// A request that cannot succeed, and the error to report for it.
#[derive(Clone, Copy, Debug)]
struct Doom {
    connection: Connection,
    id: u64,
    error: WorkError,
}

impl<H: Hca> Faulty<H> {
    /// Wraps `inner` with these faults.
    #[must_use]
    pub const fn new(inner: H, faults: Faults) -> Self {
        let random = Random(faults.seed);
        Self {
            inner,
            faults,
            random,
            posted: 0,
            doomed: Vec::new(),
            held: DelayedCompletions::new(),
        }
    }

    /// Returns the wrapped device.
    pub const fn inner(&mut self) -> &mut H {
        &mut self.inner
    }

    /// Returns the error of the next posted request, or `None` if it succeeds.
    fn fate(&mut self) -> Option<WorkError> {
        let number = self.posted;
        let Faults { lose, fail, error, break_at, .. } = self.faults;
        let (lost, failed) = (self.random.happens(lose), self.random.happens(fail));
        if lost || break_at == Some(number) {
            return Some(WorkError::Unreachable);
        }
        failed.then_some(error.unwrap_or(WorkError::Device { code: 0 }))
    }

    /// Returns the completion as the embedder sees it.
    fn revise(&mut self, completion: Completion) -> Completion {
        let is_it =
            |doom: &Doom| (doom.connection, doom.id) == (completion.connection, completion.id);
        if completion.result.is_ok() {
            return completion;
        }
        let Some(at) = self.doomed.iter().position(is_it) else { return completion };
        let doom = self.doomed.remove(at);
        // A request that an earlier failure flushed is reported as flushed.
        if completion.result == Err(WorkError::Flushed) {
            return completion;
        }
        Completion { result: Err(doom.error), ..completion }
    }
}

/// The source of a write to an address without a region.
static NOTHING: u8 = 0;

/// A remote address that no region contains.
const NOWHERE: RemoteAddress = RemoteAddress { address: 0, key: 0 };

/// Makes the operation impossible; returns `None` for an operation that accesses nothing.
fn spoil<'a>(operation: Operation<'a>, byte: &'a [Sge]) -> Option<Operation<'a>> {
    let is_empty = |pieces: &[Sge]| pieces.iter().all(|piece| piece.length == 0);
    Some(match operation {
        Operation::Write { from, .. }
        | Operation::WriteImmediate { from, .. }
        | Operation::Send { from } => match is_empty(from) {
            false => Operation::Write { from, to: NOWHERE },
            true if byte.is_empty() => return None,
            true => Operation::Write { from: byte, to: NOWHERE },
        },
        Operation::Read { into, .. } if is_empty(into) => return None,
        Operation::Read { into, .. } => Operation::Read { into, from: NOWHERE },
        Operation::CompareAndSwap { result, expected, desired, .. } => {
            Operation::CompareAndSwap { result, target: NOWHERE, expected, desired }
        }
        Operation::FetchAndAdd { result, addend, .. } => {
            Operation::FetchAndAdd { result, target: NOWHERE, addend }
        }
    })
}

impl<H: Hca> Hca for Faulty<H> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: the caller guarantees that the memory stays mapped and may be accessed as
        // `access` says (contract of `register`).
        unsafe { self.inner.register(base, length, access) }
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        self.inner.deregister(region)
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        self.inner.open(peer)
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        self.inner.connect(connection, address)
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        self.doomed.retain(|doom| doom.connection != connection);
        self.inner.close(connection)
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        if self.random.happens(self.faults.refuse) {
            return Err(PostError::Full);
        }
        let byte = [Sge { base: NonNull::from(&NOTHING), length: 1, key: 0 }];
        let byte = if self.inner.capabilities().inline > 0 { &byte[..] } else { &[] };
        let fate = self.fate().filter(|_| !self.doomed.is_full());
        let doomed = fate.and_then(|error| Some((error, spoil(request.operation, byte)?)));
        let Some((error, operation)) = doomed else {
            // SAFETY: the caller guarantees that the pieces are valid until the request completes
            // (contract of `post`).
            unsafe { self.inner.post(connection, request) }?;
            self.posted += 1;
            return Ok(());
        };
        let inline = match operation {
            Operation::Write { from, .. } if core::ptr::eq(from, byte) => true,
            _ => request.inline,
        };
        let impossible = WorkRequest { operation, inline, ..*request };
        // SAFETY: the pieces are those of the caller, valid until the request completes (contract
        // of `post`), or a byte that is always valid.
        unsafe { self.inner.post(connection, &impossible) }?;
        self.posted += 1;
        // There is room, see above.
        let _ = self.doomed.push(Doom { connection, id: request.id, error });
        Ok(())
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        // SAFETY: the caller guarantees that the piece is valid for writes until its receive
        // completes (contract of `post_receive`).
        unsafe { self.inner.post_receive(id, piece) }
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        while let Some(room) = self.held.room() {
            let mut one = [room];
            if self.inner.poll(&mut one)? == 0 {
                break;
            }
            let completion = self.revise(one[0]);
            let delayed = self.random.happens(self.faults.delay);
            let polls = if delayed { self.random.up_to(self.faults.delay_polls) } else { 0 };
            self.held.put(completion, polls);
        }
        let mut count = 0;
        for place in into {
            let Some(completion) = self.held.take() else { break };
            *place = completion;
            count += 1;
        }
        self.held.pass();
        Ok(count)
    }

    /// The device does not announce a held-back completion again when it is released.
    fn arm(&mut self) -> Result<(), HcaError> {
        self.inner.arm()
    }

    fn copied(&mut self, bytes: usize) {
        self.inner.copied(bytes);
    }
}

/// Completions in their order, each with the number of polls for which it is still held back.
#[derive(Debug)]
struct DelayedCompletions(Deque<(Completion, u32), HELD>);

/// A placeholder for a completion.
const EMPTY: Completion =
    Completion { id: 0, connection: Connection(0), result: Err(WorkError::Flushed) };

impl DelayedCompletions {
    const fn new() -> Self {
        Self(Deque::new())
    }

    /// Returns an empty completion if there is room for another one.
    fn room(&self) -> Option<Completion> {
        (!self.0.is_full()).then_some(EMPTY)
    }

    /// Adds a completion, for which there is [room](Self::room).
    fn put(&mut self, completion: Completion, polls: u32) {
        let _ = self.0.push_back((completion, polls));
    }

    /// Removes and returns the first completion if it is no longer held back.
    fn take(&mut self) -> Option<Completion> {
        match self.0.front()? {
            (_, 0) => self.0.pop_front().map(|(completion, _)| completion),
            _ => None,
        }
    }

    /// Counts one poll.
    fn pass(&mut self) {
        if let Some((_, polls)) = self.0.front_mut() {
            *polls = polls.saturating_sub(1);
        }
    }
}

/// Pseudo-random numbers that depend only on the seed (Steele, Lea and Flood's `SplitMix64`).
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns true with a probability of `of_a_million` in a million.
    const fn happens(&mut self, of_a_million: u32) -> bool {
        of_a_million > 0 && self.next() % 1_000_000 < of_a_million as u64
    }

    /// Returns a number from 0 to `most`.
    const fn up_to(&mut self, most: u32) -> u32 {
        (self.next() % (most as u64 + 1)) as u32
    }
}
