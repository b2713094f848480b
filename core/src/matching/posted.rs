//! Receives that wait for a message.

use core::fmt;
use core::iter;
use core::num::NonZeroU64;
use core::slice;

use super::bins::Key;
use super::chains::{Chains, Front, Links, Node};
use super::envelope::{Class, Envelope, Pattern};
use crate::memory::{Memory, OutOfMemory};

/// One posted receive, in the bin of its own pattern.
#[derive(Clone, Copy)]
struct Receive {
    pattern: Pattern,
    /// The caller's number.
    receive: u32,
    links: Links,
    /// The when of its posting. The zero that it never is tells a free slot of the slab, at no cost: a receive takes
    /// half a cache line.
    sequence: NonZeroU64,
}

impl Node for Receive {
    #[inline(always)]
    fn classes(&self) -> &'static [Class] {
        slice::from_ref(&Class::ALL[self.pattern.class() as usize])
    }

    #[inline(always)]
    fn key(&self, _: Class) -> Key {
        Key::of(self.pattern)
    }

    #[inline(always)]
    fn links(&mut self, _: Class) -> &mut Links {
        &mut self.links
    }
}

/// What is posted before a receive with a certain pattern and takes its messages first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ahead<T = u32> {
    /// Nothing.
    Nothing,
    /// Receives with the same pattern alone; this is the youngest.
    Same(T),
    /// Receives with another pattern that matches the same message: a wildcard.
    Wildcard,
}

impl<T> Ahead<T> {
    /// The same of what stands for the youngest receive.
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
/// Constant time for every operation but iteration (posting: amortised).
pub struct Posted<M: Memory> {
    chains: Chains<Receive, M>,
    /// Receives of each class. A class without any costs an arrival no look-up.
    waiting: [u32; Class::ALL.len()],
    /// The when of the next posting. At one a nanosecond it lasts for five centuries.
    next_sequence: NonZeroU64,
}

impl<M: Memory> Posted<M> {
    /// An empty queue. Allocates nothing until the first receive.
    pub fn new(memory: M) -> Self
    where
        M: Clone,
    {
        Self {
            chains: Chains::new(memory),
            waiting: [0; Class::ALL.len()],
            next_sequence: NonZeroU64::MIN,
        }
    }

    /// The number of posted receives.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.chains.nodes().len()
    }

    /// Whether no receive is posted. One load.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.chains.nodes().is_empty()
    }

    /// Posts the caller's `receive` and returns the handle to cancel it by, valid until it is taken or cancelled.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was posted.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: u32) -> Result<u32, OutOfMemory> {
        let sequence = self.next_sequence;
        let node = Receive { pattern, receive, links: Links::NONE, sequence };
        let handle = self.chains.insert(node)?;
        self.waiting[pattern.class() as usize] += 1;
        self.next_sequence = sequence.saturating_add(1);
        Ok(handle)
    }

    /// Takes the receive that a message with this envelope goes to: the oldest that matches (MPI-4.1 §3.5).
    #[inline]
    pub fn take(&mut self, envelope: &Envelope) -> Option<u32> {
        let mut oldest: Option<(NonZeroU64, Front, Class)> = None;
        for class in Class::ALL {
            if self.waiting[class as usize] == 0 {
                continue;
            }
            let Some(front) = self.chains.front(&Key::matching(envelope, class)) else { continue };
            let Some(node) = self.chains.nodes().get(front.handle) else { continue };
            if oldest.is_none_or(|(sequence, ..)| node.sequence < sequence) {
                oldest = Some((node.sequence, front, class));
            }
        }
        let (_, front, class) = oldest?;
        let node = self.chains.remove_front(front, class)?;
        self.waiting[class as usize] -= 1;
        Some(node.receive)
    }

    /// What would be ahead of a receive with this pattern, which has no wildcard, if it were posted now. Constant time.
    #[must_use]
    pub fn ahead_of(&self, exact: &Pattern) -> Ahead {
        let Pattern { context, source, tag } = *exact;
        let envelope = Envelope { context, source, tag };
        let is_posted = |class: &Class| {
            self.waiting[*class as usize] > 0
                && self.chains.front(&Key::matching(&envelope, *class)).is_some()
        };
        let [_, wildcards @ ..] = &Class::ALL;
        if wildcards.iter().any(is_posted) {
            return Ahead::Wildcard;
        }
        self.youngest_first(exact)
            .next()
            .map_or(Ahead::Nothing, |(_, receive)| Ahead::Same(receive))
    }

    /// The receives with this very pattern as (handle, the caller's number), the youngest first.
    pub fn youngest_first(&self, pattern: &Pattern) -> impl Iterator<Item = (u32, u32)> {
        let class = pattern.class();
        let youngest = self.chains.back(&Key::of(*pattern));
        let handles = iter::successors(youngest, move |handle| self.chains.older(*handle, class));
        handles.filter_map(|handle| Some((handle, self.chains.nodes().get(handle)?.receive)))
    }

    /// Withdraws a receive and returns the caller's number of it; `None` when it has been taken or cancelled already.
    pub fn cancel(&mut self, handle: u32) -> Option<u32> {
        let node = self.chains.remove(handle)?;
        self.waiting[node.pattern.class() as usize] -= 1;
        Some(node.receive)
    }

    /// All posted receives as (handle, pattern, the caller's number), by ascending handle.
    pub fn patterns(&self) -> impl Iterator<Item = (u32, Pattern, u32)> {
        let nodes = self.chains.nodes().iter();
        nodes.map(|(handle, node)| (handle, node.pattern, node.receive))
    }

    /// The first of [`Self::patterns`] whose handle is at least `first`.
    ///
    /// A walk that cancels on its way goes on behind the last handle it saw. So all receives from a dead peer fail in
    /// one pass over the queue, without a list of them.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<(u32, Pattern, u32)> {
        let (handle, node) = self.chains.nodes().iter_from(first).next()?;
        Some((handle, node.pattern, node.receive))
    }
}

impl<M: Memory> fmt::Debug for Posted<M> {
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
            let mut posted = Posted::new(memory);
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
            let mut posted = Posted::new(memory);
            let patterns = Class::ALL.map(|class| class.pattern(&HELLO));
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
            let mut posted = Posted::new(memory);
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
            let mut posted = Posted::new(memory);
            let handles = [10, 11, 12].map(|receive| posted.post(EXACT, receive).unwrap());
            assert_eq!(posted.cancel(handles[1]), Some(11));
            assert_eq!(posted.cancel(handles[1]), None);
            assert_eq!([(); 3].map(|()| posted.take(&HELLO)), [Some(10), Some(12), None]);
        });
    }

    #[test]
    fn a_walk_may_cancel_on_its_way() {
        Counted::lend(|memory| {
            let mut posted = Posted::new(memory);
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
            let (mut fresh, mut used) = (Posted::new(memory.clone()), Posted::new(memory));
            for class in Class::ALL {
                used.post(class.pattern(&HELLO), 0).unwrap();
                used.take(&HELLO);
            }
            for class in Class::ALL {
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
        assert_eq!(size_of::<Option<Receive>>(), crate::sync::CACHE_LINE / 2);
    }
}
