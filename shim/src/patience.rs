//! How a rank passes the time while nothing moves.

use core::time::Duration;
use std::time::Instant;

use strait_core::sync::spin_hint;

/// Looks between two glances at the clock.
const LOOKS_PER_GLANCE: u32 = 1024;

/// Time between two looks at who still lives, while a rank looks for messages.
pub(crate) const LIVENESS_EVERY: Duration = Duration::from_millis(50);

/// The first sleep while nobody rings for all that may come.
const NAP: Duration = Duration::from_micros(50);

/// How often it is doubled.
const NAPS_MOST: u32 = 5;

/// Looks before the first yield to a device's thread: some tens of microseconds.
const LOOKS_BESIDE_DEVICES: u32 = 100;

/// How long to look before sleeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    /// Looks before the first yield.
    looks: u32,
    /// Yields, with a look each, before the first sleep.
    yields: u32,
}

impl Spin {
    /// For `ranks` ranks on `cpus` processors. With a processor for each rank a yield costs latency and gains nothing,
    /// so spin long; otherwise whom we wait for may need our processor, so give way soon, and when the others had their
    /// turn and nothing came, get out of their way.
    pub(crate) const fn new(ranks: u32, cpus: usize) -> Self {
        if ranks as usize <= cpus {
            Self { looks: 20_000, yields: 1000 }
        } else {
            Self { looks: 20, yields: 10 }
        }
    }

    /// For one of `ranks` ranks on `cpus` processors whose devices have a thread each. Where there are not enough for those too, a
    /// thread may wait for ours: it gets it after less than it takes to wake up, by a yield, which costs nothing where
    /// nobody waits.
    pub(crate) const fn beside_devices(self, ranks: u32, cpus: usize) -> Self {
        let Self { looks, yields } = self;
        if 2 * ranks as usize <= cpus || looks < LOOKS_BESIDE_DEVICES {
            self
        } else {
            Self { looks: LOOKS_BESIDE_DEVICES, yields: looks + yields - LOOKS_BESIDE_DEVICES }
        }
    }

    /// Sleeps at once.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self { looks: 0, yields: 0 }
    }

    /// Looks before the first yield.
    pub(crate) const fn looks(self) -> u32 {
        self.looks
    }
}

/// What to do after a look that found nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pass {
    /// Look again.
    Again,
    /// Look who still lives, and then again.
    LookForTheGone,
    /// Sleep until the doorbell rings, and then look again.
    Sleep,
}

impl Spin {
    /// The same, but for yields.
    pub(crate) const fn without_yields(self) -> Self {
        Self { yields: 0, ..self }
    }
}

/// One wait: spins, then yields, then sleeps, and says when it is time to look who still lives.
#[derive(Debug)]
pub(crate) struct Patience {
    spin: Spin,
    looks: u32,
    /// How often what is doubled with each nap was.
    naps: u32,
    until_glance: u32,
    /// What `until_glance` was counted down from.
    glance_after: u32,
    /// Looks before the last glance.
    turns: u64,
    checked: Option<Instant>,
}

impl Patience {
    pub(crate) const fn new(spin: Spin) -> Self {
        let first = LOOKS_PER_GLANCE;
        let (until_glance, glance_after) = (first, first);
        Self { spin, looks: 0, naps: 0, until_glance, glance_after, turns: 0, checked: None }
    }

    /// Something moved: what is awaited may come soon.
    pub(crate) const fn reset(&mut self) {
        self.looks = 0;
        self.naps = 0;
    }

    /// [`Patience::reset`] in a loop that may go round for ever, each time because something moves. Says whether it is time to look
    /// who still lives.
    pub(crate) fn moved(&mut self) -> bool {
        self.reset();
        self.is_time_to_check()
    }

    /// Number of looks until the last time that [`Patience::pass`] or [`Patience::moved`] read the clock.
    pub(crate) const fn turns(&self) -> u64 {
        self.turns
    }

    /// Has the next look read the clock.
    const fn glance_next(&mut self) {
        self.turns += (self.glance_after - self.until_glance) as u64;
        (self.until_glance, self.glance_after) = (1, 1);
    }

    /// Counts one look, and reads the clock after many.
    fn is_time_to_check(&mut self) -> bool {
        self.until_glance -= 1;
        if self.until_glance > 0 {
            return false;
        }
        self.turns += u64::from(self.glance_after);
        (self.until_glance, self.glance_after) = (LOOKS_PER_GLANCE, LOOKS_PER_GLANCE);
        let now = Instant::now();
        let is_time = self.checked.is_none_or(|last| now.duration_since(last) >= LIVENESS_EVERY);
        if is_time {
            self.checked = Some(now);
        }
        is_time
    }

    /// How long to sleep while nobody rings for all that may come: longer each time, so that a rank that waits for long is not
    /// in the way of those that it waits for.
    pub(crate) fn nap(&mut self) -> Duration {
        let nap = NAP * (1 << self.naps);
        self.naps = (self.naps + 1).min(NAPS_MOST);
        nap
    }

    /// A sleep has ended and nothing had come: see on the clock whether it is time to look who still lives.
    pub(crate) const fn glance(&mut self) {
        self.glance_next();
    }

    /// Not all is known yet of one who is gone: look again.
    pub(crate) const fn wonder(&mut self) {
        self.glance_next();
        self.checked = None;
    }

    /// Passes a moment, or says how to.
    pub(crate) fn pass(&mut self) -> Pass {
        if self.is_time_to_check() {
            return Pass::LookForTheGone;
        }
        if self.looks < self.spin.looks {
            spin_hint();
        } else if self.looks < self.spin.looks + self.spin.yields {
            std::thread::yield_now();
        } else {
            return Pass::Sleep;
        }
        self.looks += 1;
        Pass::Again
    }
}

/// Calls that do not wait between two glances at the clock: few, since the program may compute in between.
const CALLS_PER_GLANCE: u32 = 32;

/// Says to a program that asks again and again instead of waiting when to look who still lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    calls_left: u32,
    checked: Option<Instant>,
}

impl Glance {
    pub(crate) const fn new() -> Self {
        Self { calls_left: CALLS_PER_GLANCE, checked: None }
    }

    /// Counts a call. True: look who still lives.
    pub(crate) fn is_due(&mut self) -> bool {
        self.calls_left -= 1;
        if self.calls_left > 0 {
            return false;
        }
        self.calls_left = CALLS_PER_GLANCE;
        let now = Instant::now();
        let due = self.checked.is_none_or(|last| now.duration_since(last) >= LIVENESS_EVERY);
        if due {
            self.checked = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_want_processors_are_given_way_to_soon_and_slept_for_late() {
        for (cpus, sooner) in [(2, true), (3, true), (4, false)] {
            let alone = Spin::new(1, cpus);
            let spin = alone.beside_devices(2, cpus);
            assert_eq!(spin.looks < alone.looks, sooner);
            assert_eq!(spin.looks + spin.yields, alone.looks + alone.yields);
        }
        let crowded = Spin::new(3, 2);
        assert_eq!(crowded.beside_devices(3, 2).looks, crowded.looks);
    }

    #[test]
    fn a_wait_spins_then_yields_then_sleeps() {
        for (ranks, cpus) in [(2, 2), (3, 2)] {
            let spin = Spin::new(ranks, cpus);
            let mut patience = Patience::new(spin);
            let mut looks = 0;
            while patience.pass() != Pass::Sleep {
                looks += 1;
            }
            assert!(looks >= spin.looks + spin.yields);
            assert_ne!(patience.pass(), Pass::Again, "until something moves");
            patience.reset();
            assert_ne!(patience.pass(), Pass::Sleep);
        }
    }

    #[test]
    fn naps_grow_until_something_moves() {
        let mut patience = Patience::new(Spin { looks: 0, yields: 0 });
        let naps: Vec<_> = (0..10).map(|_| patience.nap()).collect();
        assert!(naps.is_sorted() && naps[0] == NAP && naps[9] == NAP * 32, "{naps:?}");
        patience.reset();
        assert_eq!(patience.nap(), NAP);
    }

    #[test]
    fn who_wonders_looks_before_it_sleeps() {
        let mut patience = Patience::new(Spin { looks: 0, yields: 0 });
        assert_eq!(patience.pass(), Pass::Sleep);
        patience.wonder();
        assert_eq!(patience.pass(), Pass::LookForTheGone);
        assert_eq!(patience.pass(), Pass::Sleep);
    }
}
