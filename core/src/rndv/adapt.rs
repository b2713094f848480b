//! The dynamic part of the adaptation (`[SpecRndv09]` §3.6): the RTR usage factor of an envelope
//! and its effect.
//!
//! When fewer than [`USAGE_MIN`] percent of [`SAMPLES`] RTRs were used, the next RTS says stop-RTR.
//! It does so as soon as too many RTRs are unused for the remaining ones to make up for it. An
//! envelope that continues keeps up to four times as many samples, so that a few chance misses do
//! not stop it.
//!
//! The paper stops there. Here, speculation is retried after [`PAUSE_MIN`] further rendezvous
//! messages of the envelope, so that a program benefits again after it changes phase. Each failed
//! trial doubles the pause, up to [`PAUSE_MAX`]. A trial wastes four RTRs and those in flight: in
//! the long run, fewer than 1 message in 500.

use super::Rules;

/// Percentage of received RTRs that must be used; speculation stops below it. This is the paper's
/// threshold.
pub const USAGE_MIN: u32 = 80;

/// Minimum number of RTRs in a decision.
pub const SAMPLES: u32 = 16;

/// Number of past RTRs that keep their full weight, as a multiple of [`SAMPLES`]. Above it, counts
/// are halved.
const HISTORY: u32 = 4;

/// Number of rendezvous messages of an envelope in its first pause of speculation.
pub const PAUSE_MIN: u32 = 16;

/// Maximum number of rendezvous messages in a pause.
pub const PAUSE_MAX: u32 = 4096;

/// The use of the latest RTRs of one envelope (`[SpecRndv09]` §3.6, the RTR usage factor).
///
/// ```
/// use strait_core::rndv::{All, UsageFactor};
///
/// let mut factor = UsageFactor::new::<All>();
/// for message in 0..4 {
///     factor.heard();
///     // The RTR was not used. After four of fewer than 16, the result is certain.
///     assert_eq!(factor.stops::<All>(0), message == 3);
/// }
/// assert!(factor.is_paused());
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct UsageFactor {
    heard: u32,
    used: u32,
    /// Messages until RTRs are requested again; zero while RTRs are requested.
    pause: u32,
    /// Length of the next pause, in messages.
    next_pause: u32,
}

impl UsageFactor {
    /// Creates the factor of an envelope without RTRs.
    #[must_use]
    pub const fn new<R: Rules>() -> Self {
        Self { heard: 0, used: 0, pause: 0, next_pause: R::PAUSE_MIN }
    }

    /// Returns whether no RTR is wanted for a while.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.pause > 0
    }

    /// Counts an RTR that has arrived. An RTR that arrives in a pause was sent before it and is not
    /// counted.
    pub const fn heard(&mut self) {
        if !self.is_paused() {
            self.heard = self.heard.saturating_add(1);
        }
    }

    /// Counts an RTR that is used.
    pub const fn used(&mut self) {
        self.used = self.used.saturating_add(1);
    }

    /// Takes back the last count of a used RTR.
    pub const fn unused(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    /// Notes that a message leaves without an RTR, while `kept` RTRs are still usable. Returns true
    /// if its RTS says stop-RTR.
    pub fn stops<R: Rules>(&mut self, kept: u32) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return self.pause > 0;
        }
        let settled = self.heard.saturating_sub(kept);
        let judged = settled.max(R::SAMPLES);
        let most = u64::from(judged - (settled - self.used.min(settled)));
        let low = most * 100 < u64::from(R::USAGE_MIN) * u64::from(judged);
        if low {
            (self.heard, self.used) = (0, 0);
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(R::PAUSE_MAX);
            return true;
        }
        if settled < R::SAMPLES {
            return false;
        }
        self.next_pause = R::PAUSE_MIN;
        let halvings = (settled / (HISTORY * R::SAMPLES)).checked_ilog2().map_or(0, |log| log + 1);
        (self.heard, self.used) = (kept + (settled >> halvings), self.used >> halvings);
        false
    }
}
