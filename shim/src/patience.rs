//! How a rank passes the time while nothing moves.

use core::time::Duration;
use std::time::Instant;

use strait_core::sync::spin_hint;

/// Looks between two glances at the clock.
const LOOKS_PER_GLANCE: u32 = 1024;

/// Time between two looks at who still lives.
const LIVENESS_EVERY: Duration = Duration::from_millis(50);

/// How long to spin before the processor is offered to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    /// Looks before the first yield.
    looks: u32,
}

impl Spin {
    /// For `ranks` ranks on `cpus` processors. With a processor for each rank a yield costs latency and gains nothing,
    /// so spin long; otherwise whom we wait for may need our processor, so give way soon.
    pub(crate) const fn new(ranks: u32, cpus: usize) -> Self {
        Self { looks: if ranks as usize <= cpus { 20_000 } else { 20 } }
    }

    /// Looks before the first yield.
    pub(crate) const fn looks(self) -> u32 {
        self.looks
    }
}

/// One wait: spins, then yields, and says when it is time to look who still lives.
#[derive(Debug)]
pub(crate) struct Patience {
    spin: Spin,
    looks: u32,
    until_glance: u32,
    checked: Option<Instant>,
}

impl Patience {
    pub(crate) const fn new(spin: Spin) -> Self {
        Self { spin, looks: 0, until_glance: LOOKS_PER_GLANCE, checked: None }
    }

    /// Something moved: what is awaited may come soon.
    pub(crate) const fn reset(&mut self) {
        self.looks = 0;
    }

    /// Passes a moment. True: look who still lives.
    pub(crate) fn pass(&mut self) -> bool {
        if self.looks < self.spin.looks {
            self.looks += 1;
            spin_hint();
        } else {
            std::thread::yield_now();
        }
        self.until_glance -= 1;
        if self.until_glance > 0 {
            return false;
        }
        self.until_glance = LOOKS_PER_GLANCE;
        let now = Instant::now();
        let due = self.checked.is_none_or(|last| now.duration_since(last) >= LIVENESS_EVERY);
        if due {
            self.checked = Some(now);
        }
        due
    }
}
