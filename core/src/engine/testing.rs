//! What the tests of the engine's machines need: a segment, and operations.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc};

use super::request::{OutgoingMessage, RequestState};
use super::{Engine, Owner, ReceivedShort, RequestId, SendMode, Sent, Ticket, Tuning};
use crate::buffer::{Cursor, Part};
use crate::layout::{PAGE, Segment, SegmentConfig, SegmentPlan};
use crate::matching::{ANY_SOURCE, Pattern};
use crate::memory::counted::Counted;
use crate::wire::Key;

/// Runs `test` with a small segment of `ranks` ranks, all of which is backed by memory.
pub(super) fn with_segment(ranks: u32, test: impl FnOnce(&Segment)) {
    let config = SegmentConfig {
        cells_per_rank: 8,
        cell_payload: 1024,
        ring_granules: 16,
        heap_bytes: 4096,
        ..SegmentConfig::new(ranks)
    };
    let plan = SegmentPlan::new(config).unwrap();
    let shape = Layout::from_size_align(plan.total_bytes(), PAGE).unwrap();
    // SAFETY: a segment is never empty.
    let base = NonNull::new(unsafe { alloc_zeroed(shape) }).unwrap();
    // SAFETY: the memory is zero, aligned and as long as the plan says.
    test(&unsafe { Segment::format(base, plan, 1) });
    // SAFETY: the memory came from `alloc_zeroed` with this shape, and the test is over.
    unsafe { dealloc(base.as_ptr(), shape) };
}

/// Returns a buffer without a byte.
pub(super) fn nothing() -> Cursor {
    // SAFETY: there is no byte to keep valid.
    unsafe { Cursor::contiguous(Part { base: NonNull::dangling(), length: 0 }) }
}

/// Returns the state of a send that waits.
pub(super) fn sending(tag: u32) -> RequestState {
    let (key, stage) = (Key::new(0, tag), SendMode::Standard.first_stage());
    let message = OutgoingMessage { key, total: 0, sent: 0, data: nothing(), stage };
    RequestState::Sending { message, next: None, detached: None }
}

/// A receive of rank 0's next message with tag 7.
pub(super) const OF_7: Pattern = Pattern { context: 0, source: 0, tag: 7 };

/// A receive of anyone's next message with tag 7.
pub(super) const ANY_OF_7: Pattern = Pattern { source: ANY_SOURCE, ..OF_7 };

/// Two engines, of which rank 0 sends and rank 1 receives.
pub(super) struct Pair {
    pub(super) sender: Engine<Counted>,
    pub(super) receiver: Engine<Counted>,
}

impl Pair {
    /// Posts a receive of up to 8 bytes.
    pub(super) fn post(&mut self, pattern: Pattern, buffer: &mut [u8; 8]) -> (RequestId, Ticket) {
        post(&mut self.receiver, pattern, buffer)
    }

    pub(super) fn send(&mut self, tag: u32, data: &[u8]) {
        send(&mut self.sender, 1, tag, data);
    }
}

/// Posts a receive of up to 8 bytes.
fn post(
    receiver: &mut Engine<Counted>,
    pattern: Pattern,
    buffer: &mut [u8; 8],
) -> (RequestId, Ticket) {
    let buffer = Part { base: NonNull::from(buffer).cast(), length: 8 };
    // SAFETY: the buffers of these tests outlive the engines.
    match unsafe { receiver.irecv_short(pattern, buffer, Owner::UNSCOPED) } {
        ReceivedShort::Pending(id, ticket) => (id, ticket),
        other => panic!("{other:?}"),
    }
}

/// Sends a message that goes by lines.
pub(super) fn send(sender: &mut Engine<Counted>, to: u32, tag: u32, data: &[u8]) {
    let part = Part { base: NonNull::from(data).cast(), length: data.len() };
    // SAFETY: the message is in shared memory when this returns.
    let sent = unsafe {
        let data = Cursor::contiguous(part);
        sender.isend(to, Key::new(0, tag), data, Owner::BLOCKING)
    };
    assert_eq!(sent, Ok(Sent::Done));
    while let Some(peer) = sender.poll_want() {
        sender.fastbox_backed(peer, true);
    }
}

/// Opens the fastbox from rank `from` to rank `to`.
fn open_lines(
    (sender, from): (&mut Engine<Counted>, u32),
    (receiver, to): (&mut Engine<Counted>, u32),
) {
    let pattern = Pattern { context: 0, source: from, tag: 0 };
    // Short calls decline a peer before the first contact with it.
    let mut bytes = [0; 8];
    let buffer = Part { base: NonNull::from(&mut bytes).cast(), length: 8 };
    // SAFETY: nothing is posted.
    let declined = unsafe { receiver.irecv_short(pattern, buffer, Owner::UNSCOPED) };
    assert!(matches!(declined, ReceivedShort::Declined));
    receiver.contact(from).unwrap();
    // The first messages open the fastbox. Then they go by lines.
    for _ in 0..4 {
        let mut bytes = [0; 8];
        let (id, _) = post(receiver, pattern, &mut bytes);
        send(sender, to, 0, b"first");
        receiver.progress().unwrap();
        assert!(matches!(receiver.test(id), Some(Ok(_))));
    }
    assert!(receiver.finds_no_lines(), "a wait has looked since the last receive");
}

/// Runs `test` with two engines that send by lines to each other.
pub(super) fn with_pair(test: impl FnOnce(Pair)) {
    with_segment(2, |segment| {
        let engine =
            |rank| Engine::new(Counted::default(), *segment, rank, Tuning::default()).unwrap();
        let mut pair = Pair { sender: engine(0), receiver: engine(1) };
        open_lines((&mut pair.sender, 0), (&mut pair.receiver, 1));
        test(pair);
    });
}

/// Runs `test` with the engines of ranks 0 and 1, which send by lines to that of rank 2.
pub(super) fn with_senders(test: impl FnOnce(&mut [Engine<Counted>; 2], &mut Engine<Counted>)) {
    with_segment(3, |segment| {
        let engine =
            |rank| Engine::new(Counted::default(), *segment, rank, Tuning::default()).unwrap();
        let (mut senders, mut receiver) = ([engine(0), engine(1)], engine(2));
        for (from, sender) in (0..).zip(&mut senders) {
            open_lines((sender, from), (&mut receiver, 2));
        }
        test(&mut senders, &mut receiver);
    });
}
