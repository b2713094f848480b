//! Which contexts speculate: a choice for all, and for some of their own.

use super::Engine;
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::Rendezvous;

/// The choice of one context.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnChoice {
    context: u32,
    rendezvous: Rendezvous,
}

impl<M: Memory + Clone> Engine<M> {
    /// How large messages of `context` are negotiated.
    #[must_use]
    pub fn rendezvous(&self, context: u32) -> Rendezvous {
        let mut own = self.own_choices.iter().map(|(_, own)| own);
        own.find(|own| own.context == context).map_or(self.tuning.rendezvous, |own| own.rendezvous)
    }

    /// Chooses how large messages of `context` are negotiated from now on; `None`: as those of other contexts
    /// ([`super::Tuning::rendezvous`]). Ranks need not agree. Every choice makes large messages of any context slower by a
    /// comparison.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the choice is as it was.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn choose_rendezvous(
        &mut self,
        context: u32,
        choice: Option<Rendezvous>,
    ) -> Result<(), OutOfMemory> {
        self.own_choices.reserve()?;
        let mut choices = self.own_choices.iter();
        let present = choices.find(|(_, own)| own.context == context).map(|(number, _)| number);
        drop(choices);
        if let Some(number) = present {
            self.own_choices.remove(number);
        }
        if let Some(rendezvous) = choice {
            self.own_choices.insert(OwnChoice { context, rendezvous })?;
        }
        Ok(())
    }
}
