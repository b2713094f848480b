//! The messages that were offered to a peer and that it has not pulled yet.

/// Counts of the offers to one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offers {
    /// Offers that the peer has not answered.
    open: u32,
    /// Number of the last offer.
    last: u32,
}

impl Offers {
    /// Returns the number of the next offer. It is never zero, since zeroed memory pulls number 0.
    pub(super) const fn next(&self) -> u32 {
        match self.last.wrapping_add(1) {
            0 => 1,
            number => number,
        }
    }

    /// Counts the offer `number`, which leaves.
    pub(super) const fn sent(&mut self, number: u32) {
        self.last = number;
        self.open += 1;
    }

    /// Counts an answer to an open offer.
    pub(super) const fn answered(&mut self) {
        self.open -= 1;
    }

    /// Forgets the open offers: the peer is gone.
    pub(super) const fn forget(&mut self) {
        self.open = 0;
    }

    /// Returns whether the peer has answered all offers.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_numbered_from_one_and_skip_zero() {
        let mut offers = Offers::default();
        assert_eq!(offers.next(), 1);
        offers.sent(1);
        assert_eq!(offers.next(), 2);
        offers.sent(u32::MAX);
        assert_eq!(offers.next(), 1);
    }

    #[test]
    fn open_offers_are_counted_until_they_are_answered_or_forgotten() {
        let mut offers = Offers::default();
        offers.sent(offers.next());
        offers.sent(offers.next());
        offers.answered();
        assert!(!offers.is_empty());
        offers.answered();
        assert!(offers.is_empty());
        offers.sent(offers.next());
        offers.forget();
        assert!(offers.is_empty());
        assert_eq!(offers.next(), 4);
    }
}
