//! Receives that ask for *named* messages. The embedder matches messages itself, and learns from
//! its own packets which name a coming message has ([`crate::rndv::NamedRtrs`]).

use super::request::RequestState;
use super::{Engine, Fault, Owner, RequestId, StartError};
use crate::buffer::Cursor;
use crate::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};
use crate::memory::Memory;
use crate::wire::{Corrupt, Key, Turn};

impl<M: Memory + Clone> Engine<M> {
    /// Gives each message of `context` a name from now on, in place of turns: no two messages of a
    /// pair have the same key. Receives ask for one of them by [`Engine::ask`] alone.
    ///
    /// It is for embedders that match messages themselves. All ranks name the same context.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.3.1: the name says to which message an RTR belongs.
    pub const fn name_messages(&mut self, context: u32) {
        self.negotiation.name_messages(context);
    }

    /// Returns whether an RTR for the next message to `destination` with this key is here.
    #[must_use]
    pub fn is_asked(&self, destination: u32, key: Key) -> bool {
        self.negotiation.is_asked(destination, key)
    }

    /// Posts a receive of the named message `pattern`, and asks for it by an RTR. Returns `None` if
    /// it sends no RTR, and then nothing is posted: the message has arrived, the buffer predicts
    /// none that an RTR helps, or there is no room.
    ///
    /// If the message will not come, [`Engine::dismiss`] ends the receive.
    ///
    /// # Errors
    ///
    /// [`StartError`]: nothing was posted.
    ///
    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by no other code until the receive is
    /// over: until [`Engine::test`] returns an outcome, or until [`Engine::detach`] or
    /// [`Engine::dismiss`] returns `Ok`.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.1.2.
    pub unsafe fn ask(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Option<RequestId>, StartError> {
        self.check(&pattern)?;
        self.requests.reserve()?;
        let source = pattern.source;
        let is_named = self.negotiation.is_named(Key::new(pattern.context, pattern.tag));
        if !is_named || source == ANY_SOURCE || pattern.tag == ANY_TAG || source == self.rank {
            return Ok(None);
        }
        if let Some(gone) = self.contact(source)?.gone() {
            return Err(StartError::Peer(gone.fault(source)));
        }
        if self.unexpected.find(&pattern).is_some() || !self.predicts(&pattern, &buffer, owner) {
            return Ok(None);
        }
        let id = self.requests.insert(owner, RequestState::Done(Err(Fault::Cancelled)))?;
        let handle = match self.posted.post(pattern, id) {
            Ok(handle) => handle,
            Err(error) => {
                self.requests.remove(id);
                return Err(error.into());
            }
        };
        let asked = self.send_rtr(id, &pattern, buffer, Turn::FIRST);
        if asked.is_none() {
            self.posted.cancel(handle);
            self.requests.remove(id);
            return Ok(None);
        }
        self.requests.set(id, RequestState::Posted { handle, buffer, asked });
        Ok(Some(RequestId(id)))
    }

    /// Ends a receive of [`Engine::ask`] for a message that will never come: its sender has broken
    /// the promise of the name. The peer does not use the RTR.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: the message is here or on its way. The receive goes on.
    pub fn dismiss(&mut self, id: RequestId) -> Result<(), Corrupt> {
        match self.requests.get(id.0) {
            Some(RequestState::Posted { handle, asked: Some(_), .. }) => {
                let found = self.posted.next_from(handle).filter(|(at, ..)| *at == handle);
                let (_, Pattern { context, source, tag }, _) = found.ok_or(Corrupt::Rtr)?;
                self.unpost(id.0, &Envelope { context, source, tag }, false)?;
                self.posted.cancel(handle);
            }
            // Retracted before, or the peer has failed.
            Some(RequestState::Posted { handle, .. }) => drop(self.posted.cancel(handle)),
            Some(RequestState::Done(Err(_))) => {}
            _ => return Err(Corrupt::Rtr),
        }
        self.requests.remove(id.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use super::*;
    use crate::buffer::Part;
    use crate::engine::testing::with_segment;
    use crate::engine::{Received, Tuning};
    use crate::memory::counted::Counted;

    const NAMED: u32 = 2;

    /// A length, in bytes, above that of messages in parcels.
    const LARGE: usize = 600 * 1024;

    fn cursor(bytes: &mut [u8]) -> Cursor {
        let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: no data move in these tests.
        unsafe { Cursor::contiguous(part) }
    }

    /// Runs `test` with the sender, rank 0, and the receiver, rank 1, of named messages.
    fn with_pair(test: impl FnOnce(&mut Engine<Counted>, &mut Engine<Counted>)) {
        with_segment(2, |segment| {
            let engine = |rank| {
                let tuning = Tuning::default();
                let mut engine = Engine::new(Counted::default(), *segment, rank, tuning).unwrap();
                engine.name_messages(NAMED);
                engine
            };
            test(&mut engine(0), &mut engine(1));
        });
    }

    fn ask(receiver: &mut Engine<Counted>, tag: u32, buffer: &mut [u8]) -> Option<RequestId> {
        let pattern = Pattern { context: NAMED, source: 0, tag };
        // SAFETY: no data move in these tests.
        unsafe { receiver.ask(pattern, cursor(buffer), Owner::UNSCOPED) }.unwrap()
    }

    fn send(sender: &mut Engine<Counted>, tag: u32, bytes: &mut [u8]) {
        let _ = sender.take_in().unwrap();
        let data = cursor(bytes);
        while let Some(part) = sender.wants_ring(1, &data) {
            // All of the test's segment is backed.
            assert!(sender.ring_backed(1, part, true));
        }
        // SAFETY: no data move in these tests.
        let sent = unsafe { sender.isend(1, Key::new(NAMED, tag), data, Owner::UNSCOPED) };
        assert!(sent.is_ok());
    }

    #[test]
    fn a_message_uses_the_rtr_with_its_name_and_no_other() {
        with_pair(|sender, receiver| {
            let [mut to, mut other, mut bytes] = [(); 3].map(|()| std::vec![0; LARGE]);
            let id = ask(receiver, 7, &mut to).unwrap();
            send(sender, 8, &mut other);
            assert_eq!(sender.rtrs().used, 0);
            assert!(sender.is_asked(1, Key::new(NAMED, 7)));
            send(sender, 7, &mut bytes);
            assert_eq!((sender.rtrs().heard, sender.rtrs().used), (1, 1));
            assert!(!sender.is_asked(1, Key::new(NAMED, 7)));
            // The sender may write already, so the receive cannot end.
            assert_eq!(receiver.dismiss(id), Err(Corrupt::Rtr));
            let _ = receiver.take_in().unwrap();
            assert_eq!(receiver.dismiss(id), Err(Corrupt::Rtr));
        });
    }

    #[test]
    fn a_dismissed_receive_leaves_its_message_to_another() {
        with_pair(|sender, receiver| {
            let [mut to, mut bytes] = [(); 2].map(|()| std::vec![0; LARGE]);
            for tag in [1, 2, 3] {
                let id = ask(receiver, tag, &mut to).unwrap();
                assert_eq!(receiver.dismiss(id), Ok(()));
            }
            // The sender finds the RTR retracted.
            send(sender, 2, &mut bytes);
            assert_eq!((sender.rtrs().heard, sender.rtrs().used), (3, 0));
            let _ = receiver.take_in().unwrap();
            assert!(ask(receiver, 2, &mut to).is_none(), "the message has arrived");
            let pattern = Pattern { context: NAMED, source: 0, tag: 2 };
            // SAFETY: no data move in these tests.
            let received = unsafe { receiver.irecv(pattern, cursor(&mut to), Owner::UNSCOPED) };
            assert!(matches!(received, Ok(Received::Pending(_))));
            assert_eq!((receiver.rtrs().sent, receiver.rtrs().missed), (3, 3));
        });
    }

    #[test]
    fn an_announced_message_meets_the_receive_that_asked_too_late() {
        with_pair(|sender, receiver| {
            let [mut to, mut bytes] = [(); 2].map(|()| std::vec![0; LARGE]);
            send(sender, 5, &mut bytes);
            let id = ask(receiver, 5, &mut to).unwrap();
            let _ = receiver.take_in().unwrap();
            assert_eq!(receiver.rtrs().missed, 1);
            assert_eq!(receiver.dismiss(id), Err(Corrupt::Rtr), "the message is on its way");
            // The RTR comes after its message, which does not use it.
            let _ = sender.take_in().unwrap();
            assert_eq!((sender.rtrs().heard, sender.rtrs().used), (1, 0));
        });
    }

    #[test]
    fn only_a_large_named_message_of_another_rank_is_asked_for() {
        with_pair(|_, receiver| {
            let (mut large, mut short) = (std::vec![0; LARGE], std::vec![0; 100]);
            let mut asks = |context, source, tag, buffer: &mut [u8]| {
                let pattern = Pattern { context, source, tag };
                // SAFETY: no data move in these tests.
                let asked = unsafe { receiver.ask(pattern, cursor(buffer), Owner::UNSCOPED) };
                asked.unwrap().is_some()
            };
            assert!(!asks(NAMED, 0, 1, &mut short));
            assert!(!asks(NAMED + 1, 0, 1, &mut large));
            assert!(!asks(NAMED, 1, 1, &mut large));
            assert!(!asks(NAMED, ANY_SOURCE, 1, &mut large));
            assert!(!asks(NAMED, 0, ANY_TAG, &mut large));
            assert!(asks(NAMED, 0, 1, &mut large));
        });
    }
}
