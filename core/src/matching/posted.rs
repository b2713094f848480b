//! Receives that wait for a message.

use core::fmt;
use core::iter;
use core::num::NonZeroU64;
use core::slice;

use super::chains::{Chains, Links, Node, Spot};
use super::envelope::{Envelope, Pattern, WildcardClass};
use super::first_receives::{EMPTY_HANDLE, FIRST_MAX, FirstReceives};
use super::masked::{All, MaskedEnvelope, MaskedPattern};
use super::selector::{Filing, Selector};
use super::unfiled::Unfiled;
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

/// Where a receive is.
enum Place<P: Selector, T> {
    First,
    Filed(Spot, P::Class, Links),
    Unfiled(u32, ReceiveNode<P, T>),
}

/// The posted-receive queue of one rank.
///
/// `T` is a value of the caller's for each receive. With [`Pattern`] every operation but iteration
/// takes constant time (posting: amortised). The first receives are in no list while they all ask
/// for the same messages.
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
    /// The number of receives, and one more while the bypass is barred.
    len: u32,
    /// Whether the bypass is barred ([`PostedQueue::allow_bypass`]).
    is_barred: bool,
    /// The oldest receives, where there are several classes. Their handles are below
    /// [`FIRST_MAX`]; those of the others are the keys of their nodes plus [`FIRST_MAX`].
    first: FirstReceives<P, T>,
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
            len: 0,
            is_barred: false,
            first: FirstReceives::new(),
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
        self.len - self.is_barred as u32
    }

    /// Allows receives to go round the queue while it is empty, which is the default, or bars this:
    /// then the queue never says that it is empty. So a receive that checks for an older one needs
    /// no further check.
    pub const fn allow_bypass(&mut self, is_allowed: bool) {
        self.len = self.len() + !is_allowed as u32;
        self.is_barred = !is_allowed;
    }

    /// Returns whether no receive is posted, and a receive may go round the queue. One load.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Posts the caller's `receive`. Returns the handle to cancel it by, valid until it is taken or
    /// cancelled.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was posted.
    #[inline(always)]
    pub fn post(&mut self, selector: P, receive: T) -> Result<u32, OutOfMemory> {
        if Self::HAS_CLASSES && self.len == 0 {
            self.post_to_empty(selector, receive);
            return Ok(EMPTY_HANDLE);
        }
        if Self::HAS_CLASSES
            && self.chains.nodes().is_empty()
            && let Some(handle) = self.first.add(&selector, receive)
        {
            self.len += 1;
            return Ok(handle);
        }
        self.post_in_chains(selector, receive)
    }

    /// Posts the caller's `receive` to a queue that [is empty](PostedQueue::is_empty) and has
    /// several classes. It needs no memory, and the handle is [`EMPTY_HANDLE`].
    #[inline(always)]
    pub(crate) fn post_to_empty(&mut self, selector: P, receive: T) {
        debug_assert!(Self::HAS_CLASSES && self.is_empty(), "the receive is not the first one");
        self.len = 1;
        self.first.start(selector, receive);
    }

    #[inline]
    fn post_in_chains(&mut self, selector: P, receive: T) -> Result<u32, OutOfMemory> {
        let sequence = if Self::HAS_CLASSES { self.next_sequence } else { NonZeroU64::MIN };
        let node = ReceiveNode { selector, receive, links: Links::NONE, sequence };
        let key = if Self::HAS_CLASSES {
            if !self.chains.has_place(&mut self.unfiled) {
                self.file()?;
            }
            self.chains.insert_unfiled(&mut self.unfiled, selector.mark(), node)?
        } else {
            self.chains.insert(node)?
        };
        self.next_sequence = sequence.saturating_add(1);
        self.len += 1;
        Ok(key + FIRST_MAX)
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
        self.chains.nodes().len() > self.unfiled.count()
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
        // There is one call of `accept`, so that the compiler inlines it.
        let (receive, place) = self.locate(envelope)?;
        let accepted = accept(&receive);
        if accepted.is_none() {
            return Some(None);
        }
        self.len -= 1;
        match place {
            Place::First => self.first.remove_first(),
            Place::Filed(spot, class, links) => {
                self.chains.remove_at(spot, links, class);
                if Self::HAS_CLASSES {
                    self.waiting[P::index(class)] -= 1;
                }
            }
            Place::Unfiled(key, node) => {
                self.chains.remove_unfiled(&mut self.unfiled, key, node);
            }
        }
        Some(accepted)
    }

    /// Returns the oldest receive that matches.
    #[inline(always)]
    fn locate(&self, envelope: &P::Envelope) -> Option<(T, Place<P, T>)> {
        if let Some((selector, receive)) = self.first()
            && selector.matches(envelope)
        {
            return Some((receive, Place::First));
        }
        if self.has_filed()
            && let Some((spot, class, node)) = self.oldest(envelope)
        {
            return Some((node.receive, Place::Filed(spot, class, node.links)));
        }
        if !Self::HAS_CLASSES {
            return None;
        }
        let (key, node) = self.oldest_unfiled(envelope)?;
        Some((node.receive, Place::Unfiled(key, *node)))
    }

    /// Returns the selector and the caller's value of the oldest receive, if it was posted to an
    /// empty queue or to one in which all receives had its selector.
    #[inline(always)]
    pub fn first(&self) -> Option<(P, T)> {
        self.first.first().filter(|_| Self::HAS_CLASSES)
    }

    /// Takes the receive that [`PostedQueue::first`] returns. There is one.
    #[inline(always)]
    pub(crate) fn take_first(&mut self) {
        debug_assert!(self.first().is_some(), "no receive is first");
        self.first.remove_first();
        self.len -= 1;
    }

    #[inline(always)]
    fn oldest_unfiled(&self, envelope: &P::Envelope) -> Option<(u32, &ReceiveNode<P, T>)> {
        if self.unfiled.count() == 0 {
            return None;
        }
        let matches = |node: &ReceiveNode<P, T>| node.selector.matches(envelope);
        self.chains.oldest_unfiled(&self.unfiled, P::mark_matching(envelope), matches)
    }

    /// Returns whether a receive would take a message with this envelope.
    #[inline(always)]
    #[must_use]
    pub fn awaits(&self, envelope: &P::Envelope) -> bool {
        self.locate(envelope).is_some()
    }

    /// Returns the receive that [`PostedQueue::take`] would take, as (handle, the caller's value).
    /// It stays in the queue.
    #[inline]
    #[must_use]
    pub fn find(&self, envelope: &P::Envelope) -> Option<(u32, T)> {
        let (receive, place) = self.locate(envelope)?;
        let handle = match place {
            Place::First => self.first.first_handle(),
            Place::Filed(spot, ..) => spot.handle + FIRST_MAX,
            Place::Unfiled(key, _) => key + FIRST_MAX,
        };
        Some((handle, receive))
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
        let Some(key) = handle.checked_sub(FIRST_MAX) else {
            let receive = self.first.remove(handle)?;
            self.len -= 1;
            return Some(receive);
        };
        let node = *self.chains.nodes().get(key)?;
        if !Self::HAS_CLASSES {
            self.chains.remove(key);
        } else if node.sequence < self.filed_before {
            self.chains.remove(key);
            self.waiting[P::index(node.selector.class())] -= 1;
        } else {
            self.chains.remove_unfiled(&mut self.unfiled, key, node);
        }
        self.len -= 1;
        Some(node.receive)
    }

    /// Returns all posted receives as (handle, selector, the caller's value), by ascending handle.
    pub fn patterns(&self) -> impl Iterator<Item = (u32, P, T)> {
        self.patterns_from(0)
    }

    fn patterns_from(&self, first: u32) -> impl Iterator<Item = (u32, P, T)> {
        let selector = self.first.selector().into_iter();
        let oldest = selector.flat_map(move |selector| {
            self.first.iter_from(first).map(move |(handle, receive)| (handle, selector, receive))
        });
        let nodes = self.chains.nodes().iter_from(first.saturating_sub(FIRST_MAX));
        let of_node =
            |(key, node): (u32, &ReceiveNode<P, T>)| (key + FIRST_MAX, node.selector, node.receive);
        oldest.chain(nodes.map(of_node))
    }

    /// Returns the first entry of [`Self::patterns`] with a handle of at least `first`.
    ///
    /// A walk may cancel receives on its way and continue behind the last handle that it has seen.
    /// So all receives from a peer that has died fail in one pass over the queue, without a list.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<(u32, P, T)> {
        self.patterns_from(first).next()
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
        self.len -= 1;
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
        let is_first_ahead = self.first.selector().is_some_and(|selector| {
            selector.class() != WildcardClass::Exact && selector.matches(&envelope)
        });
        let unfiled = self.chains.oldest_unfiled(&self.unfiled, exact.mark(), is_ahead);
        if is_first_ahead || unfiled.is_some() || wildcards.iter().any(is_posted) {
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
        let unfiled = self.unfiled.handles().rev();
        let has_pattern =
            |handle: &u32| nodes.get(*handle).is_some_and(|node| node.selector == *pattern);
        let filed = iter::successors(self.chains.youngest(&pattern.key()), older);
        let keys = unfiled.filter(has_pattern).chain(filed);
        let first = self.first.selector().filter(|selector| selector == pattern);
        let first = first.into_iter().flat_map(|_| self.first.youngest_first());
        keys.filter_map(|key| Some((key + FIRST_MAX, nodes.get(key)?.receive))).chain(first)
    }
}

impl<M: Memory, P: Selector, T: Copy + fmt::Debug> fmt::Debug for PostedQueue<M, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.patterns()).finish()
    }
}

#[cfg(test)]
mod tests;
