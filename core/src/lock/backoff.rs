//! The time to wait before the next look at a lock that was found held (`[OneSided04]` §4.3.1).

/// Exponential backoff: each pause is twice as long as the previous one, up to a limit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LockBackoff {
    next: u32,
    most: u32,
}

impl LockBackoff {
    /// Creates a backoff of 1 to `most` units. The embedder defines the unit. With a `most` of 1
    /// all pauses are equal.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { next: 1, most }
    }

    /// Returns the length of the next pause, in units.
    pub fn pause(&mut self) -> u32 {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.most);
        pause
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut backoff = LockBackoff::new(10);
        assert_eq!([(); 6].map(|()| backoff.pause()), [1, 2, 4, 8, 10, 10]);
        let mut none = LockBackoff::new(1);
        assert_eq!([(); 3].map(|()| none.pause()), [1, 1, 1]);
    }
}
