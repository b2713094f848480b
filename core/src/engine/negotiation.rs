//! The rendezvous that each context uses: one choice for all, and own choices for some.

use super::Engine;
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::Rendezvous;

impl<M: Memory + Clone> Engine<M> {
    /// Returns how large messages of `context` are negotiated.
    #[must_use]
    pub fn rendezvous(&self, context: u32) -> Rendezvous {
        self.rendezvous_choices.of(context).unwrap_or(self.tuning.rendezvous)
    }

    /// Chooses how large messages of `context` are negotiated from now on. `None` selects the
    /// choice for all contexts ([`super::Tuning::rendezvous`]).
    ///
    /// Ranks need not agree. Each own choice makes large messages of any context slower by one
    /// comparison.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the choice is unchanged.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn choose_rendezvous(
        &mut self,
        context: u32,
        choice: Option<Rendezvous>,
    ) -> Result<(), OutOfMemory> {
        self.rendezvous_choices.set(context, choice)
    }
}
