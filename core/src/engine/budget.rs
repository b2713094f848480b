//! The memory of unexpected messages, counted for each source.

use crate::sync::CACHE_LINE;

/// Bytes that the entries of one message use in the queues. They count, so that a flood of empty
/// messages has a bound, too.
const ENTRIES: usize = 256;

/// Private memory of unexpected messages with data in this rank ([`super::Engine::held`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UnexpectedUsage {
    /// Bytes in use now.
    pub bytes: usize,
    /// Largest number of bytes so far.
    pub peak: usize,
}

/// A message to a source after its share has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Notice {
    /// Its share is used up: it keeps further messages.
    Full,
    /// Half of its share is free again: it may send.
    Free,
}

/// The memory that all sources use together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnexpectedBudget {
    held: UnexpectedUsage,
}

/// The share of one source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    bytes: usize,
    full: bool,
}

impl UnexpectedBudget {
    /// Returns the memory that all sources use together.
    pub(super) const fn held(&self) -> UnexpectedUsage {
        self.held
    }

    /// Counts a message of `length` bytes against `share`, which may take `max` bytes.
    pub(super) fn hold(&mut self, share: &mut Share, length: usize, max: usize) -> Option<Notice> {
        let bytes = cost(length);
        self.held.bytes += bytes;
        self.held.peak = self.held.peak.max(self.held.bytes);
        share.bytes += bytes;
        let is_news = !share.full && share.bytes > max;
        share.full |= is_news;
        is_news.then_some(Notice::Full)
    }

    /// Returns to the share the bytes that [`UnexpectedBudget::hold`] counted. A source may send
    /// again when half of its share is free, so that not every message causes a notice.
    pub(super) fn let_go(
        &mut self,
        share: &mut Share,
        length: usize,
        max: usize,
    ) -> Option<Notice> {
        let bytes = cost(length);
        self.held.bytes -= bytes;
        share.bytes -= bytes;
        let is_news = share.full && share.bytes <= max / 2;
        share.full &= !is_news;
        is_news.then_some(Notice::Free)
    }
}

impl Share {
    /// Returns whether the source was told to keep its messages.
    pub(super) const fn is_full(&self) -> bool {
        self.full
    }
}

/// Returns the bytes that an unexpected message of this length uses.
const fn cost(length: usize) -> usize {
    // No message is longer than the address space, so the sum cannot overflow.
    length.next_multiple_of(CACHE_LINE) + ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_once_when_its_share_is_used_up_and_once_when_half_is_free() {
        let (mut budget, mut share) = (UnexpectedBudget::default(), Share::default());
        let max = 4 * cost(1);
        for _ in 0..4 {
            assert_eq!(budget.hold(&mut share, 1, max), None);
        }
        assert_eq!(budget.hold(&mut share, 1, max), Some(Notice::Full));
        assert_eq!(budget.hold(&mut share, 1, max), None);
        assert!(share.is_full());
        for _ in 0..3 {
            assert_eq!(budget.let_go(&mut share, 1, max), None);
        }
        assert_eq!(budget.let_go(&mut share, 1, max), Some(Notice::Free));
        assert_eq!(budget.let_go(&mut share, 1, max), None);
        assert!(!share.is_full());
    }

    #[test]
    fn the_budget_is_the_sum_of_the_shares_and_remembers_its_peak() {
        let (mut budget, mut shares) = (UnexpectedBudget::default(), [Share::default(); 2]);
        for share in &mut shares {
            assert_eq!(budget.hold(share, 100, usize::MAX), None);
        }
        let _ = budget.let_go(&mut shares[0], 100, usize::MAX);
        assert_eq!(budget.held(), UnexpectedUsage { bytes: cost(100), peak: 2 * cost(100) });
    }

    #[test]
    fn an_empty_message_costs_something() {
        assert!(cost(0) > 0);
        assert_eq!(cost(1), CACHE_LINE + ENTRIES);
    }
}
