//! Receives that go round matching while messages come from other nodes.

use super::Channel;
use super::standing::StandingReceive;
use crate::buffer::Cursor;
use crate::engine::packet::Packet;
use crate::engine::peer::Peer;
use crate::engine::reassembly::ArrivalTarget;
use crate::engine::request::RequestState;
use crate::engine::{Engine, Fault, Owner, ProgressError, Received, RequestId};
use crate::matching::{ANY_SOURCE, Pattern};
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Returns whether messages from `source` may come from another node.
    #[inline]
    #[must_use]
    pub fn may_come_by_network(&self, source: u32) -> bool {
        let is_remote = || self.peers.get(source as usize).is_some_and(Peer::is_remote);
        self.has_network() && (source == ANY_SOURCE || is_remote())
    }

    /// Does what [`Engine::poll_network`] does, and receives a message with a receive that was not
    /// posted (`[Nemesis07]` §3.3). Returns `None` if no message has met it: the caller may try
    /// again, or post it by [`Engine::irecv`].
    ///
    /// A receive that matters to rendezvous has to be posted, because only a posted one sends an
    /// RTR. It meets no message here, nor does any receive while another is posted, while a message
    /// is unexpected, or without the bypass ([`crate::engine::Tuning::bypass`]).
    ///
    /// # Safety
    ///
    /// If the result is [`Received::Pending`], the contract of [`Engine::irecv`] holds for the
    /// buffer. Otherwise the buffer is no longer used.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::poll_network`]. No message has met the receive then.
    pub unsafe fn recv_from_network(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
        channel: &mut impl Channel,
    ) -> Result<Option<Received>, ProgressError> {
        let may_meet = self.posted.is_empty()
            && self.unexpected.is_empty()
            && !self.tuning.may_announce(buffer.remaining());
        if may_meet {
            self.requests.reserve()?;
            let standing = StandingReceive { pattern, buffer, owner, request: None };
            self.network.standing = Some(standing);
        }
        let polled = self.poll_network(channel);
        let standing = self.network.standing.take();
        let Some(id) = standing.and_then(|standing| standing.request) else {
            return polled.map(|_| None);
        };
        // An error of the poll is met again by the next one. What was received is not lost.
        Ok(Some(match self.requests.take_outcome(id) {
            Some(outcome) => Received::Done(outcome),
            None => Received::Pending(RequestId(id)),
        }))
    }

    /// Gives a message that begins to the standing receive, if there is one and it wants the
    /// message. A message that came before and is unexpected closes the way: it may be older.
    pub(super) fn meet_standing(&mut self, packet: &Packet) -> Option<ArrivalTarget> {
        let standing = self.network.standing.as_mut()?;
        let is_wanted = standing.request.is_none()
            && standing.pattern.matches(&packet.envelope)
            && self.unexpected.is_empty();
        if !is_wanted {
            return None;
        }
        let state = RequestState::Done(Err(Fault::Cancelled));
        let id = self.requests.insert(standing.owner, state).ok()?;
        standing.request = Some(id);
        let buffer = standing.buffer;
        self.note_met(&packet.envelope);
        Some(self.begin_receive(id, buffer, packet))
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use super::*;
    use crate::buffer::Part;
    use crate::engine::testing::with_segment;
    use crate::engine::{Begun, Broken, ChannelProgress, Direct, Status, Tuning};
    use crate::hca::{Access, Region};
    use crate::matching::ANY_TAG;
    use crate::memory::counted::Counted;
    use crate::wire::{Key, Offer, StreamHead};

    /// A stream of bytes from one peer, of which a number has arrived.
    #[derive(Default)]
    struct Arriving {
        bytes: Vec<u8>,
        arrived: usize,
        taken: usize,
    }

    impl Arriving {
        fn head(&mut self, head: StreamHead) {
            self.bytes.extend(head.pack());
        }

        fn message(&mut self, tag: u32, payload: &[u8]) {
            self.head(StreamHead::Message { key: Key::new(0, tag), total: payload.len() });
            self.bytes.extend(payload);
        }

        fn all(mut self) -> Self {
            self.arrived = self.bytes.len();
            self
        }
    }

    impl Channel for Arriving {
        unsafe fn put(&mut self, _: u32, _: &[Part]) -> Result<ChannelProgress, Broken> {
            Ok(ChannelProgress { bytes: 0, holds: false })
        }

        unsafe fn get(&mut self, _: u32, into: &[Part]) -> Result<ChannelProgress, Broken> {
            let mut bytes = 0;
            for part in into {
                let count = part.length.min(self.arrived - self.taken);
                let from = self.bytes[self.taken..].as_ptr();
                // SAFETY: the part is valid for writes (contract of `get`).
                unsafe { from.copy_to_nonoverlapping(part.base.as_ptr(), count) };
                (self.taken, bytes) = (self.taken + count, bytes + count);
            }
            Ok(ChannelProgress { bytes, holds: false })
        }

        unsafe fn register(&mut self, _: Part, _: Access) -> Option<Region> {
            None
        }

        fn release(&mut self, _: Region) {}

        unsafe fn transfer(&mut self, _: u32, _: &Direct) -> Result<Option<Begun>, Broken> {
            Ok(None)
        }

        fn is_done(&self, _: u32, _: u64) -> bool {
            false
        }

        fn is_linked(&self, _: u32) -> bool {
            true
        }

        fn now(&self) -> u64 {
            0
        }

        fn close(&mut self, _: u32) {}
    }

    /// Runs `test` with an engine to which rank 1 is on another node.
    fn with_engine(test: impl FnOnce(Engine<Counted>)) {
        with_segment(1, |segment| {
            let tuning = Tuning::default();
            let mut engine = Engine::new(Counted::default(), *segment, 0, tuning).unwrap();
            engine.set_remote(1).unwrap();
            engine.linked(1).unwrap();
            test(engine);
        });
    }

    const fn pattern(source: u32, tag: u32) -> Pattern {
        Pattern { context: 0, source, tag }
    }

    fn receive(
        engine: &mut Engine<Counted>,
        wanted: Pattern,
        buffer: &mut [u8],
        channel: &mut Arriving,
    ) -> Option<Received> {
        let part = Part { base: NonNull::from(&mut *buffer).cast(), length: buffer.len() };
        // SAFETY: the tests keep their buffers until the receive is over.
        unsafe {
            let buffer = Cursor::contiguous(part);
            engine.recv_from_network(wanted, buffer, Owner::BLOCKING, channel).unwrap()
        }
    }

    fn status(tag: u32, bytes: usize) -> Status {
        Status { source: 1, tag, bytes }
    }

    #[test]
    fn a_message_that_has_come_meets_a_receive_that_is_not_posted() {
        for (source, tag) in [(1, 7), (ANY_SOURCE, 7), (1, ANY_TAG)] {
            with_engine(|mut engine| {
                let (mut channel, mut buffer) = (Arriving::default(), [0; 4]);
                assert_eq!(
                    receive(&mut engine, pattern(source, tag), &mut buffer, &mut channel),
                    None
                );
                channel.message(7, &[1, 2, 3]);
                channel.message(8, &[]);
                let mut channel = channel.all();
                let came = receive(&mut engine, pattern(source, tag), &mut buffer, &mut channel);
                assert_eq!(came, Some(Received::Done(Ok(status(7, 3)))));
                assert_eq!(buffer, [1, 2, 3, 0]);
                // The next one is unexpected.
                assert_eq!(engine.iprobe(pattern(1, 8)), Ok(Some(status(8, 0))));
            });
        }
    }

    #[test]
    fn a_message_of_which_a_part_has_come_is_received_to_its_end() {
        with_engine(|mut engine| {
            let (mut channel, mut buffer) = (Arriving::default(), [0; 3]);
            channel.message(7, &[1, 2, 3]);
            channel.arrived = channel.bytes.len() - 2;
            let came = receive(&mut engine, pattern(1, 7), &mut buffer, &mut channel);
            let Some(Received::Pending(id)) = came else { panic!("{came:?}") };
            assert_eq!(engine.test(id), None);
            engine.poll_network(&mut channel.all()).unwrap();
            assert_eq!(engine.test(id), Some(Ok(status(7, 3))));
            assert_eq!(buffer, [1, 2, 3]);
        });
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_off() {
        with_engine(|mut engine| {
            let (mut channel, mut buffer) = (Arriving::default(), [0; 2]);
            channel.message(7, &[1, 2, 3]);
            let came = receive(&mut engine, pattern(1, 7), &mut buffer, &mut channel.all());
            let fault = Fault::Truncated { source: 1, tag: 7, message: 3, buffer: 2 };
            assert_eq!(came, Some(Received::Done(Err(fault))));
            assert_eq!(buffer, [1, 2]);
        });
    }

    #[test]
    fn a_message_behind_an_unexpected_one_does_not_overtake_it() {
        with_engine(|mut engine| {
            let (mut channel, mut buffer) = (Arriving::default(), [0; 8]);
            channel.head(StreamHead::Offer {
                key: Key::new(0, 7),
                offer: Offer { total: 5, place: 0, number: 1 },
            });
            channel.message(7, &[1]);
            let came = receive(&mut engine, pattern(1, 7), &mut buffer, &mut channel.all());
            assert_eq!(came, None);
            assert_eq!(engine.iprobe(pattern(1, 7)), Ok(Some(status(7, 5))));
        });
    }

    #[test]
    fn nothing_meets_it_while_a_receive_is_posted_or_without_the_bypass() {
        with_engine(|mut engine| {
            let (mut posted, mut buffer) = ([0; 1], [0; 1]);
            let part = Part { base: NonNull::from(&mut posted).cast(), length: 1 };
            // SAFETY: the buffer outlives the engine.
            let older = unsafe {
                engine.irecv(pattern(1, 7), Cursor::contiguous(part), Owner::BLOCKING).unwrap()
            };
            let Received::Pending(older) = older else { panic!("{older:?}") };
            let mut channel = Arriving::default();
            channel.message(7, &[1]);
            let came = receive(&mut engine, pattern(1, 7), &mut buffer, &mut channel.all());
            assert_eq!((came, engine.test(older)), (None, Some(Ok(status(7, 1)))));
            engine.retune(Tuning { bypass: false, ..engine.tuning() });
            let mut channel = Arriving::default();
            channel.message(7, &[2]);
            let came = receive(&mut engine, pattern(1, 7), &mut buffer, &mut channel.all());
            assert_eq!(came, None);
            assert_eq!(engine.iprobe(pattern(1, 7)), Ok(Some(status(7, 1))));
        });
    }
}
