//! Posts the requests of one link and tracks their completion.

use core::ptr::NonNull;

use super::config::{LinkMemory, PROOF, REQUESTS, TOLD, word};
use super::direct::TransferWindow;
use super::error::Cause;
use super::landing::Counter;
use crate::hca::{
    Capabilities, Completion, Connection, Hca, Operation, PostError, RemoteAddress, Sge,
    WorkRequest,
};

/// Number of requests of each kind that a link has posted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Operations {
    /// Writes with bytes of the stream.
    pub data: u64,
    /// Writes of a flag that cannot travel with its bytes.
    pub flags: u64,
    /// Writes of a pointer or counter: head, tail, credit, acknowledgement.
    pub pointers: u64,
    /// Reads.
    pub reads: u64,
    /// Empty messages that wake the peer.
    pub wakeups: u64,
}

impl Operations {
    /// Returns the total number of requests.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.data + self.flags + self.pointers + self.reads + self.wakeups
    }
}

/// One connection, the memory at both of its ends, and the requests between them.
///
/// Requests complete in the order of posting, so a single number tells which are done. A *mark* is
/// the position in the stream up to which the requests so far have carried its bytes. The
/// completions return it, which tells which bytes of the staging memory the link may reuse.
#[derive(Debug)]
pub(super) struct Poster {
    connection: Connection,
    near: LinkMemory,
    far: RemoteAddress,
    inline: usize,
    message: u64,
    ordered_bytes: bool,
    acknowledged: bool,
    /// Maximum number of requests in flight.
    limit: u64,
    /// Maximum number of marks without a signaled request.
    step: u64,
    posted: u64,
    done: u64,
    mark: u64,
    /// Requests up to this number are signaled.
    wanted: u64,
    /// Number of the last signaled request.
    asked: u64,
    asked_mark: u64,
    done_mark: u64,
    /// Number of the last request with a completion that proves the arrival of all earlier ones.
    proved: u64,
    /// True if the device had no room for the last request, regardless of the requests in flight.
    refused: bool,
    pub(super) window: TransferWindow,
    pub(super) operations: Operations,
}

impl Poster {
    /// Creates the state of a new connection. In a ring of `ring` marks, at most a quarter is
    /// without a signaled request.
    pub(super) fn new(
        connection: Connection,
        near: LinkMemory,
        far: RemoteAddress,
        capabilities: &Capabilities,
        ring: u64,
    ) -> Self {
        Self {
            connection,
            near,
            far,
            inline: capabilities.inline as usize,
            message: capabilities.message,
            ordered_bytes: capabilities.ordered_bytes,
            acknowledged: capabilities.acknowledged,
            limit: u64::from(capabilities.depth).clamp(1, REQUESTS as u64),
            step: (ring / 4).max(1),
            posted: 0,
            done: 0,
            mark: 0,
            wanted: 0,
            asked: 0,
            asked_mark: 0,
            done_mark: 0,
            proved: 0,
            refused: false,
            window: TransferWindow::default(),
            operations: Operations::default(),
        }
    }

    /// Returns true if one write can carry bytes and the flag that announces them.
    pub(super) const fn ordered_bytes(&self) -> bool {
        self.ordered_bytes
    }

    /// Returns the maximum size of one request, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.message.min(1 << 30) as usize
    }

    /// Returns true if the device refused a request. It may take the request later without
    /// reporting so.
    pub(super) const fn is_refused(&self) -> bool {
        self.refused
    }

    /// Returns true if request `number` is done.
    pub(super) const fn is_done(&self, number: u64) -> bool {
        self.done >= number
    }

    /// Makes the next requests signaled. Returns the number of the last of them.
    pub(super) const fn ask(&mut self, requests: u64) -> u64 {
        self.wanted = self.posted + requests;
        self.wanted
    }

    /// Returns the position in the stream up to which the requests so far have carried its bytes.
    pub(super) const fn mark(&self) -> u64 {
        self.mark
    }

    /// Returns the position in the stream up to which all requests are done.
    pub(super) const fn done_mark(&self) -> u64 {
        self.done_mark
    }

    /// Returns true if every request is done and its data are in the peer's memory.
    ///
    /// If the last request's completion does not prove that, the function posts one more. If the
    /// last request is not signaled, it writes the word `value` to `to`, which the peer already has
    /// there. If the device acknowledges no writes, it posts a read, which must follow them.
    pub(super) fn drain<H: Hca>(
        &mut self,
        hca: &mut H,
        value: u64,
        to: usize,
    ) -> Result<bool, Cause> {
        if self.acknowledged && self.asked < self.posted {
            self.ask(1);
            self.write_word(hca, value, to)?;
        }
        if !self.acknowledged && self.proved < self.posted {
            let read = self.read_line(hca, size_of::<u64>(), (PROOF, TOLD))?;
            self.proved = read.unwrap_or(self.proved);
        }
        let proved = self.acknowledged || self.proved == self.posted;
        Ok(proved && self.done == self.posted)
    }

    /// Writes once more what the peer already has at `to`, unless the end of a request in flight
    /// will tell as much.
    pub(super) fn probe<H: Hca>(
        &mut self,
        hca: &mut H,
        value: u64,
        to: usize,
    ) -> Result<(), Cause> {
        if self.done == self.asked {
            self.ask(1);
            self.write_word(hca, value, to)?;
        }
        Ok(())
    }

    /// Returns the address of this side's memory at `offset`.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: offsets come from `config` and lie within the lent memory.
        unsafe { self.near.base.add(offset) }
    }

    /// Returns the number that the peer's device keeps at `offset`.
    pub(super) fn counter(&self, offset: usize) -> u64 {
        // SAFETY: the word is in the lent memory, aligned, and the peer's device writes it as a
        // whole.
        unsafe { self.at(offset).cast::<Counter>().as_ref() }.read()
    }

    /// Returns `length` bytes of this side's memory at `offset` as a piece for the device.
    pub(super) fn piece(&self, offset: usize, length: usize) -> Sge {
        Sge { base: self.at(offset), length: length as u32, key: self.near.local_key }
    }

    /// Writes `length` bytes at `from` of this side's memory to `to` of the peer's. Returns false
    /// if that is not possible now.
    ///
    /// # Safety
    ///
    /// The bytes do not change until `done_mark` reaches `mark`, the position of the stream after
    /// them.
    pub(super) unsafe fn write<H: Hca>(
        &mut self,
        hca: &mut H,
        (from, to): (usize, usize),
        length: usize,
        mark: u64,
    ) -> Result<bool, Cause> {
        let piece = self.piece(from, length);
        let inline = length <= self.inline;
        let operation = Operation::Write { from: &[piece], to: self.there(to) };
        // SAFETY: the bytes are in the lent memory, which is registered. The caller guarantees that
        // they do not change (contract of `write`).
        let posted = unsafe { self.post(hca, operation, inline, mark) }?;
        self.operations.data += u64::from(posted);
        Ok(posted)
    }

    /// Writes the flag at `from` of this side's memory to the peer's. Returns false if that is not
    /// possible now.
    ///
    /// # Safety
    ///
    /// The flag does not change until `done_mark` reaches `mark`.
    pub(super) unsafe fn write_flag<H: Hca>(
        &mut self,
        hca: &mut H,
        ways: (usize, usize),
        mark: u64,
    ) -> Result<bool, Cause> {
        // SAFETY: the caller guarantees that the flag does not change (contract of `write_flag`).
        let posted = unsafe { self.write(hca, ways, size_of::<u64>(), mark) }?;
        self.operations.data -= u64::from(posted);
        self.operations.flags += u64::from(posted);
        Ok(posted)
    }

    /// Writes a user's memory directly to the peer's, or reads from there into it. Returns the
    /// number of the request, or `None` if that is not possible now.
    ///
    /// # Safety
    ///
    /// The piece is registered, and valid for the device until the request is done.
    pub(super) unsafe fn transfer<H: Hca>(
        &mut self,
        hca: &mut H,
        piece: Sge,
        remote: RemoteAddress,
        reads: bool,
    ) -> Result<Option<u64>, Cause> {
        let pieces = [piece];
        let operation = if reads {
            Operation::Read { into: &pieces, from: remote }
        } else {
            Operation::Write { from: &pieces, to: remote }
        };
        let number = self.ask(1);
        // SAFETY: the caller guarantees that the piece is registered and stays valid (contract of
        // `transfer`).
        let posted = unsafe { self.post(hca, operation, false, self.mark) }?;
        self.operations.data += u64::from(posted && !reads);
        self.operations.reads += u64::from(posted && reads);
        Ok(posted.then_some(number))
    }

    /// Writes `value` to the word at `to` of the peer's memory. Returns false if that is not
    /// possible now.
    pub(super) fn write_word<H: Hca>(
        &mut self,
        hca: &mut H,
        value: u64,
        to: usize,
    ) -> Result<bool, Cause> {
        if self.is_full() {
            return Ok(false);
        }
        let source = self.at(word(self.posted)).cast::<u64>();
        // SAFETY: the word is in the lent memory and aligned. Its previous request is done, because
        // fewer than `REQUESTS` requests are in flight.
        unsafe { source.write(value) };
        let piece = self.piece(word(self.posted), size_of::<u64>());
        let operation = Operation::Write { from: &[piece], to: self.there(to) };
        // SAFETY: the word is in the lent memory, and it is written again only when this request is
        // done.
        let posted = unsafe { self.post(hca, operation, 8 <= self.inline, self.mark) }?;
        self.operations.pointers += u64::from(posted);
        Ok(posted)
    }

    /// Reads `length` bytes at `from` of the peer's memory to `to` of this side's. Returns the
    /// number of the request, or `None` if that is not possible now.
    pub(super) fn read_line<H: Hca>(
        &mut self,
        hca: &mut H,
        length: usize,
        (to, from): (usize, usize),
    ) -> Result<Option<u64>, Cause> {
        let (piece, there) = (self.piece(to, length), self.there(from));
        // SAFETY: the piece is in the lent memory, which is registered; nothing else accesses it
        // until the request is done.
        unsafe { self.transfer(hca, piece, there, true) }
    }

    /// Sends an empty message behind everything that was written. Returns false if that is not
    /// possible now.
    pub(super) fn send_wakeup<H: Hca>(&mut self, hca: &mut H) -> Result<bool, Cause> {
        // `is_full` keeps one place free for this message.
        if self.posted - self.done >= self.limit {
            return Ok(false);
        }
        // SAFETY: the request has no pieces that must stay valid.
        let posted = unsafe { self.submit(hca, Operation::Send { from: &[] }, false, self.mark) }?;
        self.operations.wakeups += u64::from(posted);
        Ok(posted)
    }

    /// Handles the completion of a request.
    pub(super) fn handle(&mut self, completion: &Completion) -> Result<(), Cause> {
        completion.result.map_err(Cause::Failed)?;
        let behind = |now: u64, low: u32| now + u64::from(low.wrapping_sub(now as u32));
        self.done = behind(self.done, (completion.id >> 32) as u32);
        self.done_mark = behind(self.done_mark, completion.id as u32);
        Ok(())
    }

    /// Returns true if there is no room for another request with a wake-up behind it. A rank that
    /// has written may not call the link again for a long time.
    const fn is_full(&self) -> bool {
        let kept = if self.limit > 1 { 1 } else { 0 };
        self.posted - self.done + kept >= self.limit
    }

    const fn there(&self, offset: usize) -> RemoteAddress {
        RemoteAddress { address: self.far.address + offset as u64, key: self.far.key }
    }

    /// Posts one request. It is signaled at intervals, so that at most a quarter of the queue or of
    /// the ring is without a signaled request.
    ///
    /// # Safety
    ///
    /// The pieces of the operation stay valid until the request completes (contract of
    /// [`Hca::post`]).
    unsafe fn post<H: Hca>(
        &mut self,
        hca: &mut H,
        operation: Operation<'_>,
        inline: bool,
        mark: u64,
    ) -> Result<bool, Cause> {
        if self.is_full() {
            return Ok(false);
        }
        // SAFETY: the caller guarantees that the pieces stay valid (contract of `post`).
        unsafe { self.submit(hca, operation, inline, mark) }
    }

    /// Passes one request to the device.
    ///
    /// # Safety
    ///
    /// The pieces of the operation stay valid until the request completes (contract of
    /// [`Hca::post`]).
    unsafe fn submit<H: Hca>(
        &mut self,
        hca: &mut H,
        operation: Operation<'_>,
        inline: bool,
        mark: u64,
    ) -> Result<bool, Cause> {
        let number = self.posted + 1;
        let signaled = number <= self.wanted
            || number - self.asked >= self.limit.div_ceil(4)
            || mark - self.asked_mark >= self.step;
        let id = number << 32 | mark & u64::from(u32::MAX);
        let request = WorkRequest { id, operation, signaled, inline, fenced: false };
        // SAFETY: the caller guarantees that the pieces stay valid (contract of `submit`).
        let posted = unsafe { hca.post(self.connection, &request) };
        self.refused = posted == Err(PostError::Full);
        match posted {
            Ok(()) => {}
            Err(PostError::Full) => return Ok(false),
            Err(error) => return Err(Cause::Refused(error)),
        }
        (self.posted, self.mark) = (number, mark);
        if signaled {
            (self.asked, self.asked_mark) = (number, mark);
        }
        Ok(true)
    }
}
