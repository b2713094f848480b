//! Messages that wait for a receive.

use core::fmt;
use core::slice;

use super::chains::{Chains, Links, Node, NodeList};
use super::envelope::Pattern;
use super::selector::{Filing, Selector};
use super::unfiled::Unfiled;
use crate::memory::{Memory, OutOfMemory};

/// The bins in which a message is.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Filed {
    /// In none.
    Nowhere,
    /// In the one of its own envelope.
    ByEnvelope,
    /// In the one of each class that it matches.
    ByAll,
}

/// One message.
struct MessageNode<P: Filing, T: Copy> {
    envelope: P::Envelope,
    /// The caller's value.
    message: T,
    /// Its neighbours in each bin. Those of the second class lead through the messages that are
    /// filed by their envelopes, while it is one of them.
    links: P::PerClass<Links>,
    filed: Filed,
}

impl<P: Filing, T: Copy> Clone for MessageNode<P, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Filing, T: Copy> Copy for MessageNode<P, T> {}

impl<P: Filing, T: Copy> MessageNode<P, T> {
    #[inline(always)]
    fn new(envelope: P::Envelope, message: T) -> Self {
        Self { envelope, message, links: P::per_class(Links::NONE), filed: Filed::ByAll }
    }
}

impl<P: Filing, T: Copy> Node for MessageNode<P, T> {
    type Selector = P;

    #[inline(always)]
    fn classes(&self) -> &'static [P::Class] {
        if self.filed == Filed::ByEnvelope { slice::from_ref(&P::CLASSES[0]) } else { P::CLASSES }
    }

    #[inline(always)]
    fn key(&self, class: P::Class) -> P::Key {
        P::key_matching(&self.envelope, class)
    }

    #[inline(always)]
    fn links(&mut self, class: P::Class) -> &mut Links {
        &mut self.links[P::index(class)]
    }
}

/// A message in the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found<E = super::Envelope, T = u32> {
    /// The handle to remove it by, valid until it is removed.
    pub handle: u32,
    /// Its envelope. A receive with a wildcard learns from it what came.
    pub envelope: E,
    /// The caller's value.
    pub message: T,
}

/// The unexpected-message queue of one rank.
///
/// `T` is a value of the caller's for each message. With [`Pattern`] every operation but iteration
/// takes constant time (insertion and finding: amortised).
///
/// Messages are filed by their envelopes, as receives without a wildcard look for them. The first
/// receive with a wildcard has them filed by the patterns with wildcards, too, and so are all that
/// come then until the queue is empty.
///
/// ```
/// use strait_core::matching::{ANY_TAG, Envelope, Pattern, UnexpectedQueue};
///
/// # let mut bytes = [core::mem::MaybeUninit::uninit(); 16384];
/// # let memory = strait_core::memory::BumpMemory::new(&mut bytes);
/// let mut unexpected = UnexpectedQueue::new(&memory);
/// unexpected.insert(Envelope { context: 0, source: 1, tag: 7 }, 'a')?;
/// unexpected.insert(Envelope { context: 0, source: 1, tag: 8 }, 'b')?;
/// let found = unexpected.find(&Pattern { context: 0, source: 1, tag: ANY_TAG });
/// let found = found.expect("a message matches");
/// assert_eq!((found.message, found.envelope.tag), ('a', 7));
/// assert_eq!(unexpected.remove(found.handle), Some('a'));
/// # Ok::<(), strait_core::memory::OutOfMemory>(())
/// ```
pub struct UnexpectedQueue<M: Memory, P: Selector = Pattern, T: Copy = u32> {
    chains: Chains<MessageNode<P, T>, M>,
    /// The youngest messages, where there are several classes.
    unfiled: Unfiled,
    /// The messages that are filed by their envelopes only.
    by_envelope: NodeList,
    /// Whether messages are filed by all patterns that match them. If not, there is room for the
    /// bins that this takes.
    by_all: bool,
}

impl<M: Memory, P: Selector, T: Copy> UnexpectedQueue<M, P, T> {
    /// Whether there are several classes. If there is one, its bin has all messages in their order.
    const HAS_CLASSES: bool = P::CLASSES.len() > 1;

    /// Returns an empty queue. It allocates nothing until the first message.
    pub fn new(memory: M) -> Self
    where
        M: Clone,
    {
        Self {
            chains: Chains::new(memory),
            unfiled: Unfiled::new(),
            by_envelope: NodeList::new(),
            by_all: false,
        }
    }

    /// Returns the number of messages.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.chains.nodes().len()
    }

    /// Returns whether there is no message. One load.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.chains.nodes().is_empty()
    }

    /// Queues the caller's `message` behind all that arrived before it. Returns its handle.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the message was not queued.
    #[inline]
    pub fn insert(&mut self, envelope: P::Envelope, message: T) -> Result<u32, OutOfMemory> {
        let node = MessageNode::new(envelope, message);
        if !Self::HAS_CLASSES {
            return self.chains.insert(node);
        }
        if !self.chains.has_place(&mut self.unfiled) {
            self.file()?;
        } else if self.is_empty() {
            self.by_all = false;
        }
        let node = MessageNode { filed: Filed::Nowhere, ..node };
        self.chains.insert_unfiled(&mut self.unfiled, P::mark_matching(&envelope), node)
    }

    /// Files all messages.
    #[cold]
    fn file(&mut self) -> Result<(), OutOfMemory> {
        let classes = P::CLASSES.len();
        let (new, old) = (self.unfiled.count() as usize, self.by_envelope.count() as usize);
        self.chains.reserve(new * classes + old * (classes - 1))?;
        let filed = if self.by_all { Filed::ByAll } else { Filed::ByEnvelope };
        if filed == Filed::ByEnvelope {
            self.chains.list_unfiled(&self.unfiled, &mut self.by_envelope, Self::second());
        }
        // It does not fail: there is room.
        self.chains.file(&mut self.unfiled, |node| node.filed = filed)
    }

    /// Returns the class with the links through the messages that are filed by their envelopes.
    #[inline(always)]
    fn second() -> P::Class {
        P::CLASSES[1]
    }

    /// Files the messages that are filed by their envelopes by the other patterns, too.
    #[cold]
    fn file_by_all(&mut self) {
        self.by_all = true;
        let filed = |node: &mut MessageNode<P, T>| node.filed = Filed::ByAll;
        self.chains.file_list(&mut self.by_envelope, Self::second(), 1, filed);
    }

    /// Queues a message that was taken out again, in the order of arrival: behind the messages
    /// that `came_before` it, by their values. The call visits all of those.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the message was not queued.
    pub fn put_back(
        &mut self,
        envelope: P::Envelope,
        message: T,
        came_before: impl Fn(T) -> bool,
    ) -> Result<u32, OutOfMemory> {
        if Self::HAS_CLASSES {
            self.file()?;
            self.file_by_all();
        }
        let node = MessageNode::new(envelope, message);
        self.chains.insert_behind(node, |other| came_before(other.message))
    }

    /// Returns the message that a receive or probe with this selector takes: the first to arrive
    /// of those that match (MPI-4.1 §3.5). It stays in the queue.
    #[inline(always)]
    #[must_use]
    pub fn find(&mut self, selector: &P) -> Option<Found<P::Envelope, T>> {
        if self.len() > self.unfiled.count()
            && let found @ Some(_) = self.find_filed(selector)
        {
            return found;
        }
        if self.unfiled.count() == 0 {
            return None;
        }
        let matches = |node: &MessageNode<P, T>| selector.matches(&node.envelope);
        let (handle, node) = self.chains.oldest_unfiled(&self.unfiled, selector.mark(), matches)?;
        Some(found(handle, node))
    }

    #[inline(never)]
    fn find_filed(&mut self, selector: &P) -> Option<Found<P::Envelope, T>> {
        if self.by_envelope.count() > 0 && P::index(selector.class()) > 0 {
            self.file_by_all();
        }
        let matches = |node: &MessageNode<P, T>| selector.matches(&node.envelope);
        let key = selector.key();
        self.chains.foresee(&key);
        let (spot, node) = self.chains.oldest(&key, selector.class(), matches)?;
        Some(found(spot.handle, node))
    }

    /// Takes a message out. Returns the caller's value; `None` if it has been taken out already.
    #[inline]
    pub fn remove(&mut self, handle: u32) -> Option<T> {
        let node = self.chains.nodes().get(handle)?;
        if node.filed != Filed::Nowhere {
            let node = self.chains.remove(handle)?;
            if node.filed == Filed::ByEnvelope {
                let links = node.links[P::index(Self::second())];
                self.chains.unlist(&mut self.by_envelope, Self::second(), links);
            }
            return Some(node.message);
        }
        let node = *node;
        self.chains.remove_unfiled(&mut self.unfiled, handle, node);
        Some(node.message)
    }

    /// Returns all messages, by ascending handle.
    pub fn iter(&self) -> impl Iterator<Item = Found<P::Envelope, T>> {
        self.chains.nodes().iter().map(|(handle, node)| found(handle, node))
    }

    /// Returns the first entry of [`Self::iter`] with a handle of at least `first`. A walk that
    /// removes messages on its way continues behind the last handle that it has seen.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<Found<P::Envelope, T>> {
        let (handle, node) = self.chains.nodes().iter_from(first).next()?;
        Some(found(handle, node))
    }
}

fn found<P: Filing, T: Copy>(handle: u32, node: &MessageNode<P, T>) -> Found<P::Envelope, T> {
    Found { handle, envelope: node.envelope, message: node.message }
}

impl<M: Memory, P: Selector, T: Copy + fmt::Debug> fmt::Debug for UnexpectedQueue<M, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::envelope::WildcardClass;
    use crate::matching::{ANY_TAG, Envelope};
    use crate::memory::counted::Counted;

    const HELLO: Envelope = Envelope { context: 1, source: 2, tag: 3 };

    #[test]
    fn every_pattern_finds_the_oldest() {
        Counted::lend(|memory| {
            let mut unexpected = UnexpectedQueue::new(memory);
            let handle = unexpected.insert(HELLO, 10).unwrap();
            unexpected.insert(HELLO, 11).unwrap();
            for class in WildcardClass::ALL {
                let found = unexpected.find(&class.pattern(&HELLO));
                assert_eq!(found, Some(Found { handle, envelope: HELLO, message: 10 }));
            }
            assert_eq!(unexpected.len(), 2, "a probe takes nothing");
            assert_eq!(unexpected.remove(handle), Some(10));
            assert_eq!(unexpected.remove(handle), None);
            for class in WildcardClass::ALL {
                let found = unexpected.find(&class.pattern(&HELLO));
                assert_eq!(found.map(|found| found.message), Some(11));
            }
        });
    }

    #[test]
    fn a_wildcard_keeps_the_order_of_arrival_across_tags() {
        Counted::lend(|memory| {
            let mut unexpected = UnexpectedQueue::new(memory);
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
            let mut unexpected = UnexpectedQueue::new(memory);
            let odd = Envelope { tag: ANY_TAG, ..HELLO };
            let handles = [odd, HELLO, odd].map(|envelope| unexpected.insert(envelope, 0).unwrap());
            let any = WildcardClass::AnyTag.pattern(&HELLO);
            for handle in handles {
                assert_eq!(unexpected.find(&any).map(|found| found.handle), Some(handle));
                unexpected.remove(handle);
            }
            assert_eq!(unexpected.find(&any), None);
        });
    }
}
