//! The posted receives and unexpected messages of one class: core's matching under 64-bit tags, and
//! the provider's data of each entry. The bytes of messages are in the engine.

use core::alloc::Layout;
use core::ffi::c_void;
use std::alloc::handle_alloc_error;
use std::collections::BTreeMap;

use strait::SystemMemory;
use strait_core::engine::MessageId;
use strait_core::matching::{Found, MaskedEnvelope, MaskedPattern, PostedQueue, UnexpectedQueue};
use strait_core::memory::OutOfMemory;

use super::pending_receive::{AskedMessage, PendingReceive, Plain};
use crate::buffer::UserBuffer;
use crate::wire::Away;

/// The receives and messages of one class that wait for each other.
#[derive(Debug)]
pub(super) struct ClassQueues {
    posted: PostedQueue<SystemMemory, MaskedPattern, PostedEntry>,
    /// The receives with an entry [`PostedEntry::Other`], by handle.
    others: BTreeMap<u32, PendingReceive>,
    unexpected: UnexpectedQueue<SystemMemory, MaskedPattern, UnmatchedMessage>,
}

/// A message that no receive has matched yet. The engine has its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnmatchedMessage {
    pub(super) data: u64,
    /// Flags of the head.
    pub(super) flags: u32,
    pub(super) body: MessageBody,
}

/// The place of the bytes of an unmatched message.
#[derive(Clone, Copy, Debug)]
pub(super) enum MessageBody {
    /// In the engine's memory, under this name. The number reports the delivery.
    Here { number: u32, length: usize, name: MessageId },
    /// The data are still at the sender.
    Away(Away),
}

/// A receive as the matching queue stores it.
#[derive(Clone, Copy, Debug)]
pub(super) enum PostedEntry {
    /// A receive for one message into a buffer of one part.
    Plain(Plain),
    /// Any other receive, which is stored beside the queue.
    Other,
}

/// An unexpected message that was taken out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unmatched {
    pub(super) envelope: MaskedEnvelope,
    pub(super) message: UnmatchedMessage,
}

impl UnmatchedMessage {
    /// Returns the size of the message in bytes.
    pub(super) const fn length(&self) -> usize {
        match self.body {
            MessageBody::Here { length, .. } => length,
            MessageBody::Away(away) => away.length,
        }
    }
}

impl ClassQueues {
    pub(super) fn new() -> Self {
        Self {
            posted: PostedQueue::new(SystemMemory),
            others: BTreeMap::new(),
            unexpected: UnexpectedQueue::new(SystemMemory),
        }
    }

    /// Returns whether no message waits for a receive.
    #[inline(always)]
    pub(super) const fn has_no_message(&self) -> bool {
        self.unexpected.is_empty()
    }

    /// Posts a plain receive behind all others. No unexpected message matches it.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was posted.
    #[inline(always)]
    pub(super) fn post_plain(
        &mut self,
        pattern: MaskedPattern,
        receive: Plain,
    ) -> Result<(), OutOfMemory> {
        self.posted.post(pattern, PostedEntry::Plain(receive)).map(drop)
    }

    /// Posts a receive behind all others. No unexpected message matches it.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was posted.
    pub(super) fn post(
        &mut self,
        pattern: MaskedPattern,
        receive: PendingReceive,
    ) -> Result<(), OutOfMemory> {
        if let Some(plain) = receive.as_plain() {
            return self.post_plain(pattern, plain);
        }
        let handle = self.posted.post(pattern, PostedEntry::Other)?;
        self.others.insert(handle, receive);
        Ok(())
    }

    /// Takes the oldest receive of the queue, if it matches, is plain and has room for `length`
    /// bytes. Otherwise it stays in the queue.
    #[inline(always)]
    pub(super) fn take_plain(&mut self, envelope: &MaskedEnvelope, length: usize) -> Option<Plain> {
        self.posted.take_first_with(envelope, |entry| match entry {
            PostedEntry::Plain(plain) if length <= plain.part.length() => Some(*plain),
            PostedEntry::Plain(_) | PostedEntry::Other => None,
        })
    }

    /// Lends the oldest receive that matches. Its place in the queue stays until
    /// [`ClassQueues::give_back`] is called with the same handle.
    pub(super) fn lend(&mut self, envelope: &MaskedEnvelope) -> Option<(u32, PendingReceive)> {
        let (handle, entry) = self.posted.find(envelope)?;
        Some((handle, self.owned(handle, entry)?))
    }

    /// Ends a loan: the receive stays in its place, or it is complete and leaves the queue.
    pub(super) fn give_back(&mut self, handle: u32, receive: Option<PendingReceive>) {
        match receive {
            Some(receive) => drop(self.others.insert(handle, receive)),
            None => drop(self.posted.cancel(handle)),
        }
    }

    /// Returns whether a posted receive matches `envelope`.
    pub(super) fn awaits(&self, envelope: &MaskedEnvelope) -> bool {
        self.posted.find(envelope).is_some()
    }

    /// Returns what the receives have asked for, with the contexts of these receives.
    pub(super) fn asked(&mut self) -> impl Iterator<Item = (*mut c_void, &mut AskedMessage)> {
        let receives = self.others.values_mut();
        receives.filter_map(|receive| Some((receive.context, receive.asked.as_mut()?)))
    }

    /// Returns the patterns of the receives for one message, the oldest first.
    pub(super) fn receives(&self) -> impl Iterator<Item = MaskedPattern> {
        let is_for_many =
            |handle: &u32| self.others.get(handle).is_some_and(|receive| receive.multi.is_some());
        let receives = self.posted.patterns();
        receives.filter(move |(handle, ..)| !is_for_many(handle)).map(|(_, pattern, _)| pattern)
    }

    /// Returns the messages that wait for receives, with their lengths in bytes.
    pub(super) fn messages(&self) -> impl Iterator<Item = (MaskedEnvelope, usize)> {
        self.unexpected.iter().map(|found| (found.envelope, found.message.length()))
    }

    /// Withdraws a receive for which `is_it` returns true.
    pub(super) fn withdraw(
        &mut self,
        is_it: impl Fn(&MaskedPattern, *mut c_void) -> bool,
    ) -> Option<(MaskedPattern, PendingReceive)> {
        let Self { posted, others, .. } = self;
        let context = |handle: &u32, entry: &PostedEntry| match entry {
            PostedEntry::Plain(plain) => Some(plain.context),
            PostedEntry::Other => Some(others.get(handle)?.context),
        };
        let mut receives = posted.patterns();
        let (handle, pattern, entry) = receives.find(|(handle, pattern, entry)| {
            context(handle, entry).is_some_and(|context| is_it(pattern, context))
        })?;
        drop(receives);
        let receive = self.owned(handle, entry);
        self.posted.cancel(handle);
        Some((pattern, receive?))
    }

    fn owned(&mut self, handle: u32, entry: PostedEntry) -> Option<PendingReceive> {
        match entry {
            PostedEntry::Other => self.others.remove(&handle),
            PostedEntry::Plain(Plain { part, context, quiet }) => Some(PendingReceive {
                buffer: UserBuffer::of_part(part),
                context,
                quiet,
                multi: None,
                asked: None,
            }),
        }
    }

    /// ClassQueues a message behind all others. No posted receive matches it.
    pub(super) fn keep(&mut self, envelope: MaskedEnvelope, message: UnmatchedMessage) {
        if let Err(error) = self.unexpected.insert(envelope, message) {
            exhausted(error);
        }
    }

    /// Returns the message that a receive with this pattern would get. It stays in the queue.
    pub(super) fn find_message(&mut self, pattern: &MaskedPattern) -> Option<Unmatched> {
        let Found { envelope, message, .. } = self.unexpected.find(pattern)?;
        Some(Unmatched { envelope, message })
    }

    /// Takes the message that a receive with this pattern gets.
    #[inline(always)]
    pub(super) fn take_message(&mut self, pattern: &MaskedPattern) -> Option<Unmatched> {
        if self.unexpected.is_empty() {
            return None;
        }
        let Found { handle, envelope, message } = self.unexpected.find(pattern)?;
        self.unexpected.remove(handle);
        Some(Unmatched { envelope, message })
    }
}

/// Ends the process as the standard library's containers do without memory. A message that has
/// arrived has no call that could return the error.
#[cold]
pub(super) fn exhausted(OutOfMemory { bytes }: OutOfMemory) -> ! {
    handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::buffer::UserPart;

    const HELLO: MaskedEnvelope = MaskedEnvelope { source: 1, tag: 7 };
    const SAME: MaskedPattern = MaskedPattern { source: 1, tag: 7, ignore: 0 };

    fn receive(context: usize, multi: bool) -> PendingReceive {
        let context = ptr::without_provenance_mut(context);
        PendingReceive::new(UserBuffer::of_part(UserPart::EMPTY), context, false, multi)
    }

    #[test]
    fn a_receive_for_many_messages_keeps_its_place() {
        let mut queues = ClassQueues::new();
        queues.post(SAME, receive(1, true)).unwrap();
        queues.post(SAME, receive(2, false)).unwrap();
        assert!(queues.take_plain(&HELLO, 0).is_none(), "the plain one is younger");
        let (handle, first) = queues.lend(&HELLO).unwrap();
        queues.give_back(handle, Some(first));
        let (handle, first) = queues.lend(&HELLO).unwrap();
        assert_eq!(first.context.addr(), 1);
        queues.give_back(handle, None);
        assert!(queues.take_plain(&HELLO, 1).is_none(), "there is no room");
        assert_eq!(queues.take_plain(&HELLO, 0).unwrap().context.addr(), 2);
        assert!(queues.lend(&HELLO).is_none() && queues.others.is_empty());
    }

    #[test]
    fn a_receive_that_is_withdrawn_gets_nothing() {
        let mut queues = ClassQueues::new();
        for context in [1, 2, 3] {
            queues.post(SAME, receive(context, context == 2)).unwrap();
        }
        for gone in [2, 1] {
            let withdrawn = queues.withdraw(|_, context| context.addr() == gone);
            assert_eq!(withdrawn.map(|(_, receive)| receive.context.addr()), Some(gone));
            assert!(queues.withdraw(|_, context| context.addr() == gone).is_none());
        }
        assert_eq!(queues.lend(&HELLO).unwrap().1.context.addr(), 3);
    }
}
