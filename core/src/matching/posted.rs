//! Receives that wait for a message.

use core::fmt;
use core::iter;
use core::num::NonZeroU64;
use core::slice;

use super::chains::{Chains, Links, Node, Spot, Unfiled};
use super::envelope::{Envelope, Pattern, WildcardClass};
use super::masked::{All, MaskedEnvelope, MaskedPattern};
use super::selector::{Filing, Selector};
use crate::memory::{Memory, OutOfMemory};

/// One posted receive, in the bin of its own selector.
#[derive(Clone, Copy)]
struct ReceiveNode<P, T> {
    selector: P,
    /// The caller's value.
    receive: T,
    links: Links,
    /// The number of postings before it plus one, where there are several classes. A zero here
    /// marks a free slot of the slab, at no cost: a receive of MPI's takes half a cache line.
    sequence: NonZeroU64,
}

impl<P: Selector, T: Copy> Node for ReceiveNode<P, T> {
    type Selector = P;

    #[inline(always)]
    fn classes(&self) -> &'static [P::Class] {
        slice::from_ref(&P::CLASSES[P::index(self.selector.class())])
    }

    #[inline(always)]
    fn key(&self, _: P::Class) -> P::Key {
        self.selector.key()
    }

    #[inline(always)]
    fn links(&mut self, _: P::Class) -> &mut Links {
        &mut self.links
    }
}

/// The receives that are posted before a receive with a certain pattern and take its messages
/// first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ahead<T = u32> {
    /// No receive.
    Nothing,
    /// Only receives with the same pattern. The value is the youngest one's.
    Same(T),
    /// A receive with another pattern that matches the same message: a wildcard.
    Wildcard,
}

impl<T> Ahead<T> {
    /// Changes the value of the youngest receive.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Ahead<U> {
        match self {
            Self::Nothing => Ahead::Nothing,
            Self::Same(youngest) => Ahead::Same(change(youngest)),
            Self::Wildcard => Ahead::Wildcard,
        }
    }
}

/// The posted-receive queue of one rank.
///
/// `T` is a value of the caller's for each receive. With [`Pattern`] every operation but iteration
/// takes constant time (posting: amortised).
///
/// ```
/// use strait_core::matching::{ANY_SOURCE, Envelope, Pattern, PostedQueue};
///
/// # let mut bytes = [core::mem::MaybeUninit::uninit(); 16384];
/// # let memory = strait_core::memory::BumpMemory::new(&mut bytes);
/// let mut posted = PostedQueue::new(&memory);
/// posted.post(Pattern { context: 0, source: 1, tag: 7 }, 'a')?;
/// posted.post(Pattern { context: 0, source: ANY_SOURCE, tag: 7 }, 'b')?;
/// let message = Envelope { context: 0, source: 1, tag: 7 };
/// assert_eq!(posted.take(&message), Some('a'), "the oldest receive that matches");
/// assert_eq!(posted.take(&message), Some('b'));
/// assert_eq!(posted.take(&message), None);
/// # Ok::<(), strait_core::memory::OutOfMemory>(())
/// ```
pub struct PostedQueue<M: Memory, P: Selector = Pattern, T: Copy = u32> {
    chains: Chains<ReceiveNode<P, T>, M>,
    /// The number of filed receives of each class, where there are several. An arrival looks up
    /// nothing in a class without any.
    waiting: P::PerClass<u32>,
    /// The youngest receives, where there are several classes.
    unfiled: Unfiled,
    /// The sequence number of the first receive that was not filed.
    filed_before: NonZeroU64,
    /// The sequence number of the next receive. At one a nanosecond it lasts for five centuries.
    next_sequence: NonZeroU64,
}

impl<M: Memory, P: Selector, T: Copy> PostedQueue<M, P, T> {
    /// Whether there are several classes. If there is one, its bin has all receives in their order.
    const HAS_CLASSES: bool = P::CLASSES.len() > 1;

    /// Returns an empty queue. It allocates nothing until the first receive.
    pub fn new(memory: M) -> Self
    where
        M: Clone,
    {
        Self {
            chains: Chains::new(memory),
            waiting: P::per_class(0),
            unfiled: Unfiled::new(),
            filed_before: NonZeroU64::MIN,
            next_sequence: NonZeroU64::MIN,
        }
    }

    /// Returns the number of posted receives.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.chains.nodes().len()
    }

    /// Returns whether no receive is posted. One load.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.chains.nodes().is_empty()
    }

    /// Posts the caller's `receive`. Returns the handle to cancel it by, valid until it is taken or
    /// cancelled.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was posted.
    #[inline]
    pub fn post(&mut self, selector: P, receive: T) -> Result<u32, OutOfMemory> {
        if !Self::HAS_CLASSES {
            let sequence = NonZeroU64::MIN;
            let node = ReceiveNode { selector, receive, links: Links::NONE, sequence };
            return self.chains.insert(node);
        }
        if self.unfiled.is_full() {
            self.file()?;
        }
        let sequence = self.next_sequence;
        let node = ReceiveNode { selector, receive, links: Links::NONE, sequence };
        let handle = self.chains.insert_unfiled(&mut self.unfiled, node)?;
        self.next_sequence = sequence.saturating_add(1);
        Ok(handle)
    }

    /// Files all receives.
    #[cold]
    fn file(&mut self) -> Result<(), OutOfMemory> {
        let waiting = &mut self.waiting;
        let filed = |node: &mut ReceiveNode<P, T>| waiting[P::index(node.selector.class())] += 1;
        self.chains.file(&mut self.unfiled, filed)?;
        self.filed_before = self.next_sequence;
        Ok(())
    }

    /// Returns whether a receive is in a bin.
    #[inline(always)]
    const fn has_filed(&self) -> bool {
        self.len() > self.unfiled.count()
    }

    /// Takes the receive that a message with this envelope goes to: the oldest that matches
    /// (MPI-4.1 §3.5).
    #[inline]
    pub fn take(&mut self, envelope: &P::Envelope) -> Option<T> {
        self.take_with(envelope, |receive| Some(*receive)).flatten()
    }

    /// Takes the receive that [`PostedQueue::take`] would take, if `accept` returns a value for it.
    /// Otherwise it stays in the queue, and the result is `Some(None)`. `None` if no receive
    /// matches.
    #[inline(always)]
    pub fn take_with<R>(
        &mut self,
        envelope: &P::Envelope,
        accept: impl FnOnce(&T) -> Option<R>,
    ) -> Option<Option<R>> {
        let filed = if self.has_filed() { self.oldest(envelope) } else { None };
        let (receive, links, filed) = match filed {
            Some((spot, class, node)) => (node.receive, node.links, Ok((spot, class))),
            None if !Self::HAS_CLASSES => return None,
            None => {
                let (handle, links, node) = self.oldest_unfiled(envelope)?;
                (node.receive, links, Err(handle))
            }
        };
        // There is one call, so that the compiler inlines it.
        let accepted = accept(&receive);
        if accepted.is_none() {
            return Some(None);
        }
        match filed {
            Ok((spot, class)) => {
                self.chains.remove_at(spot, links, class);
                if Self::HAS_CLASSES {
                    self.waiting[P::index(class)] -= 1;
                }
            }
            Err(handle) => self.chains.remove_unfiled(&mut self.unfiled, handle, links),
        }
        Some(accepted)
    }

    #[inline(always)]
    fn oldest_unfiled(&self, envelope: &P::Envelope) -> Option<(u32, Links, &ReceiveNode<P, T>)> {
        let matches = |node: &ReceiveNode<P, T>| node.selector.matches(envelope);
        self.chains.oldest_unfiled(&self.unfiled, matches)
    }

    /// Returns the receive that [`PostedQueue::take`] would take, as (handle, the caller's value).
    /// It stays in the queue.
    #[inline]
    #[must_use]
    pub fn find(&self, envelope: &P::Envelope) -> Option<(u32, T)> {
        if self.has_filed()
            && let Some((spot, _, node)) = self.oldest(envelope)
        {
            return Some((spot.handle, node.receive));
        }
        let (handle, _, node) = self.oldest_unfiled(envelope)?;
        Some((handle, node.receive))
    }

    /// Returns the oldest filed receive that matches: its spot, its class and its node.
    #[inline(always)]
    fn oldest(&self, envelope: &P::Envelope) -> Option<(Spot, P::Class, &ReceiveNode<P, T>)> {
        let mut oldest: Option<(Spot, P::Class, &ReceiveNode<P, T>)> = None;
        for &class in P::CLASSES {
            if Self::HAS_CLASSES && self.waiting[P::index(class)] == 0 {
                continue;
            }
            let key = P::key_matching(envelope, class);
            let matches = |node: &ReceiveNode<P, T>| node.selector.matches(envelope);
            let Some((spot, node)) = self.chains.oldest(&key, class, matches) else { continue };
            if oldest.is_none_or(|(.., oldest)| node.sequence < oldest.sequence) {
                oldest = Some((spot, class, node));
            }
        }
        oldest
    }

    /// Withdraws a receive. Returns the caller's value; `None` if it has been taken or cancelled.
    #[inline]
    pub fn cancel(&mut self, handle: u32) -> Option<T> {
        let node = *self.chains.nodes().get(handle)?;
        if !Self::HAS_CLASSES {
            self.chains.remove(handle);
        } else if node.sequence < self.filed_before {
            self.chains.remove(handle);
            self.waiting[P::index(node.selector.class())] -= 1;
        } else {
            self.chains.remove_unfiled(&mut self.unfiled, handle, node.links);
        }
        Some(node.receive)
    }

    /// Returns all posted receives as (handle, selector, the caller's value), by ascending handle.
    pub fn patterns(&self) -> impl Iterator<Item = (u32, P, T)> {
        let nodes = self.chains.nodes().iter();
        nodes.map(|(handle, node)| (handle, node.selector, node.receive))
    }

    /// Returns the first entry of [`Self::patterns`] with a handle of at least `first`.
    ///
    /// A walk may cancel receives on its way and continue behind the last handle that it has seen.
    /// So all receives from a peer that has died fail in one pass over the queue, without a list.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<(u32, P, T)> {
        let (handle, node) = self.chains.nodes().iter_from(first).next()?;
        Some((handle, node.selector, node.receive))
    }
}

impl<M: Memory, T: Copy> PostedQueue<M, MaskedPattern, T> {
    /// Takes the oldest receive of the queue, if it matches and `accept` returns a value for it.
    /// Otherwise it stays in the queue.
    ///
    /// This looks at no other receive, so it is short enough to be part of its caller.
    #[inline(always)]
    pub fn take_first_with<R>(
        &mut self,
        envelope: &MaskedEnvelope,
        accept: impl FnOnce(&T) -> Option<R>,
    ) -> Option<R> {
        let class = All;
        let (spot, node) = self.chains.first(&class)?;
        if !node.selector.matches(envelope) {
            return None;
        }
        let (accepted, links) = (accept(&node.receive)?, node.links);
        self.chains.remove_first(spot, links, class);
        Some(accepted)
    }
}

impl<M: Memory, T: Copy> PostedQueue<M, Pattern, T> {
    /// Returns what would be ahead of a receive with this pattern if it were posted now. The
    /// pattern has no wildcard. Constant time, with a visit to each unfiled receive.
    #[must_use]
    pub fn ahead_of(&self, exact: &Pattern) -> Ahead<T> {
        let Pattern { context, source, tag } = *exact;
        let envelope = Envelope { context, source, tag };
        let is_posted = |class: &WildcardClass| {
            self.waiting[*class as usize] > 0
                && self.chains.youngest(&Pattern::key_matching(&envelope, *class)).is_some()
        };
        let [_, wildcards @ ..] = &WildcardClass::ALL;
        let is_ahead = |node: &ReceiveNode<Pattern, T>| {
            node.selector.class() != WildcardClass::Exact && node.selector.matches(&envelope)
        };
        let unfiled = self.chains.oldest_unfiled(&self.unfiled, is_ahead);
        if unfiled.is_some() || wildcards.iter().any(is_posted) {
            return Ahead::Wildcard;
        }
        let youngest = self.youngest_first(exact).next();
        youngest.map_or(Ahead::Nothing, |(_, receive)| Ahead::Same(receive))
    }

    /// Returns the receives with this very pattern as (handle, the caller's value), the youngest
    /// first.
    pub fn youngest_first(&self, pattern: &Pattern) -> impl Iterator<Item = (u32, T)> {
        let class = pattern.class();
        let older = move |handle: &u32| self.chains.older(*handle, class);
        let nodes = self.chains.nodes();
        let unfiled = Some(self.unfiled.last()).filter(|_| self.unfiled.count() > 0);
        let unfiled = iter::successors(unfiled, older);
        let has_pattern =
            |handle: &u32| nodes.get(*handle).is_some_and(|node| node.selector == *pattern);
        let filed = iter::successors(self.chains.youngest(&pattern.key()), older);
        let handles = unfiled.filter(has_pattern).chain(filed);
        handles.filter_map(|handle| Some((handle, nodes.get(handle)?.receive)))
    }
}

impl<M: Memory, P: Selector, T: Copy + fmt::Debug> fmt::Debug for PostedQueue<M, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.patterns()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{ANY_SOURCE, ANY_TAG, steps};
    use crate::memory::counted::Counted;

    const HELLO: Envelope = Envelope { context: 1, source: 2, tag: 3 };
    const EXACT: Pattern = Pattern { context: 1, source: 2, tag: 3 };

    #[test]
    fn the_oldest_of_equal_receives_is_first() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            for receive in 10..13 {
                posted.post(EXACT, receive).unwrap();
            }
            assert_eq!([(); 4].map(|()| posted.take(&HELLO)), [Some(10), Some(11), Some(12), None]);
            assert!(posted.is_empty());
        });
    }

    #[test]
    fn the_time_of_posting_decides_between_wildcards() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            let patterns = WildcardClass::ALL.map(|class| class.pattern(&HELLO));
            // Whichever class is posted first wins, for each of the four.
            for first in 0..patterns.len() {
                for step in 0..patterns.len() {
                    let which = (first + step) % patterns.len();
                    posted.post(patterns[which], which as u32).unwrap();
                }
                for step in 0..patterns.len() {
                    let which = (first + step) % patterns.len();
                    assert_eq!(posted.take(&HELLO), Some(which as u32));
                }
            }
            assert!(posted.is_empty());
        });
    }

    #[test]
    fn other_messages_pass_by() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            posted.post(EXACT, 1).unwrap();
            posted.post(Pattern { source: ANY_SOURCE, ..EXACT }, 2).unwrap();
            posted.post(Pattern { tag: ANY_TAG, ..EXACT }, 3).unwrap();
            assert_eq!(posted.take(&Envelope { context: 9, ..HELLO }), None);
            assert_eq!(posted.take(&Envelope { source: 9, tag: 9, ..HELLO }), None);
            assert_eq!(posted.take(&Envelope { tag: 9, ..HELLO }), Some(3));
            assert_eq!(posted.take(&Envelope { source: 9, ..HELLO }), Some(2));
            assert_eq!(posted.len(), 1);
        });
    }

    #[test]
    fn a_cancelled_receive_takes_nothing() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            let handles = [10, 11, 12].map(|receive| posted.post(EXACT, receive).unwrap());
            assert_eq!(posted.cancel(handles[1]), Some(11));
            assert_eq!(posted.cancel(handles[1]), None);
            assert_eq!([(); 3].map(|()| posted.take(&HELLO)), [Some(10), Some(12), None]);
        });
    }

    #[test]
    fn a_walk_may_cancel_on_its_way() {
        Counted::lend(|memory| {
            let mut posted = PostedQueue::new(memory);
            for receive in 0..20 {
                posted.post(Pattern { source: receive % 2, ..EXACT }, receive).unwrap();
            }
            let mut from = 0;
            while let Some((handle, pattern, receive)) = posted.next_from(from) {
                from = handle + 1;
                if pattern.source == 1 {
                    assert_eq!(posted.cancel(handle), Some(receive));
                }
            }
            assert!(posted.patterns().map(|(_, _, receive)| receive).eq((0..20).step_by(2)));
        });
    }

    #[test]
    fn a_class_that_is_empty_again_costs_no_look_up() {
        Counted::lend(|memory| {
            let (mut fresh, mut used) =
                (PostedQueue::new(memory.clone()), PostedQueue::new(memory));
            for class in WildcardClass::ALL {
                used.post(class.pattern(&HELLO), 0).unwrap();
                used.take(&HELLO);
            }
            for class in WildcardClass::ALL {
                let handle = used.post(class.pattern(&HELLO), 0).unwrap();
                used.cancel(handle);
            }
            let steps = [&mut fresh, &mut used].map(|posted| {
                posted.post(EXACT, 1).unwrap();
                let (taken, steps) = steps::count(|| posted.take(&HELLO));
                assert_eq!(taken, Some(1));
                steps
            });
            assert_eq!(steps[0], steps[1]);
        });
    }

    #[test]
    fn a_receive_takes_half_a_cache_line() {
        assert_eq!(size_of::<Option<ReceiveNode<Pattern, u32>>>(), crate::sync::CACHE_LINE / 2);
    }
}
