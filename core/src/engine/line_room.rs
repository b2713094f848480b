//! Waits of a sender for lines of the fastbox.
//!
//! A receiver that is slower than its sender for a moment leaves the ring full. If the sender then
//! used cells, the receiver would be slower still, and the pair would never return to the ring. So
//! a blocking send waits about as long as the receiver takes for a few messages, while the receiver
//! takes packets. The embedder has the clock and the wait; this file has what the sender looks at.
//!
//! A wait never depends on the receiver: it ends when nothing changes for a short time, and is not
//! repeated before the receiver has given lines back. The message then takes cells.

use super::{Engine, LineRoom};
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Returns whether a message of `length` bytes to `destination` has room in the fastbox now, or
    /// whether it is of use to wait for room. Call it after a send that found no room.
    #[inline(never)]
    #[must_use]
    pub fn look_for_room(&mut self, destination: u32, length: usize) -> LineRoom {
        let told_to_keep = self.is_told_to_keep(destination);
        let by_lines = self.tuning.by_lines_first(length);
        let Some(peer) = self.peers.get_mut(destination as usize) else { return LineRoom::Useless };
        if !by_lines || told_to_keep || !peer.paths.is_open() || peer.wants_bell() {
            return LineRoom::Useless;
        }
        // Corruption is reported by `isend`, which the caller uses next.
        let Ok(room) = peer.paths.look_for_room(length) else { return LineRoom::Useless };
        if room == LineRoom::Full && self.outbox.cells_came_back(&self.segment) == Ok(true) {
            return LineRoom::Moving;
        }
        room
    }

    /// Notes that a wait for lines to `destination` was in vain: the next one begins when the
    /// receiver has given lines back.
    pub fn give_up_waiting(&mut self, destination: u32) {
        if let Some(peer) = self.peers.known_mut(destination as usize) {
            peer.paths.give_up_waiting();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;
    use std::vec::Vec;

    use super::*;
    use crate::buffer::{Cursor, Part};
    use crate::engine::testing::with_segment;
    use crate::engine::{Bypass, Owner, Received, RequestId, Sent, SentShort, Tuning, Want};
    use crate::layout::Segment;
    use crate::matching::{ANY_SOURCE, Pattern};
    use crate::memory::counted::Counted;
    use crate::wire::Key;

    const KEY: Key = Key::new(0, 7);

    /// Number of looks after which the sender of these tests gives a wait up.
    const LOOKS: u32 = 5;

    /// A sequence of numbers that look random.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    /// A sender and a receiver of one stream. Message `n` begins with `n`, in little endian.
    struct Stream {
        ends: [Engine<Counted>; 2],
        lengths: Random,
        /// The message that is sent next, and looks since the receiver last moved.
        sending: Option<(Vec<u8>, u32)>,
        /// A send that waits for cells, and its buffer.
        pending: Option<(RequestId, Vec<u8>)>,
        sent: u64,
        received: u64,
        buffer: [u8; 256],
        /// Number of messages that left as the general path sends them.
        spilled: u64,
    }

    fn cursor(bytes: &mut [u8]) -> Cursor {
        let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: the users of this function keep the bytes until the operation is over.
        unsafe { Cursor::contiguous(part) }
    }

    impl Stream {
        fn new(segment: &Segment, seed: u64) -> Self {
            let ends = [0, 1].map(|rank| {
                Engine::new(Counted::default(), *segment, rank, Tuning::default()).unwrap()
            });
            let lengths = Random(seed);
            let (sending, pending, buffer) = (None, None, [0; 256]);
            Self { ends, lengths, sending, pending, sent: 0, received: 0, buffer, spilled: 0 }
        }

        /// Takes one step of the sender, which sends as a blocking send does.
        fn send(&mut self) {
            let sender = &mut self.ends[0];
            if let Some((id, _)) = &self.pending {
                sender.progress().unwrap();
                if sender.test(*id).is_none() {
                    return;
                }
                self.pending = None;
            }
            let (mut message, looks) = self.sending.take().unwrap_or_else(|| {
                let mut message = std::vec![self.sent as u8; 8 + self.lengths.below(200) as usize];
                message[..8].copy_from_slice(&self.sent.to_le_bytes());
                (message, 0)
            });
            let at_once = [
                Engine::send_short as fn(&mut Engine<Counted>, u32, Key, &[u8]) -> SentShort,
                Engine::send_straight,
                Engine::send_medium,
            ];
            if at_once.iter().any(|send| send(sender, 1, KEY, &message) != SentShort::No) {
                self.sent += 1;
                return;
            }
            let room = sender.look_for_room(1, message.len());
            match room {
                LineRoom::Moving | LineRoom::Free => return self.sending = Some((message, 0)),
                LineRoom::Full if looks < LOOKS => {
                    return self.sending = Some((message, looks + 1));
                }
                LineRoom::Full => sender.give_up_waiting(1),
                LineRoom::Useless => {}
            }
            self.spilled += 1;
            self.sent += 1;
            // SAFETY: the message is kept until the send is over.
            let sent = unsafe { sender.isend(1, KEY, cursor(&mut message), Owner::BLOCKING) };
            if let Sent::Pending(id) = sent.unwrap() {
                self.pending = Some((id, message));
            }
            while let Some(peer) = self.ends[0].poll_want() {
                self.ends[0].fastbox_backed(peer, true);
            }
        }

        /// Takes one step of the receiver, which receives as a blocking receive does. Returns
        /// whether a message came.
        fn receive(&mut self, from: u32) -> bool {
            let (receiver, want) = (&mut self.ends[1], Want::new(0, 7));
            let by_lines = |receiver: &mut Engine<Counted>, source, _, buffer: &mut [u8]| {
                receiver.recv_lines(Pattern { context: 0, source, tag: 7 }, buffer)
            };
            let mut ways = [
                Engine::recv_short as fn(&mut Engine<Counted>, u32, Want, &mut [u8]) -> Bypass,
                Engine::recv_straight,
                Engine::recv_queued,
                by_lines,
            ];
            if self.received.is_multiple_of(2) {
                ways.swap(2, 3);
            }
            let mut status = None;
            for way in ways {
                if let Bypass::Received(came) = way(receiver, from, want, &mut self.buffer) {
                    status = Some(came);
                    break;
                }
            }
            let status = status.unwrap_or_else(|| {
                let pattern = Pattern { context: 0, source: from, tag: 7 };
                let buffer = cursor(&mut self.buffer);
                // SAFETY: the buffer is kept until the receive is over.
                match unsafe { receiver.irecv(pattern, buffer, Owner::BLOCKING) }.unwrap() {
                    Received::Done(outcome) => outcome.unwrap(),
                    Received::Pending(id) => {
                        receiver.progress().unwrap();
                        if let Some(outcome) = receiver.test(id) {
                            return outcome.unwrap();
                        }
                        assert!(receiver.cancel(id));
                        receiver.test(id);
                        crate::engine::Status { source: 0, tag: 0, bytes: 0 }
                    }
                }
            });
            if status.bytes == 0 {
                return false;
            }
            assert_eq!((status.source, status.tag), (0, 7));
            let expected = self.received.to_le_bytes();
            assert_eq!(self.buffer[..8], expected, "a message overtook another");
            assert!(self.buffer[8..status.bytes].iter().all(|byte| *byte == expected[0]));
            self.received += 1;
            true
        }

        fn drain(&mut self) {
            while self.received < self.sent || self.pending.is_some() || self.sending.is_some() {
                self.send();
                self.receive(0);
            }
        }
    }

    /// Number of pauses.
    const PAUSES: u32 = if cfg!(miri) { 1 } else { 200 };

    /// Number of steps in which the receiver makes up for a pause. Miri takes a second for ten.
    const STEPS: u64 = if cfg!(miri) { 40 } else { 400 };

    #[test]
    fn a_stream_keeps_its_order_and_is_back_on_the_ring_after_any_pause() {
        with_segment(2, |segment| {
            let (mut stream, mut random) = (Stream::new(segment, 7), Random(11));
            let mut most_spilled = 0;
            for _ in 0..PAUSES {
                let before = stream.spilled;
                // The receiver pauses while the sender takes some steps.
                for _ in 0..random.below(3 * STEPS / 4) {
                    stream.send();
                }
                // Then it is as fast as the sender, or up to twice as fast.
                let from = [0, ANY_SOURCE][random.below(2) as usize];
                for _ in 0..STEPS {
                    stream.send();
                    (0..=random.below(2)).for_each(|_| _ = stream.receive(from));
                }
                most_spilled = most_spilled.max(stream.spilled - before);
                // It is back: of the next messages, none takes a cell.
                let (spilled, sent) = (stream.spilled, stream.sent);
                for _ in 0..STEPS / 4 {
                    stream.send();
                    stream.receive(0);
                }
                assert!(stream.sent > sent + STEPS / 8);
                assert_eq!(stream.spilled, spilled, "the pair stays in the queue");
            }
            assert!(most_spilled > 0, "no pause was long enough");
            stream.drain();
            assert_eq!(stream.ends[0].outbox.cells_out(segment), Ok(0));
        });
    }

    #[test]
    fn a_wait_in_vain_is_not_repeated_before_lines_come_back() {
        with_segment(2, |segment| {
            let mut stream = Stream::new(segment, 7);
            // The first messages open the ring.
            for _ in 0..20 {
                stream.send();
                stream.receive(0);
            }
            let is_full = |stream: &mut Stream| {
                while stream.ends[0].send_medium(1, KEY, &[0; 8]) != SentShort::No {}
                let looks = [(); 3].map(|()| stream.ends[0].look_for_room(1, 8));
                looks.into_iter().find(|look| *look != LineRoom::Moving)
            };
            assert_eq!(is_full(&mut stream), Some(LineRoom::Full));
            stream.ends[0].give_up_waiting(1);
            assert_eq!(stream.ends[0].look_for_room(1, 8), LineRoom::Useless);
            assert_eq!(stream.ends[0].look_for_room(2, 8), LineRoom::Useless);
            assert_eq!(stream.ends[0].look_for_room(1, 4000), LineRoom::Useless);
            while stream.ends[0].look_for_room(1, 8) == LineRoom::Useless {
                stream.ends[1].progress().unwrap();
            }
            assert_eq!(is_full(&mut stream), Some(LineRoom::Full));
        });
    }
}
