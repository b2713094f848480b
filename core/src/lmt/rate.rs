//! What the last messages by one transfer cost.

/// Number of measurements of a candidate that count; they are the newest. The second lowest one is
/// its cost. A rank that loses its processor for a while raises the measured cost of a message, and
/// on a busy machine that of many messages. It seldom lowers one.
const COUNTED: usize = 5;

/// Number of runs before the first trial of a candidate.
pub(super) const FIRST_TRIAL: u32 = 12;

/// Number of measurements before a candidate is compared with the others.
pub(super) const ENOUGH: u8 = 3;

/// Cost, in nanoseconds per mebibyte, above which the candidate of the place raises a doubt: the
/// line was timed wrongly, or the receiver has never touched its buffers, so that each page is a
/// fault. Each ring costs less than half of it at its place, into buffers in use.
pub(super) const DOUBTFUL: u32 = 210_000;

/// Number of measurements of the candidate of the place that raise a doubt if all are high. One may
/// be that of a rank that lost its processor.
pub(super) const DOUBTED: u8 = 2;

/// Number of runs between two trials of a candidate that costs as much as the best. It starts at
/// the least, restarts there when costs have changed, and doubles with each trial up to the most.
pub(super) const SPACING_LEAST: u32 = 8;
pub(super) const SPACING_MOST: u32 = 128;

/// The cost of a candidate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// Costs measured in the last runs, in nanoseconds per mebibyte.
    measured: [u32; COUNTED],
    /// Number of valid entries in `measured`.
    pub(super) known: u8,
    /// Index of the oldest entry.
    oldest: u8,
    /// Number of runs until the next trial.
    pub(super) wait: u32,
    /// Number of runs between two trials, if the candidate costs as much as the best.
    pub(super) spacing: u32,
}

impl Rate {
    pub(super) const fn is_known(&self) -> bool {
        self.known >= ENOUGH
    }

    /// Returns the second lowest of the measured costs that count, or zero without any.
    pub(super) fn cost(&self) -> u32 {
        self.ranked(1.min(self.known.saturating_sub(1)))
    }

    /// Returns the median of the measured costs that count, or zero without any.
    pub(super) fn median(&self) -> u32 {
        self.ranked(self.known / 2)
    }

    /// Returns the measured cost with `lower` lower ones.
    fn ranked(&self, lower: u8) -> u32 {
        let mut measured = self.measured;
        let known = &mut measured[..usize::from(self.known)];
        known.sort_unstable();
        known.get(usize::from(lower)).copied().unwrap_or(0)
    }

    /// Returns the lowest of the measured costs that count, or zero without any.
    pub(super) fn least(&self) -> u32 {
        self.measured[..usize::from(self.known)].iter().copied().min().unwrap_or(0)
    }

    /// Returns whether each measurement was higher than a ring needs at its place.
    pub(super) fn is_doubtful(&self) -> bool {
        self.known >= DOUBTED && self.least() > DOUBTFUL
    }

    /// Returns the number of runs until the next trial if the best candidate costs `least`.
    pub(super) fn pause(&mut self, least: u32) -> u32 {
        let spacing = self.spacing.max(SPACING_LEAST);
        self.spacing = (2 * spacing).min(SPACING_MOST);
        let wait = u64::from(spacing) * u64::from(self.cost()) / u64::from(least);
        u32::try_from(wait).unwrap_or(u32::MAX)
    }

    /// Makes trials happen soon.
    pub(super) fn hasten(&mut self) {
        self.spacing = SPACING_LEAST;
        self.wait = self.wait.min(SPACING_LEAST);
    }

    pub(super) fn learn(&mut self, cost: u32) {
        self.measured[usize::from(self.oldest)] = cost;
        self.oldest = (self.oldest + 1) % COUNTED as u8;
        self.known = (self.known + 1).min(COUNTED as u8);
    }
}
