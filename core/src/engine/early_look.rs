//! Whether a receive that is posted looks for its message at once.
//!
//! A look that finds nothing is not free: it takes the next line from the cache of the peer, which
//! is about to write it. So in an exchange (post a receive, send, wait) such a look delays both the
//! send behind it and the peer's message. It is worth its price where messages come before their
//! receives, because a receive that finds its message is never posted.

/// Longest receive, in bytes, that may be posted without a look. When longer messages cross, each
/// side writes many lines that the other one reads, and it helps if one side is behind: 1 KiB both
/// ways takes 1.1 µs between far cores with the look, and 1.6 without.
const LONGEST: usize = 256;

/// Number of waits in a row that must find their message at their first look before receives look
/// at once.
const EARLY_MIN: u8 = 2;

/// Predicts from the last waits whether messages come before their receives.
#[derive(Debug, Default)]
pub(super) struct EarlyLook {
    /// Number of waits in a row, up to [`EARLY_MIN`], that found a message at their first look.
    early: u8,
    /// Whether the last receive was posted without a look, and no wait has looked since.
    is_open: bool,
    /// Number of waits so far that followed a receive.
    batch: u32,
}

impl EarlyLook {
    /// Starts a receive of up to `length` bytes, and returns whether it looks. `last` is the batch
    /// in which a receive from the same source was last started.
    ///
    /// The second receive from a source before a wait looks in any case: a sender of many messages
    /// needs its lines back.
    #[inline(always)]
    pub(super) fn should_look(&mut self, length: usize, last: &mut u32) -> bool {
        let is_second = core::mem::replace(last, self.batch) == self.batch;
        let looks = is_second || length > LONGEST || self.early == EARLY_MIN;
        self.is_open |= !looks;
        looks
    }

    /// Notes that a receive looked and found nothing, so it is posted.
    #[inline(always)]
    pub(super) fn looked_in_vain(&mut self) {
        self.early = 0;
        self.is_open = true;
    }

    /// Notes whether a wait found a message at a look. Only the first look after a receive was
    /// posted counts.
    #[inline(always)]
    pub(super) fn wait_looked(&mut self, found: bool) {
        if core::mem::replace(&mut self.is_open, false) {
            self.batch = self.batch.wrapping_add(1);
            self.early = if found { EARLY_MIN.min(self.early + 1) } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a receive, and waits for it. `has_come`: the message is there. Returns whether the
    /// receive looked.
    fn round(early: &mut EarlyLook, last: &mut u32, has_come: bool) -> bool {
        let looks = early.should_look(8, last);
        if !(looks && has_come) {
            if looks {
                early.looked_in_vain();
            }
            early.wait_looked(has_come);
        }
        looks
    }

    #[test]
    fn receives_look_once_messages_come_first() {
        let (mut early, mut last) = (EarlyLook::default(), 7);
        let looked = [true; 4].map(|come| round(&mut early, &mut last, come));
        assert_eq!(looked, [false, false, true, true]);
        let looked = [false, false, true, false, true, true, true];
        let looked = looked.map(|come| round(&mut early, &mut last, come));
        assert_eq!(looked, [true, false, false, false, false, false, true]);
    }

    #[test]
    fn later_looks_of_a_wait_say_nothing() {
        let (mut early, mut last) = (EarlyLook::default(), 7);
        for _ in 0..4 {
            assert!(!early.should_look(8, &mut last));
            early.wait_looked(false);
            (0..3).for_each(|_| early.wait_looked(true));
        }
    }

    #[test]
    fn the_second_receive_before_a_wait_looks_for_its_own_source_alone() {
        let (mut early, mut sources) = (EarlyLook::default(), [7, 7]);
        for _ in 0..3 {
            let looked = [0, 1, 0, 1, 0].map(|at| early.should_look(8, &mut sources[at]));
            assert_eq!(looked, [false, false, true, true, true]);
            early.wait_looked(false);
        }
    }

    #[test]
    fn long_receives_look() {
        let (mut early, mut last) = (EarlyLook::default(), 7);
        assert!(early.should_look(LONGEST + 1, &mut last));
        early.looked_in_vain();
        early.wait_looked(false);
        assert!(!early.should_look(LONGEST, &mut last));
    }
}
