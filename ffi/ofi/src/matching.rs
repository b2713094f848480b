//! Which message goes to which receive: libfabric's rules, tags of 64 bits with bits to ignore.
//!
//! One queue for messages with tags and one for those without. A receive takes the oldest message that it accepts, a message goes to
//! the oldest receive that accepts it. Masks can be any, so both are searched in order; the first is nearly always the right one.

use std::collections::VecDeque;

/// As a source: any.
pub(crate) const ANY_SOURCE: u32 = u32::MAX;

/// What a receive accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    /// A rank, or [`ANY_SOURCE`].
    pub(crate) source: u32,
    pub(crate) tag: u64,
    /// Bits of the tag that may differ.
    pub(crate) ignore: u64,
}

impl Pattern {
    #[inline(always)]
    pub(crate) const fn accepts(&self, source: u32, tag: u64) -> bool {
        (tag ^ self.tag) & !self.ignore == 0 && (self.source == source || self.source == ANY_SOURCE)
    }
}

/// Where a receive stood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) pattern: Pattern,
    place: usize,
}

impl Seat {
    /// Behind all others.
    pub(crate) const fn last(pattern: Pattern) -> Self {
        Self { pattern, place: usize::MAX }
    }
}

/// Receives `R` that wait for messages `M`, or the other way round.
#[derive(Debug)]
pub(crate) struct Queue<R, M> {
    posted: VecDeque<(Pattern, R)>,
    unexpected: VecDeque<Waiting<M>>,
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Waiting<M> {
    pub(crate) source: u32,
    pub(crate) tag: u64,
    pub(crate) message: M,
}

impl<R, M> Default for Queue<R, M> {
    fn default() -> Self {
        Self { posted: VecDeque::new(), unexpected: VecDeque::new() }
    }
}

impl<R, M> Queue<R, M> {
    /// Whether no message waits.
    #[inline(always)]
    pub(crate) fn is_all_taken(&self) -> bool {
        self.unexpected.is_empty()
    }

    /// Puts a receive behind all others. No message that waits suits it.
    #[inline(always)]
    pub(crate) fn post(&mut self, pattern: Pattern, receive: R) {
        self.posted.push_back((pattern, receive));
    }

    /// Puts a receive back where it was: one that goes on.
    pub(crate) fn restore(&mut self, seat: Seat, receive: R) {
        let place = seat.place.min(self.posted.len());
        self.posted.insert(place, (seat.pattern, receive));
    }

    /// Takes the youngest receive.
    pub(crate) fn withdraw_last(&mut self) -> Option<R> {
        self.posted.pop_back().map(|(_, receive)| receive)
    }

    /// Puts a message behind all others. No receive that waits suits it.
    pub(crate) fn keep(&mut self, source: u32, tag: u64, message: M) {
        self.unexpected.push_back(Waiting { source, tag, message });
    }

    /// The first receive, if a message goes to it.
    #[inline(always)]
    pub(crate) fn first_for(&self, source: u32, tag: u64) -> Option<&R> {
        let (pattern, receive) = self.posted.front()?;
        pattern.accepts(source, tag).then_some(receive)
    }

    /// Takes the first receive.
    #[inline(always)]
    pub(crate) fn take_first(&mut self) -> Option<(Pattern, R)> {
        self.posted.pop_front()
    }

    /// Takes the receive that a message goes to.
    #[inline(always)]
    pub(crate) fn take_posted(&mut self, source: u32, tag: u64) -> Option<(Seat, R)> {
        if self.posted.front()?.0.accepts(source, tag) {
            let (pattern, receive) = self.posted.pop_front()?;
            return Some((Seat { pattern, place: 0 }, receive));
        }
        self.take_further(source, tag)
    }

    /// As [`Queue::take_posted`], when it is not the first.
    #[inline(never)]
    fn take_further(&mut self, source: u32, tag: u64) -> Option<(Seat, R)> {
        let place = self.posted.iter().position(|(pattern, _)| pattern.accepts(source, tag))?;
        self.posted.remove(place).map(|(pattern, receive)| (Seat { pattern, place }, receive))
    }

    /// Takes the first receive that `is_it`.
    pub(crate) fn withdraw(&mut self, is_it: impl Fn(&Pattern, &R) -> bool) -> Option<R> {
        let place = self.posted.iter().position(|(pattern, receive)| is_it(pattern, receive))?;
        self.posted.remove(place).map(|(_, receive)| receive)
    }

    /// The message that a receive gets.
    pub(crate) fn find(&self, pattern: &Pattern) -> Option<&Waiting<M>> {
        self.unexpected.iter().find(|waiting| pattern.accepts(waiting.source, waiting.tag))
    }

    /// Takes it.
    #[inline(always)]
    pub(crate) fn take_message(&mut self, pattern: &Pattern) -> Option<Waiting<M>> {
        if self.unexpected.is_empty() {
            return None;
        }
        let accepts = |waiting: &Waiting<M>| pattern.accepts(waiting.source, waiting.tag);
        let place = self.unexpected.iter().position(accepts)?;
        self.unexpected.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(source: u32, tag: u64, ignore: u64) -> Pattern {
        Pattern { source, tag, ignore }
    }

    #[test]
    fn a_message_goes_to_the_oldest_receive_that_accepts_it() {
        let mut queue = Queue::<_, ()>::default();
        queue.post(pattern(1, 7, 0), "one");
        queue.post(pattern(ANY_SOURCE, 6, 1), "six or seven");
        queue.post(pattern(ANY_SOURCE, 0, !0), "all");
        assert_eq!(queue.take_posted(2, 7).unwrap().1, "six or seven");
        assert_eq!(queue.take_posted(2, 7).unwrap().1, "all");
        assert!(queue.take_posted(2, 7).is_none());
        assert_eq!(queue.take_posted(1, 7).unwrap().1, "one");
    }

    #[test]
    fn a_receive_gets_the_oldest_message_that_it_accepts() {
        let mut queue = Queue::<(), _>::default();
        for (number, (source, tag)) in [(1, 8), (2, 9), (1, 9)].into_iter().enumerate() {
            queue.keep(source, tag, number);
        }
        let nine = pattern(ANY_SOURCE, 9, 0);
        assert_eq!(queue.find(&nine).unwrap().message, 1);
        assert_eq!(queue.take_message(&nine).unwrap().message, 1);
        assert_eq!(queue.take_message(&pattern(1, 1 << 63, !0)).unwrap().message, 0);
        assert!(queue.take_message(&pattern(2, 0, !0)).is_none());
        assert_eq!(queue.take_message(&nine).unwrap().message, 2);
    }

    #[test]
    fn a_receive_that_is_withdrawn_gets_nothing() {
        let mut queue = Queue::<_, ()>::default();
        queue.post(pattern(1, 0, 0), 'a');
        queue.post(pattern(1, 0, 0), 'b');
        assert_eq!(queue.withdraw(|_, receive| *receive == 'a'), Some('a'));
        assert_eq!(queue.withdraw(|_, receive| *receive == 'a'), None);
        assert_eq!(queue.take_posted(1, 0).unwrap().1, 'b');
    }

    #[test]
    fn a_receive_that_goes_on_keeps_its_place() {
        let mut queue = Queue::<_, ()>::default();
        for (source, name) in [(1, 'a'), (2, 'b'), (2, 'c')] {
            queue.post(pattern(source, 0, 0), name);
        }
        let (seat, receive) = queue.take_posted(2, 0).unwrap();
        queue.restore(seat, receive);
        assert_eq!(queue.take_posted(2, 0).unwrap().1, 'b');
        assert_eq!(queue.take_posted(2, 0).unwrap().1, 'c');
        queue.restore(Seat::last(pattern(2, 0, 0)), 'd');
        assert_eq!(queue.withdraw_last(), Some('d'));
        assert_eq!(queue.withdraw_last(), Some('a'));
    }
}
