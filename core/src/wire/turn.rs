//! The numbers that assign an RTR to its message.

use core::num::NonZeroU32;

/// The place of a rendezvous message in its envelope, as RTS, RTR and RTR-ACK carry it.
///
/// Turns increase by one from one rendezvous message to the next, and by more if other messages lie
/// between. They wrap. Two compared turns are never 2^31 messages apart, because an RTR arrives and
/// its receive completes long before that.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct Turn(NonZeroU32);

impl Turn {
    /// The first turn of an envelope.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the turn as a packet carries it; zero means no turn.
    #[inline(always)]
    #[must_use]
    pub const fn word(turn: Option<Self>) -> u32 {
        match turn {
            Some(Self(turn)) => turn.get(),
            None => 0,
        }
    }

    /// Parses the result of [`Turn::word`]. Every word is valid.
    #[inline(always)]
    #[must_use]
    pub const fn parse(word: u32) -> Option<Self> {
        match NonZeroU32::new(word) {
            Some(turn) => Some(Self(turn)),
            None => None,
        }
    }

    /// Returns the turn that is `messages` messages later.
    #[inline]
    pub(crate) const fn after(self, messages: u32) -> Self {
        match Self::parse(self.0.get().wrapping_add(messages)) {
            Some(turn) => turn,
            None => Self::FIRST,
        }
    }

    /// Returns how many messages later than `other` it is, or `None` if it is earlier.
    #[inline]
    pub(crate) const fn since(self, other: Self) -> Option<u32> {
        let messages = self.0.get().wrapping_sub(other.0.get());
        if messages >> 31 == 0 { Some(messages) } else { None }
    }

    /// Returns its index among `places` entries; `places` divides 2^32.
    #[inline]
    pub(crate) const fn place(self, places: u32) -> usize {
        (self.0.get() % places) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(word: u32) -> Turn {
        Turn::parse(word).unwrap()
    }

    #[test]
    fn turns_are_compared_across_the_wrap() {
        for start in [1, 7, u32::MAX - 9, u32::MAX - 3, u32::MAX] {
            let first = turn(start);
            assert_eq!(first.since(first), Some(0));
            let mut later = first;
            for steps in 1..20 {
                later = later.after(1);
                // Zero is skipped, so a step across it counts two.
                let apart = later.since(first).unwrap();
                assert!(apart == steps || apart == steps + 1, "{apart} after {steps}");
                assert_eq!(first.since(later), None);
            }
        }
    }

    #[test]
    fn turns_that_are_close_have_places_of_their_own() {
        for start in [1, u32::MAX - 11, u32::MAX - 3] {
            let mut next = turn(start);
            let mut taken = [false; 8];
            while next.since(turn(start)).unwrap() < 8 {
                let place = next.place(8);
                assert!(!core::mem::replace(&mut taken[place], true), "{next:?}");
                next = next.after(1);
            }
        }
    }

    #[test]
    fn zero_is_no_turn() {
        assert_eq!(Turn::parse(0), None);
        assert_eq!(Turn::word(None), 0);
        for word in [1, u32::MAX] {
            assert_eq!(Turn::word(Turn::parse(word)), word);
        }
    }
}
