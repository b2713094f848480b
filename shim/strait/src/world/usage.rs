//! What a rank reports about itself: warnings, and counts of what its engine uses.

use strait_core::engine::{InUse, RemoteTransfers, Rtrs, UnexpectedUsage};

use super::World;
use crate::{Error, Warning};

impl World {
    /// Returns the warnings since the last call of this function. The library prints none, so that
    /// a program decides where they go:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), strait::Error> {
    /// let world = strait::World::init()?;
    /// for warning in world.take_warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// - [`Warning::UnknownVariable`] comes at the start, at rank 0. `strait run` prints it itself,
    ///   and then no rank has it.
    /// - [`Warning::CopyRefused`] comes at any time, at most once for each peer.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.take();
        let refusals = self.lock_progress().cma().take_refusals();
        warnings.extend(refusals.into_iter().map(Warning::CopyRefused));
        warnings
    }

    /// Returns the private memory that unexpected messages of all sources take now, and the most
    /// that they have taken. `STRAIT_UNEXPECTED_MAX` bounds it for each source. Messages that the
    /// source had handed over before the limit was reached are additional.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("{:?}", world.held());
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn held(&self) -> UnexpectedUsage {
        self.lock_progress().held()
    }

    /// Returns counts of the outcomes of RTRs. A receiver that comes first asks for a large message
    /// with an RTR.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("{:?}", world.rtrs());
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.
    #[must_use]
    pub fn rtrs(&self) -> Rtrs {
        self.lock_progress().rtrs()
    }

    /// Returns counts of the large messages from other nodes that were announced before they met
    /// their receives: those that this rank read, and those that it had their senders write.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("{:?}", world.remote_transfers());
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn remote_transfers(&self) -> RemoteTransfers {
        self.lock_progress().remote_transfers()
    }

    /// Returns counts of the objects that the engine uses, for tests that look for leaks.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`].
    #[doc(hidden)]
    pub fn in_use(&self) -> Result<InUse, Error> {
        self.lock_progress().in_use().map_err(Error::Corrupt)
    }
}
