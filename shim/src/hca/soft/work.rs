//! A work request in the device's hands.

use core::ptr::NonNull;

use strait_core::hca::{Done, Operation, Piece, PostError, Remote, WorkRequest};

/// Pieces of one request.
pub(super) const PIECES: usize = 8;

/// Longest message that goes inline, bytes.
pub(super) const INLINE: usize = 128;

/// Longest message, bytes.
pub(super) const MESSAGE: u64 = 1 << 30;

/// A copy of a request that outlives the call that posted it.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) id: u64,
    pub(super) verb: Verb,
    pub(super) signaled: bool,
    pub(super) fenced: bool,
    pieces: [Piece; PIECES],
    count: usize,
    /// Bytes of the message.
    pub(super) length: u64,
    /// The message itself, if it goes inline and does not leave at once.
    data: Option<Box<[u8]>>,
    inline: bool,
}

// SAFETY: the pieces are addresses for the kernel; by the contract of `post` the device may use them on any thread until the
// request completes.
unsafe impl Send for Work {}

/// What is to be done at the peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Write { to: Remote, immediate: Option<u32> },
    Read { from: Remote },
    Send,
    Atomic { target: Remote, change: Change },
}

/// What an atomic does to a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    CompareAndSwap { expected: u64, desired: u64 },
    Add { addend: u64 },
}

impl Change {
    /// What the word becomes; `None`: it stays.
    pub(super) const fn of(self, old: u64) -> Option<u64> {
        match self {
            Self::CompareAndSwap { expected, desired } if old == expected => Some(desired),
            Self::CompareAndSwap { .. } => None,
            Self::Add { addend } => Some(old.wrapping_add(addend)),
        }
    }
}

impl Verb {
    /// What it reports when it is done.
    pub(super) const fn done(self) -> Done {
        match self {
            Self::Write { .. } => Done::Write,
            Self::Read { .. } => Done::Read,
            Self::Send => Done::Send,
            Self::Atomic { .. } => Done::Atomic,
        }
    }

    /// True when something comes back from the peer, so that later writes may overtake it.
    pub(super) const fn fetches(self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic { .. })
    }
}

impl Work {
    /// Takes a request over, if this device has such ones.
    pub(super) fn new(request: &WorkRequest<'_>) -> Result<Self, PostError> {
        let single;
        let (verb, given) = match request.operation {
            Operation::Write { from, to } => (Verb::Write { to, immediate: None }, from),
            Operation::WriteImmediate { from, to, immediate } => {
                (Verb::Write { to, immediate: Some(immediate) }, from)
            }
            Operation::Read { into, from } => (Verb::Read { from }, into),
            Operation::Send { from } => (Verb::Send, from),
            Operation::CompareAndSwap { result, target, expected, desired } => {
                single = [result];
                let change = Change::CompareAndSwap { expected, desired };
                (Verb::Atomic { target, change }, &single[..])
            }
            Operation::FetchAndAdd { result, target, addend } => {
                single = [result];
                (Verb::Atomic { target, change: Change::Add { addend } }, &single[..])
            }
        };
        if given.len() > PIECES {
            return Err(PostError::Pieces { found: given.len(), limit: PIECES as u32 });
        }
        let length = given.iter().map(|piece| u64::from(piece.length)).sum();
        let inline = request.inline && !verb.fetches();
        let limit = match verb {
            Verb::Atomic { .. } => 8,
            _ if inline => INLINE as u64,
            _ => MESSAGE,
        };
        if length > limit || (matches!(verb, Verb::Atomic { .. }) && length != limit) {
            return Err(PostError::Length { found: length, limit });
        }
        let mut pieces = [Piece { base: NonNull::dangling(), length: 0, key: 0 }; PIECES];
        pieces[..given.len()].copy_from_slice(given);
        let &WorkRequest { id, signaled, fenced, .. } = request;
        let count = given.len();
        Ok(Self { id, verb, signaled, fenced, pieces, count, length, data: None, inline })
    }

    /// Takes the data of an inline request, whose pieces are the caller's again afterwards.
    ///
    /// # Safety
    ///
    /// The pieces are valid for reads.
    pub(super) unsafe fn take_inline(&mut self) {
        if !self.inline {
            return;
        }
        let mut data = Vec::with_capacity(self.length as usize);
        for piece in &self.pieces[..self.count] {
            // SAFETY: by the contract.
            let bytes = unsafe {
                core::slice::from_raw_parts(piece.base.as_ptr().cast_const(), piece.length as usize)
            };
            data.extend_from_slice(bytes);
        }
        self.data = Some(data.into());
    }

    /// The pieces whose keys have to be good.
    pub(super) fn keyed(&self) -> &[Piece] {
        if self.inline { &[] } else { &self.pieces[..self.count] }
    }

    /// Where the message lies in this process, as the kernel wants it told.
    pub(super) fn parts(&self) -> ([libc::iovec; PIECES], usize) {
        let mut parts = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PIECES];
        if let Some(data) = &self.data {
            parts[0] =
                libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
            return (parts, 1);
        }
        for (part, piece) in parts.iter_mut().zip(&self.pieces[..self.count]) {
            *part = libc::iovec {
                iov_base: piece.base.as_ptr().cast(),
                iov_len: piece.length as usize,
            };
        }
        (parts, self.count)
    }
}
