//! The dynamic part of the adaptation (`[SpecRndv09]` §3.6): the RTR usage factor of an envelope, and what follows from it.
//!
//! When fewer than [`USAGE_MIN`] percent of [`SAMPLES`] RTRs were used, the next RTS says stop-RTR: as soon as so many are unused
//! that the others cannot make up for it. Of an envelope that goes on, up to four times as many count on, so that a few that
//! meet by chance stop nothing.
//! The paper leaves it there. Here it is tried again after [`PAUSE_MIN`] further rendezvous messages of the envelope, so that a
//! program that changes its phase is not lost; each time it fails again, after twice as many, up to [`PAUSE_MAX`]. A trial
//! wastes four RTRs and those on their way: below 1 message in 500 in the long run.

use super::Rules;

/// RTRs used, percent of those heard, below which speculation stops: the paper's threshold.
pub const USAGE_MIN: u32 = 80;

/// Fewest RTRs that are judged.
pub const SAMPLES: u32 = 16;

/// RTRs that count on once they are judged, in parts of [`SAMPLES`]; beyond, they count half.
const HISTORY: u32 = 4;

/// Rendezvous messages of an envelope for which speculation first stops.
pub const PAUSE_MIN: u32 = 16;

/// And at most.
pub const PAUSE_MAX: u32 = 4096;

/// What became of the last RTRs of one envelope.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Factor {
    heard: u32,
    used: u32,
    /// Messages until RTRs are asked for again; zero while they are.
    pause: u32,
    /// How long the next pause is.
    next_pause: u32,
}

impl Factor {
    pub(super) const fn new<R: Rules>() -> Self {
        Self { heard: 0, used: 0, pause: 0, next_pause: R::PAUSE_MIN }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.pause > 0
    }

    /// An RTR has come. What comes in a pause was sent before it and says nothing.
    pub(super) const fn heard(&mut self) {
        if !self.is_paused() {
            self.heard = self.heard.saturating_add(1);
        }
    }

    /// An RTR is used.
    pub(super) const fn used(&mut self) {
        self.used = self.used.saturating_add(1);
    }

    /// The use that was counted last is none.
    pub(super) const fn unused(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    /// A message leaves without an RTR, while `kept` are still of use: whether its RTS says stop-RTR.
    pub(super) fn stops<R: Rules>(&mut self, kept: u32) -> bool {
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
