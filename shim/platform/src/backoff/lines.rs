//! The wait of a sender for lines.

use strait_core::sync::spin_hint;

use super::{POLLS_PER_LINE, SpinLimits};

/// The wait of a sender for a free line. It is short, because the message may take another path.
#[derive(Debug)]
pub struct LineBackoff {
    polls: u32,
    left: u32,
    may_yield: bool,
}

impl LineBackoff {
    /// Starts a wait of a rank that waits under `limits`. With more ranks than processors the
    /// receiver may need this processor, so that the wait is one yield.
    #[inline]
    #[must_use]
    pub const fn new(limits: SpinLimits) -> Self {
        let is_crowded = limits.polls < POLLS_PER_LINE;
        let polls = if is_crowded { 0 } else { POLLS_PER_LINE };
        Self { polls, left: polls, may_yield: is_crowded }
    }

    /// Starts over, because the receiver has taken packets.
    #[inline]
    pub const fn moved(&mut self) {
        self.left = self.polls;
    }

    /// Spins or yields once. Returns false when the wait is over.
    #[inline]
    pub fn pause(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            spin_hint();
            return true;
        }
        if core::mem::take(&mut self.may_yield) {
            std::thread::yield_now();
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_line_is_short_unless_packets_are_taken() {
        let mut backoff = LineBackoff::new(SpinLimits::new(2, 2));
        assert!((0..POLLS_PER_LINE).all(|_| backoff.pause()) && !backoff.pause());
        backoff.moved();
        assert!(backoff.pause());
        let mut crowded = LineBackoff::new(SpinLimits::new(3, 2));
        assert_eq!([(); 3].map(|()| crowded.pause()), [true, false, false]);
    }
}
