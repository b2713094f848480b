//! Posting the requests of one link, and remembering how far they are.

use core::ptr::NonNull;

use super::config::{Lent, PROOF, REQUESTS, TOLD, word};
use super::direct::Window;
use super::error::Cause;
use super::landing::Counter;
use crate::hca::{
    Capabilities, Completion, Connection, Hca, Operation, Piece, PostError, Remote, WorkRequest,
};

/// How many requests of each kind a link has posted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Operations {
    /// Writes that carry bytes of the stream.
    pub data: u64,
    /// Writes of a flag, where it cannot travel with its bytes.
    pub flags: u64,
    /// Writes of a pointer or counter: head, tail, credit, acknowledgement.
    pub pointers: u64,
    /// Reads.
    pub reads: u64,
    /// Empty messages, which wake the peer.
    pub knocks: u64,
}

impl Operations {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.data + self.flags + self.pointers + self.reads + self.knocks
    }
}

/// One connection, the memory at both of its ends, and the requests between them.
///
/// Requests are done in the order of posting, so one number says which are. A *mark* is the position in the stream that
/// the requests so far have carried; it comes back in the completions, and says which bytes of the staging memory are
/// the link's again.
#[derive(Debug)]
pub(super) struct Poster {
    connection: Connection,
    near: Lent,
    far: Remote,
    inline: usize,
    message: u64,
    ordered_bytes: bool,
    acknowledged: bool,
    /// Requests under way, at most.
    limit: u64,
    /// Marks without a completion asked for, at most.
    step: u64,
    posted: u64,
    done: u64,
    mark: u64,
    /// Completions are asked for up to this request.
    wanted: u64,
    /// As `posted`, up to the last request whose completion was asked for.
    asked: u64,
    asked_mark: u64,
    done_mark: u64,
    /// As `posted`, up to the last request whose end says that all before it are at the peer.
    proved: u64,
    /// The device had no place for the last request, whatever was under way.
    refused: bool,
    pub(super) window: Window,
    pub(super) operations: Operations,
}

impl Poster {
    /// The requests of a new connection. Of a ring of `ring` marks at most a quarter is without a completion asked for.
    pub(super) fn new(
        connection: Connection,
        near: Lent,
        far: Remote,
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
            window: Window::default(),
            operations: Operations::default(),
        }
    }

    /// Whether one write can carry bytes and the flag that announces them.
    pub(super) const fn ordered_bytes(&self) -> bool {
        self.ordered_bytes
    }

    /// Most bytes of one request.
    pub(super) fn longest(&self) -> usize {
        self.message.min(1 << 30) as usize
    }

    /// Whether the device may take a request now that it refused, and says nothing when it does.
    pub(super) const fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether request `number` is done.
    pub(super) const fn is_done(&self, number: u64) -> bool {
        self.done >= number
    }

    /// Asks for the completions of the next requests. The number of the last of them.
    pub(super) const fn ask(&mut self, requests: u64) -> u64 {
        self.wanted = self.posted + requests;
        self.wanted
    }

    /// The position in the stream that the requests so far have carried.
    pub(super) const fn mark(&self) -> u64 {
        self.mark
    }

    /// The position in the stream up to which all requests are done.
    pub(super) const fn done_mark(&self) -> u64 {
        self.done_mark
    }

    /// Whether every request is done, and what it wrote in the peer's memory. One more is posted where the end of the last does not
    /// say so: it has no completion of its own, or the device acknowledges no writes, and a read has to follow them. Otherwise the
    /// word `value` is written to `to`, which is what the peer has there.
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

    /// Writes once more what the peer has at `to`, unless some request is under way already, whose end tells as much.
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

    /// This side's memory at `offset`.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: offsets come from `config` and lie within the memory lent.
        unsafe { self.near.base.add(offset) }
    }

    /// The number that the peer's device keeps at `offset`.
    pub(super) fn counter(&self, offset: usize) -> u64 {
        // SAFETY: the word lies in the memory lent, aligned, and the peer's device writes it whole.
        unsafe { self.at(offset).cast::<Counter>().as_ref() }.read()
    }

    /// `length` bytes of this side's memory at `offset`, for the device.
    pub(super) fn piece(&self, offset: usize, length: usize) -> Piece {
        Piece { base: self.at(offset), length: length as u32, key: self.near.local_key }
    }

    /// Writes `length` bytes at `from` of this side's memory to `to` of the peer's. False: not now.
    ///
    /// # Safety
    ///
    /// The bytes do not change before `done_mark` reaches `mark`, the position that the stream has with them.
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
        // SAFETY: the bytes lie in the memory lent, which is registered; that they do not change is the caller's contract.
        let posted = unsafe { self.post(hca, operation, inline, mark) }?;
        self.operations.data += u64::from(posted);
        Ok(posted)
    }

    /// Writes the flag that lies at `from`, as [`Poster::write`] does.
    ///
    /// # Safety
    ///
    /// As for [`Poster::write`].
    pub(super) unsafe fn write_flag<H: Hca>(
        &mut self,
        hca: &mut H,
        ways: (usize, usize),
        mark: u64,
    ) -> Result<bool, Cause> {
        // SAFETY: by the contract.
        let posted = unsafe { self.write(hca, ways, size_of::<u64>(), mark) }?;
        self.operations.data -= u64::from(posted);
        self.operations.flags += u64::from(posted);
        Ok(posted)
    }

    /// Writes a user's memory straight to the peer's, or reads it from there. The number of the request; `None`: not now.
    ///
    /// # Safety
    ///
    /// The piece is registered, and valid for the device until the request is done.
    pub(super) unsafe fn transfer<H: Hca>(
        &mut self,
        hca: &mut H,
        piece: Piece,
        remote: Remote,
        reads: bool,
    ) -> Result<Option<u64>, Cause> {
        let pieces = [piece];
        let operation = if reads {
            Operation::Read { into: &pieces, from: remote }
        } else {
            Operation::Write { from: &pieces, to: remote }
        };
        let number = self.ask(1);
        // SAFETY: by the contract.
        let posted = unsafe { self.post(hca, operation, false, self.mark) }?;
        self.operations.data += u64::from(posted && !reads);
        self.operations.reads += u64::from(posted && reads);
        Ok(posted.then_some(number))
    }

    /// Writes `value` to the word at `to` of the peer's memory. False: not now.
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
        // SAFETY: the word lies in the memory lent, is aligned, and its last request is done: fewer than `REQUESTS` are
        // not.
        unsafe { source.write(value) };
        let piece = self.piece(word(self.posted), size_of::<u64>());
        let operation = Operation::Write { from: &[piece], to: self.there(to) };
        // SAFETY: as above; the word is written again only when this request is done.
        let posted = unsafe { self.post(hca, operation, 8 <= self.inline, self.mark) }?;
        self.operations.pointers += u64::from(posted);
        Ok(posted)
    }

    /// Reads `length` bytes at `from` of the peer's memory to `to` of this side's. The number of the request; `None`: not now.
    pub(super) fn read_line<H: Hca>(
        &mut self,
        hca: &mut H,
        length: usize,
        (to, from): (usize, usize),
    ) -> Result<Option<u64>, Cause> {
        let (piece, there) = (self.piece(to, length), self.there(from));
        // SAFETY: the piece lies in the memory lent, which is registered; nobody else touches it before the request is done.
        unsafe { self.transfer(hca, piece, there, true) }
    }

    /// Sends an empty message, behind all that was written. False: not now.
    pub(super) fn knock<H: Hca>(&mut self, hca: &mut H) -> Result<bool, Cause> {
        // The place that is kept free for it.
        if self.posted - self.done >= self.limit {
            return Ok(false);
        }
        // SAFETY: there is nothing to keep valid.
        let posted = unsafe { self.hand(hca, Operation::Send { from: &[] }, false, self.mark) }?;
        self.operations.knocks += u64::from(posted);
        Ok(posted)
    }

    /// Takes in the end of a request.
    pub(super) fn handle(&mut self, completion: &Completion) -> Result<(), Cause> {
        completion.result.map_err(Cause::Failed)?;
        let behind = |now: u64, low: u32| now + u64::from(low.wrapping_sub(now as u32));
        self.done = behind(self.done, (completion.id >> 32) as u32);
        self.done_mark = behind(self.done_mark, completion.id as u32);
        Ok(())
    }

    /// Whether there is no place for another request and a knock behind it: who has written may go its way and not come
    /// back for long.
    const fn is_full(&self) -> bool {
        let kept = if self.limit > 1 { 1 } else { 0 };
        self.posted - self.done + kept >= self.limit
    }

    const fn there(&self, offset: usize) -> Remote {
        Remote { address: self.far.address + offset as u64, key: self.far.key }
    }

    /// Posts one request. Its completion is asked for when it is time to: a quarter of the queue or of the ring is
    /// without one.
    ///
    /// # Safety
    ///
    /// As for [`Hca::post`].
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
        // SAFETY: by the contract.
        unsafe { self.hand(hca, operation, inline, mark) }
    }

    /// Hands one request to the device.
    ///
    /// # Safety
    ///
    /// As for [`Hca::post`].
    unsafe fn hand<H: Hca>(
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
        // SAFETY: by the contract.
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
