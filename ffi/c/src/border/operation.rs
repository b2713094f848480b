//! Memory that C lends to an operation, and the operations that use it.

use shim::raw::{
    Matched, Part, RawEndpoint as _, RawWindow as _, RawWorld as _, ReceivedShort, Ticket, Unscoped,
};
use shim::{Attached, Endpoint, Error, Group, Window, WindowOptions, World};

use crate::pending::PendingOperation;

/// When a send is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SendKind {
    /// Its buffer may be used again.
    Standard,
    /// In addition, the receiver has started a matching receive.
    Synchronous,
}

/// Memory of one message: a buffer, or a list of buffers, which stays with the operation.
///
/// Invariant: the memory stays valid, and nothing else writes it, until the operation has ended. A
/// [`PendingOperation`] ends when its request in C does.
#[derive(Debug)]
pub(crate) enum OperationMemory {
    One(Part),
    List(Box<[Part]>),
}

impl OperationMemory {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::One(part) => part.length as u64,
            Self::List(parts) => parts.iter().map(|part| part.length as u64).sum(),
        }
    }

    #[inline(always)]
    pub(crate) fn send(
        self,
        kind: SendKind,
        endpoint: Endpoint<'_>,
        to: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and the list stays with it.
        let started = unsafe {
            match (&self, kind) {
                (Self::One(part), SendKind::Standard) => endpoint.begin_send(*part, to, tag),
                (Self::One(part), SendKind::Synchronous) => endpoint.begin_ssend(*part, to, tag),
                (Self::List(parts), SendKind::Standard) => {
                    endpoint.begin_send_vectored(parts, to, tag)
                }
                (Self::List(parts), SendKind::Synchronous) => {
                    endpoint.begin_ssend_vectored(parts, to, tag)
                }
            }
        };
        Ok(self.kept_by(started?).without_status())
    }

    /// Starts a standard send that the short paths have declined.
    pub(crate) fn send_after_medium(
        self,
        endpoint: Endpoint<'_>,
        to: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        let Self::One(part) = self else { return self.send(SendKind::Standard, endpoint, to, tag) };
        // SAFETY: the memory outlasts the operation (invariant).
        let started = unsafe { endpoint.begin_send_after_medium(part, to, tag) };
        Ok(PendingOperation::new(started?).without_status())
    }

    /// Posts a receive into one buffer, if nothing else has to be done.
    #[inline(always)]
    pub(crate) fn post_first(
        buffer: Part,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> Option<Ticket> {
        // SAFETY: only `LastingArg` calls this, with memory that outlasts the operation
        // (invariant).
        unsafe { endpoint.post_first(buffer, from, tag) }.map(|(_, ticket)| ticket)
    }

    /// Starts a receive into one buffer, if its message is short or arrives later.
    #[inline(always)]
    pub(crate) fn recv_short(
        buffer: Part,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> ReceivedShort {
        // SAFETY: only `LastingArg` calls this, with memory that outlasts the operation
        // (invariant).
        unsafe { endpoint.begin_recv_short(buffer, from, tag) }
    }

    #[inline(always)]
    pub(crate) fn recv(
        self,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and the list stays with it.
        let started = unsafe {
            match &self {
                Self::One(part) => endpoint.begin_recv(*part, from, tag),
                Self::List(parts) => endpoint.begin_recv_vectored(parts, from, tag),
            }
        };
        Ok(self.kept_by(started?))
    }

    /// Receives the message that a probe has matched.
    pub(crate) fn mrecv(self, world: &World, message: &Matched) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and the list stays with it.
        let started = unsafe {
            match &self {
                Self::One(part) => world.begin_mrecv(message, *part),
                Self::List(parts) => world.begin_mrecv_vectored(message, parts),
            }
        };
        Ok(self.kept_by(started?))
    }

    /// Returns the operation with the list that it uses.
    #[inline(always)]
    fn kept_by(self, operation: Unscoped) -> PendingOperation {
        match self {
            Self::One(_) => PendingOperation::new(operation),
            Self::List(parts) => PendingOperation::with_parts(operation, parts),
        }
    }
}

/// Memory of one operation on a window, or memory that a window exposes.
///
/// Invariant: the memory stays valid, and nothing else writes it, until the operation, window or
/// attachment has ended.
#[derive(Debug)]
pub(crate) struct WindowMemory(Part);

impl WindowMemory {
    pub(super) const fn new(part: Part) -> Self {
        Self(part)
    }

    pub(crate) fn put(
        self,
        window: &Window<'static>,
        target: u32,
        displacement: usize,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant).
        unsafe { window.begin_put(self.0, target, displacement) }.map(PendingOperation::new)
    }

    pub(crate) fn get(
        self,
        window: &Window<'static>,
        target: u32,
        displacement: usize,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant).
        unsafe { window.begin_get(self.0, target, displacement) }.map(PendingOperation::new)
    }

    /// Puts without a request. The next synchronisation completes the put.
    #[inline(always)]
    pub(crate) fn start_put(
        self,
        window: &Window<'static>,
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        // SAFETY: the memory lasts until the synchronisation that ends the operation (invariant).
        unsafe { window.start_put(self.0, target, displacement) }
    }

    /// Gets without a request. The next synchronisation completes the get.
    #[inline(always)]
    pub(crate) fn start_get(
        self,
        window: &Window<'static>,
        target: u32,
        displacement: usize,
    ) -> Result<(), Error> {
        // SAFETY: the memory lasts until the synchronisation that ends the operation (invariant).
        unsafe { window.start_get(self.0, target, displacement) }
    }

    /// Creates a window over the memory.
    pub(crate) fn create_window(
        self,
        group: &Group<'static>,
        unit: usize,
        options: WindowOptions,
    ) -> Result<Window<'static>, Error> {
        let Part { base, length } = self.0;
        // SAFETY: the memory outlasts the window (invariant).
        unsafe { Window::builder(group).unit(unit).options(options).over_raw(base, length) }
    }

    /// Attaches the memory to a dynamic window.
    pub(crate) fn attach(self, window: &Window<'_>) -> Result<Attached, Error> {
        let Part { base, length } = self.0;
        // SAFETY: the memory outlasts the attachment (invariant).
        unsafe { window.attach_over(base, length) }
    }
}
