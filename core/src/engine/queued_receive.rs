//! Receives of messages in cells that go round matching.
//!
//! A stream that its receiver could not follow for a moment has packets in cells. If each of them
//! went through matching, the receiver would be slower than its sender, and more packets would
//! follow. So a receive that finds the wanted message at the head of the queue takes it from there.

use core::ptr::NonNull;

use super::packet::PacketPayload;
use super::{Bypass, Engine, Status, Want};
use crate::buffer::copy::{copy_cached, copy_short};
use crate::matching::ANY_SOURCE;
use crate::memory::Memory;
use crate::shm::Cell;
use crate::wire::{CellIndex, Key, PacketKind, SHORT_MAX};

impl<M: Memory + Clone> Engine<M> {
    /// Receives the next message from `source` if it is whole in the first cell of the receive
    /// queue, fits `buffer`, and nothing is posted or unexpected. With
    /// [`crate::matching::ANY_SOURCE`] the first cell may have any source.
    ///
    /// A first cell that does not suit is delivered like any other: [`Bypass::Closed`]. This
    /// function reports no errors: [`Engine::progress`] meets the same error again and reports it.
    #[inline(never)]
    pub fn recv_queued(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let idle = self.posted.is_empty() & self.unexpected.is_empty();
        // The queue of a rank with its engine elsewhere belongs to that engine.
        let is_away = self.peers.is_empty();
        if !idle || is_away || self.stopped || self.inbox.cell().is_some() {
            return Bypass::Closed;
        }
        let queue = &self.segment.rank_block(self.rank).recv_queue;
        let cell = match queue.dequeue(&self.segment) {
            Ok(Some(cell)) => cell,
            Ok(None) => return Bypass::Nothing,
            Err(_) => return Bypass::Closed,
        };
        if let Some(status) = self.take_cell(cell, source, want, buffer) {
            return Bypass::Received(status);
        }
        self.inbox.keep_cell(cell);
        if self.deliver_cell(cell).is_ok() {
            self.inbox.cell_delivered();
        }
        Bypass::Closed
    }

    /// Receives the message in a cell that was dequeued, and gives the cell back. Returns `None`
    /// if the cell has something else. It is then untouched.
    #[inline(always)]
    fn take_cell(
        &mut self,
        cell: CellIndex,
        source: u32,
        want: Want,
        buffer: &mut [u8],
    ) -> Option<Status> {
        let pointer = self.segment.cell(cell);
        // SAFETY: the cell was dequeued by us and not given back yet.
        let head = unsafe { Cell::read_head(pointer) };
        let packet = self.parse(&head, pointer).ok()?;
        let (from, tag, bytes) = (packet.envelope.source, packet.envelope.tag, packet.length);
        let peer = self.contact(from).ok()?;
        let next = peer.paths.next_in().number();
        let suits = (source == from || source == ANY_SOURCE)
            && packet.kind == PacketKind::Eager
            && next == head.sequence
            && bytes <= buffer.len()
            && want.accepts(Key(head.key));
        let PacketPayload::Whole(payload) = packet.payload else { return None };
        if !suits {
            return None;
        }
        let to = NonNull::from(buffer).cast::<u8>();
        // SAFETY: the cell has `bytes` bytes of payload (`parse`), and the buffer has room for
        // them. No user buffer overlaps the segment. `copy_short` copies up to `SHORT_MAX` bytes.
        unsafe {
            if bytes <= SHORT_MAX {
                copy_short(payload.as_ptr(), to.as_ptr(), bytes);
            } else {
                copy_cached(payload.as_ptr(), to.as_ptr(), bytes);
            }
        }
        self.end_cell(cell, &head);
        Some(Status { source: from, tag, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Cursor, Part};
    use crate::engine::testing::with_segment;
    use crate::engine::{Fault, Owner, Received, Sent, Tuning};
    use crate::matching::{ANY_TAG, Pattern};
    use crate::memory::counted::Counted;

    /// Engines of three ranks. No memory is given to their fastboxes, so every message takes cells.
    fn with_ranks(test: impl FnOnce([Engine<Counted>; 3])) {
        with_segment(3, |segment| {
            test([0, 1, 2].map(|rank| {
                Engine::new(Counted::default(), *segment, rank, Tuning::default()).unwrap()
            }));
        });
    }

    fn send(engine: &mut Engine<Counted>, to: u32, tag: u32, bytes: &mut [u8]) {
        let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: the send is over at once.
        let sent = unsafe {
            engine.isend(to, Key::new(0, tag), Cursor::contiguous(part), Owner::BLOCKING)
        };
        assert_eq!(sent, Ok(Sent::Done));
    }

    fn arrived(engine: &mut Engine<Counted>, source: u32, tag: u32) -> Option<usize> {
        let found = engine.iprobe(Pattern { context: 0, source, tag }).unwrap();
        found.map(|status| status.bytes)
    }

    #[test]
    fn a_wanted_message_is_taken_out_of_its_cell() {
        with_ranks(|[mut zero, mut one, mut two]| {
            let mut buffer = [0; 200];
            assert_eq!(two.recv_queued(0, Want::new(0, 7), &mut buffer), Bypass::Nothing);
            for (length, source, tag) in [(0, 0, 7), (8, ANY_SOURCE, 7), (200, 0, ANY_TAG)] {
                send(&mut zero, 2, 7, &mut [length as u8; 200][..length]);
                let came = two.recv_queued(source, Want::new(0, tag), &mut buffer);
                assert_eq!(came, Bypass::Received(Status { source: 0, tag: 7, bytes: length }));
                assert!(buffer[..length].iter().all(|byte| *byte == length as u8));
            }
            send(&mut one, 2, 7, &mut []);
            assert!(matches!(
                two.recv_queued(ANY_SOURCE, Want::new(0, 7), &mut buffer),
                Bypass::Received(Status { source: 1, .. })
            ));
            let segment = *zero.segment();
            assert_eq!(zero.outbox.cells_out(&segment), Ok(0));
        });
    }

    #[test]
    fn an_engine_that_is_away_leaves_the_queue_alone() {
        with_segment(2, |segment| {
            let engine =
                |rank| Engine::new(Counted::default(), *segment, rank, Tuning::default()).unwrap();
            let (mut zero, mut one) = (engine(0), engine(1));
            let mut away =
                Engine::away(Counted::default(), *segment, 1, Tuning::default()).unwrap();
            send(&mut zero, 1, 7, &mut [1]);
            let mut buffer = [0; 8];
            assert_eq!(away.recv_queued(0, Want::new(0, 7), &mut buffer), Bypass::Closed);
            assert!(matches!(
                one.recv_queued(0, Want::new(0, 7), &mut buffer),
                Bypass::Received(Status { bytes: 1, .. })
            ));
        });
    }

    #[test]
    fn a_cell_with_another_message_is_delivered() {
        with_ranks(|[mut zero, mut one, mut two]| {
            let mut buffer = [0; 8];
            let mut closed = |two: &mut Engine<Counted>, source, tag| {
                assert_eq!(two.recv_queued(source, Want::new(0, tag), &mut buffer), Bypass::Closed);
            };
            send(&mut one, 2, 7, &mut [1]);
            closed(&mut two, 0, 7);
            assert_eq!(arrived(&mut two, 1, 7), Some(1), "it has another source");
            // While it is unexpected, nothing goes round matching.
            send(&mut zero, 2, 8, &mut [1, 2]);
            closed(&mut two, 0, 8);
            assert_eq!(arrived(&mut two, 0, 8), None);
            assert_eq!(two.progress(), Ok(true));
            assert_eq!(arrived(&mut two, 0, 8), Some(2));
        });
    }

    #[test]
    fn a_tag_or_a_length_that_does_not_suit_takes_the_general_path() {
        with_ranks(|[mut zero, _, mut two]| {
            let mut buffer = [0; 8];
            send(&mut zero, 2, 7, &mut [1; 3]);
            assert_eq!(two.recv_queued(0, Want::new(0, 9), &mut buffer), Bypass::Closed);
            assert_eq!(arrived(&mut two, 0, 7), Some(3));
        });
        with_ranks(|[mut zero, _, mut two]| {
            let mut buffer = [0; 8];
            send(&mut zero, 2, 7, &mut [1; 9]);
            assert_eq!(two.recv_queued(0, Want::new(0, 7), &mut buffer), Bypass::Closed);
            let part = Part { base: NonNull::from(&mut buffer).cast(), length: 8 };
            let pattern = Pattern { context: 0, source: 0, tag: 7 };
            // SAFETY: the receive is over at once.
            let came = unsafe { two.irecv(pattern, Cursor::contiguous(part), Owner::BLOCKING) };
            assert!(matches!(came, Ok(Received::Done(Err(Fault::Truncated { message: 9, .. })))));
        });
    }

    #[test]
    fn nothing_goes_round_matching_without_the_bypass() {
        with_ranks(|[mut zero, _, mut two]| {
            let mut buffer = [0; 8];
            two.retune(Tuning { bypass: false, ..two.tuning() });
            send(&mut zero, 2, 7, &mut [1; 3]);
            assert_eq!(two.recv_queued(0, Want::new(0, 7), &mut buffer), Bypass::Closed);
            assert_eq!(two.progress(), Ok(true));
            assert_eq!(arrived(&mut two, 0, 7), Some(3));
            let part = Part { base: NonNull::from(&mut buffer).cast(), length: 8 };
            let pattern = Pattern { context: 0, source: 0, tag: 7 };
            // SAFETY: the receive is over at once.
            let came = unsafe { two.irecv(pattern, Cursor::contiguous(part), Owner::BLOCKING) };
            assert!(matches!(came, Ok(Received::Done(Ok(Status { bytes: 3, .. })))), "{came:?}");
            two.retune(Tuning { bypass: true, ..two.tuning() });
            send(&mut zero, 2, 7, &mut [1; 3]);
            assert!(matches!(
                two.recv_queued(0, Want::new(0, 7), &mut buffer),
                Bypass::Received(_)
            ));
        });
    }
}
