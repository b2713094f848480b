//! How long to wait before a lock that was found held is looked at again (`[OneSided04]` §4.3.1).

/// Exponential back-off: twice as long each time, up to a limit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Backoff {
    next: u32,
    most: u32,
}

impl Backoff {
    /// From one unit to `most`, whatever a unit is to the embedder. With `most` of one there is no back-off.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { next: 1, most }
    }

    /// Units to wait this time.
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
        let mut backoff = Backoff::new(10);
        assert_eq!([(); 6].map(|()| backoff.pause()), [1, 2, 4, 8, 10, 10]);
        let mut none = Backoff::new(1);
        assert_eq!([(); 3].map(|()| none.pause()), [1, 1, 1]);
    }
}
