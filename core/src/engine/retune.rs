//! The tuning of an engine, and its replacement.

use super::{Engine, Tuning};
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Returns the tuning in force.
    #[must_use]
    pub const fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Replaces the tuning for messages that start from now on. Ranks need not agree on it.
    pub fn retune(&mut self, tuning: Tuning) {
        self.tuning = tuning.within_limits();
        self.posted.allow_bypass(tuning.bypass);
        self.early.retune(&tuning);
    }
}
