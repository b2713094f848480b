//! Messages of a rank to itself, as in a periodic grid with one rank in a dimension.
//!
//! Sender and receiver are one, so a message that finds its receive posted is copied once, from
//! buffer to buffer. One that does not takes the paths of any other message. So later messages are
//! copied at once only after all earlier ones were taken from those paths.

use super::packet::{Packet, PacketPayload};
use super::request::RequestState;
use super::{Engine, Status};
use crate::buffer::copy::{Stores, copy_bulk};
use crate::buffer::{Cursor, Part};
use crate::matching::Envelope;
use crate::memory::Memory;
use crate::wire::{Corrupt, Key, PacketKind};

impl<M: Memory + Clone> Engine<M> {
    /// Copies a message of this rank to itself to its posted receive. Returns false, with nothing
    /// changed, if there is none, or if an earlier message to this rank is still to be taken. The
    /// caller wakes this rank, since another of its threads may sleep until the receive ends.
    pub(super) fn give_to_oneself(&mut self, key: Key, data: Cursor) -> Result<bool, Corrupt> {
        // An engine that is away has no peers.
        let Some(peer) = self.peers.get(self.rank as usize) else { return Ok(false) };
        if !peer.paths.are_drained() || !peer.waiting.is_empty() || peer.gone().is_some() {
            return Ok(false);
        }
        let envelope = Envelope { context: key.context(), source: self.rank, tag: key.tag() };
        if let Some(part) = data.in_one_part()
            && let Some(is_copied) = self.copy_to_posted(&envelope, part)
        {
            return Ok(is_copied);
        }
        let Some(id) = self.posted.take(&envelope) else { return Ok(false) };
        let total = data.remaining();
        let payload = PacketPayload::Own(data);
        let packet = Packet { envelope, kind: PacketKind::Eager, total, length: total, payload };
        self.meet(id, &packet)?;
        Ok(true)
    }

    /// Copies a message to its posted receive, if that has room for it in one piece. Returns `None`
    /// if it has not, and false if there is no receive.
    fn copy_to_posted(&mut self, envelope: &Envelope, data: Part) -> Option<bool> {
        let Envelope { source, tag, .. } = *envelope;
        let (requests, bytes) = (&mut self.requests, data.length);
        let met = self.posted.take_with(envelope, |id| {
            let (state, to) = requests.posted_place(*id, bytes)?;
            // SAFETY: the receive lends room for the message, and the send lends the message. No
            // other code accesses the one or changes the other (contracts of `irecv` and `isend`).
            unsafe { copy_bulk(data.base.as_ptr(), to.as_ptr(), bytes, Stores::Cached) };
            *state = RequestState::Done(Ok(Status { source, tag, bytes }));
            Some(())
        });
        match met {
            Some(Some(())) => Some(true),
            Some(None) => None,
            None => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use super::*;
    use crate::engine::testing::with_segment;
    use crate::engine::{
        Fault, Outcome, Owner, Received, RequestId, SendMode, Sent, SentShort, Tuning,
    };
    use crate::matching::{ANY_SOURCE, Pattern};
    use crate::memory::counted::Counted;

    const OF_7: Pattern = Pattern { context: 0, source: 0, tag: 7 };

    /// An engine that has sent itself messages, so that its short paths are open.
    struct Alone(Engine<Counted>);

    impl Alone {
        fn post(&mut self, pattern: Pattern, buffer: Cursor) -> RequestId {
            // SAFETY: the buffers of these tests outlive the engine.
            match unsafe { self.0.irecv(pattern, buffer, Owner::UNSCOPED) } {
                Ok(Received::Pending(id)) => id,
                other => panic!("{other:?}"),
            }
        }

        fn send(&mut self, mode: SendMode, data: Cursor) -> Sent {
            // SAFETY: the buffers of these tests outlive the engine.
            unsafe { self.0.isend_by(mode, 0, Key::new(0, 7), data, Owner::UNSCOPED) }.unwrap()
        }

        fn outcome(&mut self, id: RequestId) -> Option<Outcome> {
            self.0.test(id)
        }

        /// Returns the packets that this rank has sent itself.
        fn packets(&self) -> u64 {
            self.0.peers[0].paths.next_out().number()
        }
    }

    fn cursor(bytes: &[u8]) -> Cursor {
        let part = Part { base: NonNull::from(bytes).cast(), length: bytes.len() };
        // SAFETY: the buffers of these tests outlive the engine.
        unsafe { Cursor::contiguous(part) }
    }

    fn part(bytes: &mut [u8]) -> Part {
        Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() }
    }

    fn room(bytes: &mut [u8]) -> Cursor {
        // SAFETY: the buffers of these tests outlive the engine.
        unsafe { Cursor::contiguous(part(bytes)) }
    }

    fn alone(test: impl FnOnce(Alone)) {
        with_segment(1, |segment| {
            let engine = Engine::new(Counted::default(), *segment, 0, Tuning::default()).unwrap();
            let mut alone = Alone(engine);
            let mut buffer = [0; 8];
            for _ in 0..4 {
                let id = alone.post(OF_7, room(&mut buffer));
                alone.send(SendMode::Standard, cursor(b"first"));
                while let Some(peer) = alone.0.poll_want() {
                    alone.0.fastbox_backed(peer, true);
                }
                alone.0.progress().unwrap();
                assert!(matches!(alone.outcome(id), Some(Ok(_))));
            }
            test(alone);
        });
    }

    #[test]
    fn a_message_is_copied_to_its_posted_receive_at_once() {
        alone(|mut alone| {
            let before = alone.packets();
            for (length, mode) in
                [(0, SendMode::Standard), (9, SendMode::Standard), (5000, SendMode::Synchronous)]
            {
                for pattern in [OF_7, Pattern { source: ANY_SOURCE, ..OF_7 }] {
                    let (data, mut buffer) = (vec![5; length], vec![0; length + 1]);
                    let id = alone.post(pattern, room(&mut buffer));
                    assert_eq!(alone.outcome(id), None);
                    assert_eq!(alone.send(mode, cursor(&data)), Sent::Done);
                    let status = Status { source: 0, tag: 7, bytes: length };
                    assert_eq!(alone.outcome(id), Some(Ok(status)));
                    assert_eq!(buffer[..length], data);
                    assert_eq!(buffer[length], 0);
                }
            }
            assert_eq!(alone.packets(), before);
        });
    }

    #[test]
    fn an_engine_that_is_away_gives_itself_nothing() {
        with_segment(1, |segment| {
            let away = Engine::away(Counted::default(), *segment, 0, Tuning::default());
            assert_eq!(away.unwrap().send_medium(0, Key::new(0, 7), &[1; 99]), SentShort::No);
        });
    }

    #[test]
    fn a_message_overtakes_none_that_is_still_to_be_taken() {
        alone(|mut alone| {
            let (mut first, mut second) = ([0; 4], [0; 4]);
            assert_eq!(alone.send(SendMode::Standard, cursor(b"1st.")), Sent::Done);
            let ids = [&mut first, &mut second].map(|buffer| alone.post(OF_7, room(buffer)));
            assert_eq!(alone.send(SendMode::Standard, cursor(b"2nd.")), Sent::Done);
            alone.0.progress().unwrap();
            assert!(ids.into_iter().all(|id| matches!(alone.outcome(id), Some(Ok(_)))));
            assert_eq!((&first, &second), (b"1st.", b"2nd."));
        });
    }

    #[test]
    fn buffers_may_have_parts_and_too_little_room() {
        alone(|mut alone| {
            let (mut data, mut buffer) = ([[1_u8; 3], [2; 3]], [[0_u8; 2], [0; 2]]);
            let from = data.each_mut().map(|bytes| part(bytes));
            let to = buffer.each_mut().map(|bytes| part(bytes));
            // SAFETY: the buffers outlive the engine.
            let (from, to) = unsafe { (Cursor::parts(&from), Cursor::parts(&to)) };
            let id = alone.post(OF_7, to);
            assert_eq!(alone.send(SendMode::Standard, from), Sent::Done);
            let fault = Fault::Truncated { source: 0, tag: 7, message: 6, buffer: 4 };
            assert_eq!(alone.outcome(id), Some(Err(fault)));
            assert_eq!(buffer, [[1, 1], [1, 2]]);
            // One piece for the message is too short, too.
            let mut short = [0; 2];
            let id = alone.post(OF_7, room(&mut short));
            assert_eq!(alone.send(SendMode::Standard, cursor(b"long")), Sent::Done);
            assert!(matches!(alone.outcome(id), Some(Err(Fault::Truncated { .. }))));
            assert_eq!(&short, b"lo");
        });
    }

    #[test]
    fn a_synchronous_message_without_a_receive_waits_for_one() {
        alone(|mut alone| {
            let Sent::Pending(sent) = alone.send(SendMode::Synchronous, cursor(b"here")) else {
                panic!("no receive has started");
            };
            let mut buffer = [0; 4];
            let id = alone.post(OF_7, room(&mut buffer));
            for _ in 0..4 {
                alone.0.progress().unwrap();
            }
            assert!(matches!([id, sent].map(|id| alone.outcome(id)), [Some(Ok(_)), Some(Ok(_))]));
            assert_eq!(&buffer, b"here");
        });
    }
}
