//! Pending operations: what the handle of a request leads to.

use shim::raw::{Part, Unscoped};
use shim::{Wait, World};

/// A pending operation, and the list of buffers that it uses.
///
/// It must be complete or settled before it is dropped, since C may reuse the buffers then.
#[derive(Debug)]
#[must_use = "an operation that is not over has to be kept or settled"]
pub(crate) struct PendingOperation {
    operation: Unscoped,
    parts: Option<Box<[Part]>>,
    has_status: bool,
}

impl PendingOperation {
    #[inline(always)]
    pub(crate) const fn new(operation: Unscoped) -> Self {
        Self { operation, parts: None, has_status: true }
    }

    pub(crate) const fn with_parts(operation: Unscoped, parts: Box<[Part]>) -> Self {
        Self { operation, parts: Some(parts), has_status: true }
    }

    /// Notes that C gets no status of this operation: it is a send (MPI-4.1 3.7.3).
    pub(crate) const fn without_status(mut self) -> Self {
        self.has_status = false;
        self
    }

    /// Returns whether the operation succeeded when it started, and has no status.
    #[inline(always)]
    pub(crate) fn needs_no_entry(&self) -> bool {
        !self.has_status && matches!(self.operation.outcome(), Some(Ok(_)))
    }

    /// Returns whether the operation uses a list of buffers.
    pub(crate) const fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    pub(crate) const fn operation(&self) -> &Unscoped {
        &self.operation
    }

    pub(crate) const fn operation_mut(&mut self) -> &mut Unscoped {
        &mut self.operation
    }

    /// Returns whether the operation is complete. Makes no progress.
    pub(crate) fn look(&mut self, world: &World) -> bool {
        self.operation.look(world)
    }

    /// Returns what the operation waits for.
    pub(crate) fn wait_of(&self, world: &World) -> Wait {
        self.operation.wait_of(world)
    }

    /// Ends the operation's claim on its buffers.
    pub(crate) fn settle(&mut self, world: &World) {
        self.operation.settle(world);
        self.parts = None;
    }
}
