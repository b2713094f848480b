//! Whether a receive that is posted looks for its message at once.
//!
//! A look that finds nothing is not free: it takes the next line from the cache of the peer, which
//! is about to write it. So in an exchange (post a receive, send, wait) such a look delays both the
//! send behind it and the peer's message. It is worth its price where messages come before their
//! receives, because a receive that finds its message is never posted.

use super::Tuning;

/// Longest receive, in bytes, that may be posted without a look. Where messages of 1 KiB cross,
/// each takes 131 ns near without the look and 162 with it (Zen 5); 562 and 638 far. From 16 KiB
/// on, there is no difference.
const LONGEST: u16 = 8192;

/// Number of waits in a row that must find their message at their first look before receives look
/// at once. It doubles, up to a limit, with each such look in vain: then messages come between
/// their receives and the waits for them, as in an exchange of ranks that go at one speed.
const EARLY_MIN: u8 = 2;
const EARLY_MAX: u8 = 64;

/// Number of receives of a window that do not look after one that looked in vain. Their messages
/// come meanwhile, and the next look takes all of them.
const REST: u8 = 7;

/// Predicts from the last waits whether messages come before their receives.
#[derive(Debug)]
pub(super) struct EarlyLook {
    /// Longest receive in bytes that may be posted without a look: [`LONGEST`], or less if shorter
    /// messages may be announced.
    longest: u16,
    /// Number of waits in a row that may still find a message at their first look before receives
    /// look at once. 0: they look.
    left: u8,
    /// The value of `left` after a wait that did not.
    needed: u8,
    /// Number of receives of a window that are posted without a look before the next one looks. 0
    /// unless `is_open`.
    rest: u8,
    /// Whether the last receive was posted without a look, and no wait has looked since.
    is_open: bool,
    /// Number of waits so far that followed a receive. It wraps: a source that comes again after so
    /// many waits is taken for one that has come before in this batch.
    batch: u16,
}

impl EarlyLook {
    pub(super) fn new(tuning: &Tuning) -> Self {
        let (left, needed) = (EARLY_MIN, EARLY_MIN);
        let mut early = Self { longest: 0, left, needed, rest: 0, is_open: false, batch: 0 };
        early.retune(tuning);
        early
    }

    /// Takes over the numbers that a user may tune.
    pub(super) fn retune(&mut self, tuning: &Tuning) {
        let longest = usize::from(LONGEST).min(tuning.eager_max).min(tuning.stream_max);
        self.longest = longest as u16;
    }

    /// Returns whether a receive of up to `length` bytes looks. `last` is the batch in which a
    /// receive from the same source was last started.
    ///
    /// The second receive from a source before a wait looks in any case: a sender of many messages
    /// needs its lines back. [`EarlyLook::starts`] has it rest after a look in vain.
    #[inline(always)]
    pub(super) const fn looks(&self, length: usize, last: u16) -> bool {
        last == self.batch || length > self.longest as usize || self.left == 0
    }

    /// Starts a receive as [`EarlyLook::looks`] has it, and returns whether it looks.
    #[inline(always)]
    pub(super) fn starts(&mut self, length: usize, last: &mut u16) -> bool {
        let looks = self.looks(length, *last);
        if *last == self.batch {
            // A look in vain within a window says nothing of receives that come alone.
            self.needed = EARLY_MIN;
            self.left = EARLY_MIN.min(self.left);
            if self.rest > 0 {
                self.rest -= 1;
                return false;
            }
        }
        if looks {
            *last = self.batch;
        } else {
            self.starts_without_look(last);
        }
        looks
    }

    /// Starts a receive that does not look.
    #[inline(always)]
    pub(super) const fn starts_without_look(&mut self, last: &mut u16) {
        *last = self.batch;
        self.is_open = true;
    }

    /// Notes that a receive looked and found its message.
    #[inline(always)]
    pub(super) const fn found_at_once(&mut self) {
        self.needed = EARLY_MIN;
    }

    /// Notes that a receive looked and found nothing, so it is posted.
    #[inline(always)]
    pub(super) fn looked_in_vain(&mut self) {
        if self.left == 0 {
            self.needed = EARLY_MAX.min(2 * self.needed);
        }
        self.left = self.needed;
        self.rest = REST;
        self.is_open = true;
    }

    /// Notes whether a wait found a message at a look. Only the first look after a receive was
    /// posted counts.
    #[inline(always)]
    pub(super) fn wait_looked(&mut self, found: bool) {
        if core::mem::replace(&mut self.is_open, false) {
            self.batch = self.batch.wrapping_add(1);
            self.rest = 0;
            self.left = if found { self.left.saturating_sub(1) } else { self.needed };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a receive, and waits for it. `has_come`: the message is there. Returns whether the
    /// receive looked.
    fn round(early: &mut EarlyLook, last: &mut u16, has_come: bool) -> bool {
        let looks = early.starts(8, last);
        match (looks, has_come) {
            (true, true) => early.found_at_once(),
            (true, false) => early.looked_in_vain(),
            (false, _) => {}
        }
        if !(looks && has_come) {
            early.wait_looked(has_come);
        }
        looks
    }

    #[test]
    fn receives_look_once_messages_come_first() {
        let (mut early, mut last) = (EarlyLook::new(&Tuning::default()), 7);
        let looked = [true; 4].map(|come| round(&mut early, &mut last, come));
        assert_eq!(looked, [false, false, true, true]);
        let came = [false, false, true, false, true, true, true, true, true];
        let looked = came.map(|come| round(&mut early, &mut last, come));
        assert_eq!(looked, [&[true][..], &[false; 7], &[true]].concat()[..]);
    }

    #[test]
    fn receives_look_ever_more_rarely_in_vain() {
        let (mut early, mut last) = (EarlyLook::new(&Tuning::default()), 7);
        let mut looks = 0;
        for _ in 0..1000 {
            // The message comes between its receive and the wait for it.
            if early.starts(8, &mut last) {
                early.looked_in_vain();
                looks += 1;
            }
            early.wait_looked(true);
        }
        assert_eq!(looks, 19);
        // After one that found its message, receives look as soon as before.
        while !early.starts(8, &mut last) {
            early.wait_looked(true);
        }
        early.found_at_once();
        let came = [false, true, true, true, true, true];
        let looked = came.map(|come| round(&mut early, &mut last, come));
        assert_eq!(looked, [true, false, false, false, false, true]);
    }

    #[test]
    fn later_looks_of_a_wait_say_nothing() {
        let (mut early, mut last) = (EarlyLook::new(&Tuning::default()), 7);
        for _ in 0..4 {
            assert!(!early.starts(8, &mut last));
            early.wait_looked(false);
            (0..3).for_each(|_| early.wait_looked(true));
        }
    }

    #[test]
    fn the_second_receive_before_a_wait_looks_for_its_own_source_alone() {
        let (mut early, mut sources) = (EarlyLook::new(&Tuning::default()), [7, 7]);
        for _ in 0..3 {
            let looked = [0, 1, 0, 1, 0].map(|at| early.starts(8, &mut sources[at]));
            assert_eq!(looked, [false, false, true, true, true]);
            early.wait_looked(false);
        }
    }

    #[test]
    fn a_window_rests_after_a_look_in_vain() {
        let (mut early, mut last) = (EarlyLook::new(&Tuning::default()), 7);
        for _ in 0..3 {
            assert!(!early.starts(8, &mut last));
            for _ in 0..2 {
                assert!(early.starts(8, &mut last));
                early.looked_in_vain();
                (0..REST).for_each(|_| assert!(!early.starts(8, &mut last)));
            }
            // The next window begins with a look of its second receive.
            assert!(early.starts(8, &mut last));
            early.looked_in_vain();
            early.wait_looked(false);
        }
    }

    #[test]
    fn long_receives_look() {
        let (mut early, mut last) = (EarlyLook::new(&Tuning::default()), 7);
        assert!(early.starts(usize::from(LONGEST) + 1, &mut last));
        early.looked_in_vain();
        early.wait_looked(false);
        assert!(!early.starts(LONGEST.into(), &mut last));
    }
}
