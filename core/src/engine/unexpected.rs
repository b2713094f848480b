//! The messages that met no receive when they arrived, until a receive takes them.

use super::budget::{Notice, Share, UnexpectedBudget, UnexpectedUsage};
use super::message::{DeferredSend, MatchState, UnexpectedData, UnexpectedMessage};
use super::message_buffers::OwnedBuffer;
use super::method_news::MethodNews;
use crate::buffer::Part;
use crate::matching::{Envelope, Found, Pattern, UnexpectedQueue};
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::wire::{DeferredMessageId, Offer, SHORT_MAX};

/// The unexpected messages of all sources, their order, and the memory that they use.
///
/// A message that a probe has matched is not in the queue any more, but keeps its number.
#[derive(Debug)]
pub(super) struct UnexpectedMessages<M: Memory> {
    queue: UnexpectedQueue<M>,
    messages: Slab<UnexpectedMessage, M>,
    /// Number of messages so far.
    arrivals: u64,
    /// Number of messages that a probe has matched.
    matched: u32,
    budget: UnexpectedBudget,
}

impl<M: Memory + Clone> UnexpectedMessages<M> {
    pub(super) fn new(memory: M) -> Self {
        Self {
            queue: UnexpectedQueue::new(memory.clone()),
            messages: Slab::new(memory),
            arrivals: 0,
            matched: 0,
            budget: UnexpectedBudget::default(),
        }
    }

    /// Returns whether a receive cannot meet any message here.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of messages, with those that a probe has matched.
    pub(super) const fn count(&self) -> u32 {
        self.messages.len()
    }

    /// Returns whether a probe has matched a message that was not received since.
    pub(super) const fn has_matched(&self) -> bool {
        self.matched > 0
    }

    /// Finds the oldest message that matches `pattern`.
    #[inline]
    pub(super) fn find(&mut self, pattern: &Pattern) -> Option<Found> {
        self.queue.find(pattern)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<UnexpectedMessage> {
        self.messages.get(number).copied()
    }

    /// Returns the bytes of a short message, and their number.
    #[inline(always)]
    pub(super) fn short(&self, number: u32) -> Option<(*const u64, usize)> {
        let message = self.messages.get(number)?;
        let UnexpectedData::Short(bytes) = &message.body else { return None };
        Some((bytes.as_ptr(), message.total))
    }

    /// Returns the place for the bytes of a short message.
    #[inline(always)]
    pub(super) fn short_mut(&mut self, number: u32) -> Option<&mut [u64; SHORT_MAX / 8]> {
        let UnexpectedData::Short(bytes) = &mut self.messages.get_mut(number)?.body else {
            return None;
        };
        Some(bytes)
    }

    /// Forgets a message that [`UnexpectedMessages::find`] found under this `handle`. Its memory
    /// still counts ([`UnexpectedMessages::let_go`]).
    #[inline(always)]
    pub(super) fn discard(&mut self, number: u32, handle: u32) {
        self.queue.remove(handle);
        self.messages.discard(number);
    }

    /// Returns the first message with a number of at least `from`. A loop that changes messages
    /// uses it to continue.
    pub(super) fn next_from(&self, from: u32) -> Option<(u32, UnexpectedMessage)> {
        self.messages.next_from(from)
    }

    /// Returns the messages that stand in matching, with their lengths, in no order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Envelope, usize)> {
        let messages = self.messages.iter();
        messages.filter_map(|(_, message)| match message.standing {
            MatchState::Queued(_) => Some((message.envelope, message.total)),
            MatchState::Matched | MatchState::Met => None,
        })
    }

    /// Adds a message that met no receive.
    pub(super) fn insert(&mut self, message: UnexpectedMessage) -> Result<u32, OutOfMemory> {
        let number = self.messages.next_key()?;
        let handle = self.queue.insert(message.envelope, number)?;
        self.arrivals += 1;
        let (standing, arrival) = (MatchState::Queued(handle), self.arrivals);
        // The slab has the place that it named.
        self.messages.insert(UnexpectedMessage { standing, arrival, ..message })
    }

    /// Adds a message that no probe or receive finds, for the holder of its number.
    pub(super) fn insert_matched(
        &mut self,
        message: UnexpectedMessage,
    ) -> Result<u32, OutOfMemory> {
        let message = UnexpectedMessage { standing: MatchState::Matched, ..message };
        let number = self.messages.insert(message)?;
        self.matched += 1;
        Ok(number)
    }

    /// Takes a message out of matching, for the holder of its number.
    pub(super) fn take_out(&mut self, number: u32) {
        if let Some(message) = self.messages.get_mut(number)
            && let MatchState::Queued(handle) = message.standing
        {
            message.standing = MatchState::Matched;
            self.queue.remove(handle);
            self.matched += 1;
        }
    }

    /// Puts a message that was taken out back into its old place in matching.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub(super) fn put_back(&mut self, number: u32) -> Result<(), OutOfMemory> {
        let Some(message) = self.get(number) else { return Ok(()) };
        let messages = &self.messages;
        let arrival = message.arrival;
        let came_before = |other| messages.get(other).is_some_and(|other| other.arrival < arrival);
        let handle = self.queue.put_back(message.envelope, number, came_before)?;
        self.matched -= 1;
        if let Some(message) = self.messages.get_mut(number) {
            message.standing = MatchState::Queued(handle);
        }
        Ok(())
    }

    /// Notes that a message has met its receive while it is arriving.
    pub(super) fn meet(&mut self, number: u32) {
        let Some(message) = self.messages.get_mut(number) else { return };
        let standing = core::mem::replace(&mut message.standing, MatchState::Met);
        self.leave_matching(standing);
    }

    /// Forgets a message in any state. Its memory still counts ([`UnexpectedMessages::let_go`]).
    pub(super) fn remove(&mut self, number: u32) -> Option<UnexpectedMessage> {
        let message = self.messages.remove(number)?;
        self.leave_matching(message.standing);
        Some(message)
    }

    /// Notes that the data of a message went with its sender. Returns the message as it was.
    pub(super) fn lose(&mut self, number: u32) -> Option<UnexpectedMessage> {
        let message = self.messages.get_mut(number)?;
        let before = *message;
        message.body = UnexpectedData::Lost;
        Some(before)
    }

    /// Returns the memory for the bytes of a message that have not arrived.
    pub(super) fn rest_of(&self, number: u32) -> Option<Part> {
        let message = self.messages.get(number)?;
        let UnexpectedData::Here(Some(OwnedBuffer { base, length })) = message.body else {
            return None;
        };
        // SAFETY: the message's memory has room for all of it, and `arrived` bytes are filled.
        let base = unsafe { base.add(message.arrived) };
        Some(Part { base, length: length - message.arrived })
    }

    /// Counts `bytes` more of a message that are in its memory.
    pub(super) fn count_arrived(&mut self, number: u32, bytes: usize) {
        if let Some(message) = self.messages.get_mut(number) {
            message.arrived += bytes;
        }
    }

    /// Finds the message that `source` announced under this name and that this rank may read.
    pub(super) fn find_exposed(
        &self,
        source: u32,
        name: DeferredMessageId,
    ) -> Option<(u32, Offer)> {
        self.messages.iter().find_map(|(number, message)| match message.body {
            UnexpectedData::There(DeferredSend::Exposed { offer, .. })
                if message.envelope.source == source && offer.name() == name =>
            {
                Some((number, offer))
            }
            _ => None,
        })
    }

    /// Finds the message of `source` that a method moves in the transfer that the sender calls
    /// `name`.
    pub(super) fn find_by_method(&self, source: u32, name: u64) -> Option<(u32, MethodNews)> {
        self.messages.iter().find_map(|(number, message)| match message.body {
            UnexpectedData::There(DeferredSend::Method(news))
                if message.envelope.source == source && news.name == name =>
            {
                Some((number, news))
            }
            _ => None,
        })
    }

    /// Makes an announced message one that was offered: this rank may not read it any more.
    pub(super) fn hide(&mut self, number: u32, offer: Offer) {
        if let Some(message) = self.messages.get_mut(number) {
            message.body = UnexpectedData::There(DeferredSend::Offered(offer));
        }
    }

    /// Returns the memory of all messages, to be released.
    pub(super) fn buffers(&self) -> impl Iterator<Item = OwnedBuffer> {
        self.messages.iter().filter_map(|(_, message)| message.body.owned())
    }

    /// Returns the memory that the messages of all sources use.
    pub(super) const fn held(&self) -> UnexpectedUsage {
        self.budget.held()
    }

    /// Counts a message of `length` bytes against `share`, which may take `max` bytes.
    pub(super) fn hold(&mut self, share: &mut Share, length: usize, max: usize) -> Option<Notice> {
        self.budget.hold(share, length, max)
    }

    /// Returns to the share the bytes that [`UnexpectedMessages::hold`] counted.
    pub(super) fn let_go(
        &mut self,
        share: &mut Share,
        length: usize,
        max: usize,
    ) -> Option<Notice> {
        self.budget.let_go(share, length, max)
    }

    /// Removes a message from the place in matching where it stands.
    fn leave_matching(&mut self, standing: MatchState) {
        match standing {
            MatchState::Queued(handle) => {
                self.queue.remove(handle);
            }
            MatchState::Matched => self.matched -= 1,
            MatchState::Met => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    const PATTERN: Pattern = Pattern { context: 0, source: 1, tag: 7 };

    fn offered(number: u32) -> UnexpectedMessage {
        let offer = Offer { total: 100, place: 0, number };
        let body = UnexpectedData::There(DeferredSend::Offered(offer));
        UnexpectedMessage::new(Envelope { context: 0, source: 1, tag: 7 }, body, 100, 0)
    }

    fn messages() -> (UnexpectedMessages<Counted>, [u32; 3]) {
        let mut messages = UnexpectedMessages::new(Counted::default());
        let numbers = [1, 2, 3].map(|number| messages.insert(offered(number)).unwrap());
        (messages, numbers)
    }

    fn oldest(messages: &mut UnexpectedMessages<Counted>) -> Option<u32> {
        messages.find(&PATTERN).map(|found| found.message)
    }

    #[test]
    fn a_message_that_was_taken_out_comes_back_to_its_old_place() {
        let (mut messages, [first, second, _]) = messages();
        messages.take_out(first);
        messages.take_out(first);
        assert_eq!((oldest(&mut messages), messages.has_matched()), (Some(second), true));
        messages.put_back(first).unwrap();
        assert_eq!((oldest(&mut messages), messages.has_matched()), (Some(first), false));
    }

    #[test]
    fn a_message_leaves_matching_from_wherever_it_stands() {
        let (mut messages, [first, second, third]) = messages();
        messages.take_out(second);
        messages.meet(third);
        assert_eq!((oldest(&mut messages), messages.count()), (Some(first), 3));
        for number in [first, second, third] {
            assert!(messages.remove(number).is_some());
        }
        assert!(messages.is_empty() && !messages.has_matched() && messages.count() == 0);
        assert!(messages.remove(first).is_none());
    }

    #[test]
    fn without_memory_no_message_is_added() {
        let memory = Counted::default();
        let mut messages = UnexpectedMessages::new(memory.clone());
        memory.refuse(true);
        assert!(messages.insert(offered(1)).is_err());
        assert!(messages.is_empty() && messages.count() == 0);
    }

    #[test]
    fn the_rest_of_a_message_lies_behind_what_has_arrived() {
        let mut messages = UnexpectedMessages::new(Counted::default());
        let mut memory = [0_u8; 10];
        let base = core::ptr::NonNull::from(&mut memory).cast();
        let body = UnexpectedData::Here(Some(OwnedBuffer { base, length: 10 }));
        let message = UnexpectedMessage { body, total: 10, arrived: 4, ..offered(1) };
        let number = messages.insert(message).unwrap();
        messages.count_arrived(number, 3);
        let rest = messages.rest_of(number).unwrap();
        assert_eq!((rest.base.addr().get(), rest.length), (base.addr().get() + 7, 3));
        let lost = messages.lose(number).unwrap();
        assert!(matches!(lost.body, UnexpectedData::Here(Some(_))));
        assert!(messages.rest_of(number).is_none() && messages.buffers().next().is_none());
    }
}
