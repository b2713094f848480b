//! Progress for a caller that does not say what it waits for, with a record for observers.

use strait_core::layout::{UnexpectedSummary, Wait};

use super::Port;
use crate::Error;

/// What a process waits for, as far as its operations tell.
#[derive(Clone, Copy, Debug)]
pub struct PortWait {
    /// The wait.
    pub wait: Wait,
    /// The messages that no receive has taken.
    pub unexpected: UnexpectedSummary,
    /// Number of accesses to the memory of other processes so far, which move no packets.
    pub accesses: u64,
}

impl Port {
    /// Makes progress like [`Port::poll`], for a caller that does not say what it waits for.
    /// `what` says so as far as the operations of this port tell. It is called seldom, and serves
    /// observers.
    ///
    /// # Errors
    ///
    /// The errors of [`Port::poll`].
    pub fn poll_in_wait(&self, what: impl Fn() -> Option<PortWait>) -> Result<(), Error> {
        self.attend()?;
        self.world.poll_in_wait(&self.idle, what)
    }

    /// Returns whether processes of other universes may send messages.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.pending_peers.borrow().is_none()
    }
}
