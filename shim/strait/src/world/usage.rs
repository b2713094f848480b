//! Counts of what the engine uses.

use strait_core::engine::{InUse, Rtrs, UnexpectedUsage};

use super::World;
use crate::Error;

impl World {
    /// Returns the private memory that unexpected messages of all sources take now, and the most
    /// that they have taken. `STRAIT_UNEXPECTED_MAX` bounds it for each source. Messages that the
    /// source had handed over before the limit was reached are additional.
    #[must_use]
    pub fn held(&self) -> UnexpectedUsage {
        self.lock_progress().held()
    }

    /// Returns counts of the outcomes of RTRs. A receiver that comes first asks for a large message
    /// with an RTR.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.
    #[must_use]
    pub fn rtrs(&self) -> Rtrs {
        self.lock_progress().rtrs()
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
