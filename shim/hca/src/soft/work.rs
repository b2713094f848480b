//! A work request that the device has taken over.

use core::ptr::NonNull;

use strait_core::hca::{Done, Operation, PostError, RemoteAddress, Sge, WorkError, WorkRequest};

/// Largest number of pieces in one request.
pub(super) const PIECES: usize = 8;

/// Longest inline message, in bytes.
pub(super) const INLINE: usize = 128;

/// Longest message, in bytes.
pub(super) const MESSAGE: u64 = 1 << 30;

/// A copy of a request that outlives the call that posted it.
#[derive(Clone, Debug)]
pub(super) struct SoftWork {
    pub(super) id: u64,
    pub(super) verb: SoftVerb,
    pub(super) signaled: bool,
    pub(super) fenced: bool,
    pieces: [Sge; PIECES],
    count: usize,
    /// Bytes of the message.
    pub(super) length: u64,
    /// The message itself, if it is inline and does not leave at once.
    data: Option<Box<[u8]>>,
    inline: bool,
}

// SAFETY: the pieces are addresses for the kernel. The caller of `post` guarantees that the device
// may use them on any thread until the request completes (contract of `Hca::post`).
unsafe impl Send for SoftWork {}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tried {
    /// The request succeeded or failed.
    Ended(Result<(), WorkError>),
    /// The peer has no receive posted.
    NotReady,
}

/// The operation at the peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum SoftVerb {
    Write { to: RemoteAddress, immediate: Option<u32> },
    Read { from: RemoteAddress },
    Send,
    Atomic { target: RemoteAddress, change: DeviceAtomic },
}

/// The operation of an atomic on a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeviceAtomic {
    CompareAndSwap { expected: u64, desired: u64 },
    Add { addend: u64 },
}

impl DeviceAtomic {
    /// Returns the new value of the word, or `None` when it stays.
    pub(super) const fn of(self, old: u64) -> Option<u64> {
        match self {
            Self::CompareAndSwap { expected, desired } if old == expected => Some(desired),
            Self::CompareAndSwap { .. } => None,
            Self::Add { addend } => Some(old.wrapping_add(addend)),
        }
    }
}

impl SoftVerb {
    /// Returns the success that the completion reports.
    pub(super) const fn done(self) -> Done {
        match self {
            Self::Write { .. } => Done::Write,
            Self::Read { .. } => Done::Read,
            Self::Send => Done::Send,
            Self::Atomic { .. } => Done::Atomic,
        }
    }

    /// Returns true when data comes back from the peer, so that later writes may overtake the
    /// request.
    pub(super) const fn fetches(self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic { .. })
    }
}

impl SoftWork {
    /// Copies a request, if this device supports it.
    pub(super) fn new(request: &WorkRequest<'_>) -> Result<Self, PostError> {
        let single;
        let (verb, given) = match request.operation {
            Operation::Write { from, to } => (SoftVerb::Write { to, immediate: None }, from),
            Operation::WriteImmediate { from, to, immediate } => {
                (SoftVerb::Write { to, immediate: Some(immediate) }, from)
            }
            Operation::Read { into, from } => (SoftVerb::Read { from }, into),
            Operation::Send { from } => (SoftVerb::Send, from),
            Operation::CompareAndSwap { result, target, expected, desired } => {
                single = [result];
                let change = DeviceAtomic::CompareAndSwap { expected, desired };
                (SoftVerb::Atomic { target, change }, &single[..])
            }
            Operation::FetchAndAdd { result, target, addend } => {
                single = [result];
                (SoftVerb::Atomic { target, change: DeviceAtomic::Add { addend } }, &single[..])
            }
        };
        if given.len() > PIECES {
            return Err(PostError::Pieces { found: given.len(), limit: PIECES as u32 });
        }
        let length = given.iter().map(|piece| u64::from(piece.length)).sum();
        let inline = request.inline && !verb.fetches();
        let limit = match verb {
            SoftVerb::Atomic { .. } => 8,
            _ if inline => INLINE as u64,
            _ => MESSAGE,
        };
        if length > limit || (matches!(verb, SoftVerb::Atomic { .. }) && length != limit) {
            return Err(PostError::Length { found: length, limit });
        }
        let mut pieces = [Sge { base: NonNull::dangling(), length: 0, key: 0 }; PIECES];
        pieces[..given.len()].copy_from_slice(given);
        let &WorkRequest { id, signaled, fenced, .. } = request;
        let count = given.len();
        Ok(Self { id, verb, signaled, fenced, pieces, count, length, data: None, inline })
    }

    /// Copies the data of an inline request. Afterwards its pieces belong to the caller again.
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
            // SAFETY: the caller guarantees that the pieces are valid for reads (contract of
            // `take_inline`).
            let bytes = unsafe {
                core::slice::from_raw_parts(piece.base.as_ptr().cast_const(), piece.length as usize)
            };
            data.extend_from_slice(bytes);
        }
        self.data = Some(data.into());
    }

    /// Returns the pieces with keys that are checked.
    pub(super) fn keyed(&self) -> &[Sge] {
        if self.inline { &[] } else { &self.pieces[..self.count] }
    }

    /// Returns the parts of the message in this process, as the kernel takes them.
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
