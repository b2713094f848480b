//! Messages that wait for a receive.

use core::fmt;

use super::bins::Key;
use super::chains::{Chains, Links, Node};
use super::envelope::{Class, Envelope, Pattern};
use crate::memory::{Memory, OutOfMemory};

/// One message, in the bins of the four patterns that match it.
#[derive(Clone, Copy)]
struct Message {
    envelope: Envelope,
    /// The caller's number.
    message: u32,
    links: [Links; Class::ALL.len()],
}

impl Node for Message {
    #[inline(always)]
    fn classes(&self) -> &'static [Class] {
        &Class::ALL
    }

    #[inline(always)]
    fn key(&self, class: Class) -> Key {
        Key::matching(&self.envelope, class)
    }

    #[inline(always)]
    fn links(&mut self, class: Class) -> &mut Links {
        &mut self.links[class as usize]
    }
}

/// A message in the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// What to remove it by, valid until it is removed.
    pub handle: u32,
    /// Its envelope: where a wildcard matched, the receive learns from it what came.
    pub envelope: Envelope,
    /// The caller's number of it.
    pub message: u32,
}

impl Found {
    const fn new(handle: u32, node: &Message) -> Self {
        Self { handle, envelope: node.envelope, message: node.message }
    }
}

/// The unexpected-message queue of one rank.
///
/// Constant time for every operation but iteration (insertion: amortised).
pub struct Unexpected<M: Memory> {
    chains: Chains<Message, M>,
}

impl<M: Memory> Unexpected<M> {
    /// An empty queue. Allocates nothing until the first message.
    pub fn new(memory: M) -> Self
    where
        M: Clone,
    {
        Self { chains: Chains::new(memory) }
    }

    /// The number of messages.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.chains.nodes().len()
    }

    /// Whether there is no message. One load.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.chains.nodes().is_empty()
    }

    /// Queues the caller's `message` behind all that arrived before it and returns its handle.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the message was not queued.
    #[inline]
    pub fn insert(&mut self, envelope: Envelope, message: u32) -> Result<u32, OutOfMemory> {
        self.chains.insert(Message { envelope, message, links: [Links::NONE; Class::ALL.len()] })
    }

    /// Queues a message again that was taken out, among the others as they arrived: behind those of the caller's that `came_before` it.
    /// Walks past these.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the message was not queued.
    pub fn put_back(
        &mut self,
        envelope: Envelope,
        message: u32,
        came_before: impl Fn(u32) -> bool,
    ) -> Result<u32, OutOfMemory> {
        let node = Message { envelope, message, links: [Links::NONE; Class::ALL.len()] };
        self.chains.insert_behind(node, |other| came_before(other.message))
    }

    /// The message that a receive or probe with this pattern takes: the first to arrive of those that match
    /// (MPI-4.1 §3.5). It stays in the queue.
    #[inline]
    #[must_use]
    pub fn find(&self, pattern: &Pattern) -> Option<Found> {
        let front = self.chains.front(&Key::of(*pattern))?;
        Some(Found::new(front.handle, self.chains.nodes().get(front.handle)?))
    }

    /// Takes a message out and returns the caller's number of it; `None` when it has been taken out already.
    #[inline]
    pub fn remove(&mut self, handle: u32) -> Option<u32> {
        Some(self.chains.remove(handle)?.message)
    }

    /// All messages, by ascending handle.
    pub fn iter(&self) -> impl Iterator<Item = Found> {
        self.chains.nodes().iter().map(|(handle, node)| Found::new(handle, node))
    }

    /// The first of [`Self::iter`] whose handle is at least `first`: a walk that removes on its way goes on behind
    /// the last handle it saw.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<Found> {
        let (handle, node) = self.chains.nodes().iter_from(first).next()?;
        Some(Found::new(handle, node))
    }
}

impl<M: Memory> fmt::Debug for Unexpected<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::ANY_TAG;
    use crate::memory::counted::Counted;

    const HELLO: Envelope = Envelope { context: 1, source: 2, tag: 3 };

    #[test]
    fn every_pattern_finds_the_oldest() {
        Counted::lend(|memory| {
            let mut unexpected = Unexpected::new(memory);
            let handle = unexpected.insert(HELLO, 10).unwrap();
            unexpected.insert(HELLO, 11).unwrap();
            for class in Class::ALL {
                let found = unexpected.find(&class.pattern(&HELLO));
                assert_eq!(found, Some(Found { handle, envelope: HELLO, message: 10 }));
            }
            assert_eq!(unexpected.len(), 2, "a probe takes nothing");
            assert_eq!(unexpected.remove(handle), Some(10));
            assert_eq!(unexpected.remove(handle), None);
            for class in Class::ALL {
                let found = unexpected.find(&class.pattern(&HELLO));
                assert_eq!(found.map(|found| found.message), Some(11));
            }
        });
    }

    #[test]
    fn a_wildcard_keeps_the_order_of_arrival_across_tags() {
        Counted::lend(|memory| {
            let mut unexpected = Unexpected::new(memory);
            for tag in [5, 3, 9, 4] {
                unexpected.insert(Envelope { tag, ..HELLO }, tag).unwrap();
            }
            let any = Pattern { context: 1, source: 2, tag: ANY_TAG };
            let middle = unexpected.find(&Pattern { tag: 9, ..any }).unwrap();
            assert_eq!(unexpected.remove(middle.handle), Some(9));
            for tag in [5, 3, 4] {
                let found = unexpected.find(&any).unwrap();
                assert_eq!((found.envelope.tag, found.message), (tag, tag));
                unexpected.remove(found.handle);
            }
            assert!(unexpected.is_empty() && unexpected.find(&any).is_none());
        });
    }

    #[test]
    fn a_wildcard_in_an_envelope_harms_nothing() {
        Counted::lend(|memory| {
            let mut unexpected = Unexpected::new(memory);
            let odd = Envelope { tag: ANY_TAG, ..HELLO };
            let handles = [odd, HELLO, odd].map(|envelope| unexpected.insert(envelope, 0).unwrap());
            let any = Class::AnyTag.pattern(&HELLO);
            for handle in handles {
                assert_eq!(unexpected.find(&any).map(|found| found.handle), Some(handle));
                unexpected.remove(handle);
            }
            assert_eq!(unexpected.find(&any), None);
        });
    }
}
