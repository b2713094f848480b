//! Progress for a caller that does not say what it waits for, with a record for observers.

use super::Port;
use crate::Error;
use crate::world::PortWait;

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
        self.world.poll_in_wait(&self.polls, what)
    }

    /// Returns whether processes of other universes may send messages.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.pending_peers.borrow().is_none()
    }
}
