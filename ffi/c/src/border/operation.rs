//! Memory that C lends to an operation, and the operations that use it.

use shim::{
    Attached, Endpoint, Error, Group, Matched, Part, Unscoped, Window, WindowOptions, World,
};

use crate::requests::PendingOperation;

/// Memory of one operation, window or attachment.
///
/// Invariant: the memory stays valid, and nothing else writes it, until the operation, window or
/// attachment has ended. A [`PendingOperation`] ends when its request in C does.
#[derive(Debug)]
pub(crate) struct OperationBuffer(Part);

impl OperationBuffer {
    pub(super) const fn new(part: Part) -> Self {
        Self(part)
    }

    #[inline(always)]
    pub(crate) fn send(
        self,
        endpoint: Endpoint<'_>,
        to: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant).
        unsafe { endpoint.begin_send(self.0, to, tag) }.map(PendingOperation::new)
    }

    pub(crate) fn ssend(
        self,
        endpoint: Endpoint<'_>,
        to: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant).
        unsafe { endpoint.begin_ssend(self.0, to, tag) }.map(PendingOperation::new)
    }

    #[inline(always)]
    pub(crate) fn recv(
        self,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant).
        unsafe { endpoint.begin_recv(self.0, from, tag) }.map(PendingOperation::new)
    }

    /// Receives the message that a probe has matched.
    pub(crate) fn mrecv(self, world: &World, message: &Matched) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant).
        unsafe { world.begin_mrecv(message, self.0) }.map(PendingOperation::new)
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

/// Memory of one operation, in several parts. The list stays with the operation.
///
/// Invariant: each part stays valid, and nothing else writes it, until the operation has ended.
#[derive(Debug)]
pub(crate) struct OperationParts(Box<[Part]>);

impl OperationParts {
    pub(super) const fn new(parts: Box<[Part]>) -> Self {
        Self(parts)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|part| part.length as u64).sum()
    }

    pub(crate) fn send(
        self,
        endpoint: Endpoint<'_>,
        to: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and so does the list.
        self.start(|parts| unsafe { endpoint.begin_send_vectored(parts, to, tag) })
    }

    pub(crate) fn ssend(
        self,
        endpoint: Endpoint<'_>,
        to: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and so does the list.
        self.start(|parts| unsafe { endpoint.begin_ssend_vectored(parts, to, tag) })
    }

    pub(crate) fn recv(
        self,
        endpoint: Endpoint<'_>,
        from: u32,
        tag: u32,
    ) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and so does the list.
        self.start(|parts| unsafe { endpoint.begin_recv_vectored(parts, from, tag) })
    }

    /// Receives the message that a probe has matched.
    pub(crate) fn mrecv(self, world: &World, message: &Matched) -> Result<PendingOperation, Error> {
        // SAFETY: the memory outlasts the operation (invariant), and so does the list.
        self.start(|parts| unsafe { world.begin_mrecv_vectored(message, parts) })
    }

    /// Starts an operation with the list, and keeps the list for it.
    fn start(
        self,
        start: impl FnOnce(&[Part]) -> Result<Unscoped, Error>,
    ) -> Result<PendingOperation, Error> {
        let started = start(&self.0)?;
        Ok(PendingOperation::with_parts(started, self.0))
    }
}
