//! Selectors that compare some bits of a 64-bit tag, like libfabric's receives.

use super::envelope::ANY_SOURCE;
use super::selector::{BinMap, Ends, Filing, NIL, Selector};
use super::steps::step;
use super::unfiled::Mark;
use crate::memory::{Memory, OutOfMemory};

/// The envelope of a message with a 64-bit tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MaskedEnvelope {
    /// The sending rank.
    pub source: u32,
    /// The tag.
    pub tag: u64,
}

/// The messages that a receive or probe accepts, where any bits of the tag may be ignored.
///
/// ```
/// use strait_core::matching::{MaskedEnvelope, MaskedPattern, Selector};
///
/// let high_half = MaskedPattern { source: 1, tag: 0x7_0000_0000, ignore: 0xffff_ffff };
/// assert!(high_half.matches(&MaskedEnvelope { source: 1, tag: 0x7_0000_0042 }));
/// assert!(!high_half.matches(&MaskedEnvelope { source: 1, tag: 0x8_0000_0042 }));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MaskedPattern {
    /// The sending rank, or [`ANY_SOURCE`].
    pub source: u32,
    /// The tag. Bits that are ignored may have any value.
    pub tag: u64,
    /// The bits of the tag that may differ.
    pub ignore: u64,
}

impl Selector for MaskedPattern {
    #[inline(always)]
    fn matches(&self, envelope: &MaskedEnvelope) -> bool {
        (envelope.tag ^ self.tag) & !self.ignore == 0
            && (self.source == envelope.source || self.source == ANY_SOURCE)
    }
}

/// The only class of [`MaskedPattern`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct All;

impl Filing for MaskedPattern {
    type Envelope = MaskedEnvelope;
    type Class = All;
    type Key = All;
    type Bins<M: Memory> = OneBin;
    type PerClass<T: Copy> = [T; 1];

    const CLASSES: &'static [All] = &[All];
    const IS_EXACT: bool = false;

    #[inline(always)]
    fn per_class<T: Copy>(value: T) -> [T; 1] {
        [value]
    }

    #[inline(always)]
    fn index(_: All) -> usize {
        0
    }

    #[inline(always)]
    fn class(&self) -> All {
        All
    }

    #[inline(always)]
    fn key(&self) -> All {
        All
    }

    #[inline(always)]
    fn key_matching(_: &MaskedEnvelope, _: All) -> All {
        All
    }

    #[inline(always)]
    fn mark(&self) -> Mark {
        Mark::ANY
    }

    #[inline(always)]
    fn mark_matching(_: &MaskedEnvelope) -> Mark {
        Mark::ANY
    }
}

/// A map with one bin, which holds every entry of the queue.
#[derive(Debug)]
pub struct OneBin(Ends);

impl<M: Memory> BinMap<All, M> for OneBin {
    #[inline]
    fn new(_: M) -> Self {
        Self(Ends::NONE)
    }

    #[inline(always)]
    fn reserve(&mut self, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }

    #[inline(always)]
    fn find(&self, _: &All) -> Option<usize> {
        (self.0.first != NIL).then_some(0)
    }

    #[inline(always)]
    fn foresee(&mut self, _: &All) {}

    #[inline(always)]
    fn at(&self, _: usize) -> &Ends {
        &self.0
    }

    #[inline(always)]
    fn at_mut(&mut self, _: usize) -> &mut Ends {
        &mut self.0
    }

    #[inline(always)]
    fn append(&mut self, _: All, node: u32) -> u32 {
        step();
        let older = core::mem::replace(&mut self.0.last, node);
        if older == NIL {
            self.0.first = node;
        }
        older
    }

    #[inline(always)]
    fn remove(&mut self, _: usize) {
        self.0 = Ends::NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{PostedQueue, UnexpectedQueue};
    use crate::memory::counted::Counted;

    const HELLO: MaskedEnvelope = MaskedEnvelope { source: 2, tag: 0xab };

    #[test]
    fn ignored_bits_may_differ_and_no_others() {
        let pattern = |tag, ignore| MaskedPattern { source: 2, tag, ignore };
        assert!(pattern(0xab, 0).matches(&HELLO));
        assert!(!pattern(0xaa, 0).matches(&HELLO));
        assert!(pattern(0xaa, 1).matches(&HELLO));
        assert!(!pattern(0xa9, 1).matches(&HELLO));
        assert!(pattern(u64::MAX, u64::MAX).matches(&HELLO));
        assert!(!pattern(0xab | 1 << 63, !(1 << 63)).matches(&HELLO));
    }

    #[test]
    fn a_source_is_compared_unless_it_is_a_wildcard() {
        let pattern = |source| MaskedPattern { source, tag: 0xab, ignore: 0 };
        assert!(pattern(ANY_SOURCE).matches(&HELLO));
        assert!(!pattern(3).matches(&HELLO));
    }

    fn masked(source: u32, tag: u64, ignore: u64) -> MaskedPattern {
        MaskedPattern { source, tag, ignore }
    }

    #[test]
    fn a_message_goes_to_the_oldest_receive_that_matches() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            posted.post(masked(1, 7, 0), "seven of rank 1").unwrap();
            posted.post(masked(ANY_SOURCE, 6, 1), "six or seven").unwrap();
            posted.post(masked(ANY_SOURCE, 0, !0), "all").unwrap();
            let seven = |source| MaskedEnvelope { source, tag: 7 };
            assert_eq!(posted.take(&seven(2)), Some("six or seven"));
            assert_eq!(posted.take(&seven(2)), Some("all"));
            assert_eq!(posted.take(&seven(2)), None);
            assert_eq!(posted.take(&seven(1)), Some("seven of rank 1"));
        });
    }

    #[test]
    fn the_first_receive_is_taken_if_it_matches_and_is_accepted() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            for (tag, receive) in [(1, 'a'), (2, 'b'), (1, 'c')] {
                posted.post(masked(2, tag, 0), receive).unwrap();
            }
            let mut take = |tag, accepted: bool| {
                let envelope = MaskedEnvelope { source: 2, tag };
                posted.take_first_with(&envelope, |receive| accepted.then_some(*receive))
            };
            assert_eq!(take(2, true), None, "another is first");
            assert_eq!(take(1, false), None, "refused");
            assert_eq!(take(1, true), Some('a'));
            assert_eq!(take(1, true), None, "another is first");
            assert_eq!([take(2, true), take(1, true), take(1, true)], [Some('b'), Some('c'), None]);
            posted.post(masked(2, 1, 0), 'd').unwrap();
            assert_eq!(posted.take(&MaskedEnvelope { source: 2, tag: 1 }), Some('d'));
        });
    }

    #[test]
    fn a_receive_gets_the_oldest_message_that_matches() {
        Counted::lend(|memory| {
            let mut unexpected = UnexpectedQueue::new(memory);
            for (number, (source, tag)) in [(1, 8), (2, 9), (1, 9)].into_iter().enumerate() {
                unexpected.insert(MaskedEnvelope { source, tag }, number).unwrap();
            }
            let mut take = |pattern| {
                let found = unexpected.find(&pattern)?;
                unexpected.remove(found.handle)
            };
            let nine = masked(ANY_SOURCE, 9, 0);
            assert_eq!(take(nine), Some(1));
            assert_eq!(take(masked(1, 1 << 63, !0)), Some(0));
            assert_eq!(take(masked(2, 0, !0)), None);
            assert_eq!(take(nine), Some(2));
        });
    }

    #[test]
    fn a_receive_that_is_found_and_not_taken_keeps_its_place() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            for (source, receive) in [(1, 'a'), (2, 'b'), (2, 'c')] {
                posted.post(masked(source, 0, 0), receive).unwrap();
            }
            let envelope = MaskedEnvelope { source: 2, tag: 0 };
            let (handle, receive) = posted.find(&envelope).unwrap();
            assert_eq!(receive, 'b');
            assert_eq!([(); 3].map(|()| posted.take(&envelope)), [Some('b'), Some('c'), None]);
            assert_eq!(posted.cancel(handle), None);
        });
    }
}
