//! A posted request, and the movement of its bytes.

use core::ptr::NonNull;

use strait_core::hca::{Done, Operation, RemoteAddress, Sge, WorkError, WorkRequest};

/// A request in the queue of an end.
#[derive(Debug)]
pub(super) struct SimRequest {
    /// Its place in the order of posting, from 1.
    pub(super) number: u64,
    pub(super) id: u64,
    pub(super) signaled: bool,
    pub(super) fenced: bool,
    pub(super) verb: Verb,
    /// This side's memory; for an inline request a copy.
    pub(super) local: LocalBytes,
    pub(super) stage: Stage,
    /// Whether it was reported as done while it moves, on a device that does not wait for the
    /// peer's.
    pub(super) reported: bool,
    /// The earliest time at which it starts.
    pub(super) not_before: u64,
}

/// The kind of an operation, without its pieces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Write { to: RemoteAddress, immediate: Option<u32> },
    Send,
    Read { from: RemoteAddress },
    CompareAndSwap { target: RemoteAddress, expected: u64, desired: u64 },
    FetchAndAdd { target: RemoteAddress, addend: u64 },
}

#[derive(Debug)]
pub(super) enum LocalBytes {
    Pieces(Vec<Sge>),
    Inline(Vec<u8>),
}

#[derive(Debug)]
pub(super) enum Stage {
    Posted,
    Moving(MovingBytes),
    /// Done, and not yet reported. For a write or send, the bytes that landed.
    Landed(Vec<u8>),
    Failed(WorkError),
}

/// A request under way.
#[derive(Debug)]
pub(super) struct MovingBytes {
    /// The peer's side of it.
    pub(super) remote: NonNull<u8>,
    /// The remaining runs: offset and length.
    pub(super) runs: Vec<(usize, usize)>,
    /// The moved bytes, at their offsets.
    pub(super) moved: Vec<u8>,
    /// The earliest time at which anything moves.
    pub(super) not_before: u64,
    /// The peer's receive that it consumes.
    pub(super) receive: Option<u64>,
}

impl SimRequest {
    /// Creates a request as it was posted, number `number` of its connection.
    ///
    /// # Safety
    ///
    /// The caller keeps the contract of [`strait_core::hca::Hca::post`].
    pub(super) unsafe fn new(number: u64, posted: &WorkRequest<'_>) -> Self {
        let (verb, pieces) = match posted.operation {
            Operation::Write { from, to } => (Verb::Write { to, immediate: None }, from.to_vec()),
            Operation::WriteImmediate { from, to, immediate } => {
                (Verb::Write { to, immediate: Some(immediate) }, from.to_vec())
            }
            Operation::Read { into, from } => (Verb::Read { from }, into.to_vec()),
            Operation::Send { from } => (Verb::Send, from.to_vec()),
            Operation::CompareAndSwap { result, target, expected, desired } => {
                (Verb::CompareAndSwap { target, expected, desired }, vec![result])
            }
            Operation::FetchAndAdd { result, target, addend } => {
                (Verb::FetchAndAdd { target, addend }, vec![result])
            }
        };
        let mut request = Self {
            number,
            id: posted.id,
            signaled: posted.signaled,
            fenced: posted.fenced,
            verb,
            local: LocalBytes::Pieces(pieces),
            stage: Stage::Posted,
            reported: false,
            not_before: 0,
        };
        if posted.inline {
            request.local = LocalBytes::Inline(request.bytes());
        }
        request
    }

    /// Returns the length in bytes.
    pub(super) fn length(&self) -> usize {
        match &self.local {
            LocalBytes::Pieces(pieces) => pieces.iter().map(|piece| piece.length as usize).sum(),
            LocalBytes::Inline(bytes) => bytes.len(),
        }
    }

    /// Returns the number of pieces.
    pub(super) fn pieces(&self) -> usize {
        match &self.local {
            LocalBytes::Pieces(pieces) => pieces.len(),
            LocalBytes::Inline(_) => 1,
        }
    }

    /// Replaces the word at `remote`, and writes the old one to this side's memory. Returns the
    /// bytes that remain.
    pub(super) fn exchange(&self, remote: NonNull<u8>, new: impl Fn(u64) -> u64) -> Vec<u8> {
        let old = self.carry(remote, (0, 8));
        let word = u64::from_ne_bytes(old.as_slice().try_into().unwrap());
        // SAFETY: the region check covers these 8 bytes, and their alignment.
        unsafe { remote.cast::<u64>().write(new(word)) };
        old
    }

    /// Returns true for requests that write to the peer in order, and false for those with a
    /// result.
    pub(super) const fn is_write(&self) -> bool {
        matches!(self.verb, Verb::Write { .. } | Verb::Send)
    }

    /// Returns the operation as its completion reports it.
    pub(super) const fn done(&self) -> Done {
        match self.verb {
            Verb::Write { .. } => Done::Write,
            Verb::Send => Done::Send,
            Verb::Read { .. } => Done::Read,
            Verb::CompareAndSwap { .. } | Verb::FetchAndAdd { .. } => Done::Atomic,
        }
    }

    /// Returns all bytes of this side's memory, with their present contents.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length()];
        let length = bytes.len();
        let to = NonNull::from(bytes.as_mut_slice()).cast::<u8>();
        self.walk(0, length, |local, done, piece| {
            // SAFETY: pieces are valid until the request completes (contract of `Hca::post`).
            // Together they are as long as the vector.
            unsafe { local.copy_to_nonoverlapping(to.add(done), piece) };
        });
        bytes
    }

    /// Moves one run between this side's memory and `remote`, and returns its bytes.
    pub(super) fn carry(&self, remote: NonNull<u8>, (offset, length): (usize, usize)) -> Vec<u8> {
        let mut moved = vec![0; length];
        let to = NonNull::from(moved.as_mut_slice()).cast::<u8>();
        // SAFETY: the region check covers the request's whole length at `remote`, and a run is
        // within it.
        let remote = unsafe { remote.add(offset) };
        if !self.is_write() {
            // SAFETY: the region check covers the run at `remote`, and the vector is `length` long.
            unsafe { remote.copy_to_nonoverlapping(to, length) };
        }
        self.walk(offset, length, |local, done, piece| {
            // SAFETY: pieces are valid for this until the request completes (contract of
            // `Hca::post`).
            unsafe {
                if self.is_write() {
                    local.copy_to_nonoverlapping(to.add(done), piece);
                } else {
                    local.copy_from_nonoverlapping(to.add(done), piece);
                }
            }
        });
        if self.is_write() {
            // SAFETY: the region check covers the run at `remote`, and the vector is `length` long.
            unsafe { remote.copy_from_nonoverlapping(to, length) };
        }
        moved
    }

    /// Calls `each(local, done, length)` for consecutive pieces of `length` bytes from `offset` on.
    fn walk(&self, offset: usize, length: usize, mut each: impl FnMut(NonNull<u8>, usize, usize)) {
        let pieces: Vec<(NonNull<u8>, usize)> = match &self.local {
            LocalBytes::Pieces(pieces) => {
                pieces.iter().map(|piece| (piece.base, piece.length as usize)).collect()
            }
            LocalBytes::Inline(bytes) => {
                vec![(NonNull::from(bytes.as_slice()).cast(), bytes.len())]
            }
        };
        let (mut skip, mut done) = (offset, 0);
        for (base, piece) in pieces {
            let here = skip.min(piece);
            let take = (piece - here).min(length - done);
            if take > 0 {
                // SAFETY: `here` is within the piece.
                each(unsafe { base.add(here) }, done, take);
            }
            skip -= here;
            done += take;
        }
    }
}
