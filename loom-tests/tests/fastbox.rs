//! The fastbox: messages that wrap around the ring, credits, and headers of earlier laps.

use core::ptr::NonNull;

use strait_core::shm::{FastboxPtr, FastboxReceiver, FastboxSender, Line, SHORT_MAX};
use strait_core::sync::{AtomicU64, CacheLine, UnsafeCell};
use strait_core::wire::{PacketKind, Sequence};
use strait_loom_tests::{Arc, contents, key, model_in_full, read, thread, writer};

/// The memory of one fastbox.
struct Ring {
    credit: CacheLine<AtomicU64>,
    lines: Vec<Line>,
}

/// The messages of one stream.
#[derive(Clone, Copy)]
struct Stream {
    /// Sequence number of the first message.
    first: u64,
    /// Lengths in bytes: one after the other, repeatedly.
    lengths: &'static [usize],
}

struct Sender {
    stream: Stream,
    ring: Arc<Ring>,
    end: FastboxSender,
    next: u64,
}

struct Receiver {
    stream: Stream,
    ring: Arc<Ring>,
    end: FastboxReceiver,
    next: u64,
}

impl Ring {
    fn new(lines: usize) -> Arc<Self> {
        let lines = (0..lines).map(|_| Line::empty()).collect();
        Arc::new(Self { credit: CacheLine(AtomicU64::new(0)), lines })
    }

    fn place(&self) -> FastboxPtr {
        let lines = NonNull::from(self.lines.as_slice()).cast();
        // SAFETY: both ends keep the ring alive, and there is one of each.
        unsafe { FastboxPtr::new((&self.credit).into(), lines, self.lines.len() as u32) }
    }
}

impl Stream {
    fn length(&self, sequence: u64) -> usize {
        self.lengths[(sequence - self.first) as usize % self.lengths.len()]
    }
}

impl Sender {
    fn new(ring: &Arc<Ring>, stream: Stream) -> Self {
        let mut end = FastboxSender::new(ring.place());
        end.open();
        Self { stream, ring: Arc::clone(ring), end, next: stream.first }
    }

    /// Sends the next message if the ring has room, by the short paths or by the path that reads
    /// the credit.
    fn send(&mut self) -> bool {
        let (sequence, length) = (self.next, self.stream.length(self.next));
        let (key, payload) = (key(sequence), contents(sequence, length));
        let sent = length <= SHORT_MAX && self.end.send_short(place(sequence), key, &payload)
            || length > SHORT_MAX && self.end.send_straight(place(sequence), key, &payload)
            || self
                .end
                .send(place(sequence), PacketKind::Eager, key, length, writer(&payload))
                .unwrap();
        self.next += u64::from(sent);
        sent
    }

    /// Sends up to `messages` messages; fewer if the ring stays full. `next` of the result tells
    /// how many.
    fn send_up_to(mut self, messages: u64) -> Self {
        for _ in 0..messages {
            if !self.send() {
                thread::yield_now();
                if !self.send() {
                    break;
                }
            }
        }
        self
    }
}

impl Receiver {
    fn new(ring: &Arc<Ring>, stream: Stream) -> Self {
        let end = FastboxReceiver::new(ring.place());
        Self { stream, ring: Arc::clone(ring), end, next: stream.first }
    }

    /// Takes the next message if it has arrived, and checks it.
    fn look(&mut self) -> bool {
        let Some(found) = self.end.peek(place(self.next)) else { return false };
        assert_eq!(found.kind(), Ok(PacketKind::Eager));
        assert_eq!(found.length(), self.stream.length(self.next), "a header of another message");
        assert!(self.end.holds(found.length()));
        let message = self.end.message();
        assert_eq!(message.key(), key(self.next));
        assert_eq!(read(&message, found.length()), contents(self.next, found.length()));
        match (found.length(), self.end.straight(found.length())) {
            (..=SHORT_MAX, _) => self.end.release_short(),
            (length, Some(lines)) => {
                let mut bytes = vec![0; length];
                // SAFETY: this is the message that `peek` found, and it takes this many lines in a
                // row.
                unsafe {
                    message.copy_straight(&mut bytes);
                    self.end.release_straight(lines);
                }
                assert_eq!(bytes, contents(self.next, length));
            }
            (length, None) => self.end.release(length),
        }
        self.next += 1;
        true
    }
}

/// Returns the sequence number of message `number`.
fn place(number: u64) -> Sequence {
    let mut sequence = Sequence::first(0, 1);
    sequence += number.wrapping_sub(1);
    sequence
}

/// Sends `messages` messages through a ring of `lines`. Meanwhile the receiver polls `looks` times.
fn pass(lines: usize, stream: Stream, messages: u64, looks: u32) {
    let ring = Ring::new(lines);
    let (sender, mut receiver) = (Sender::new(&ring, stream), Receiver::new(&ring, stream));
    let sending = thread::spawn(move || sender.send_up_to(messages));
    for _ in 0..looks {
        if !receiver.look() {
            thread::yield_now();
        }
    }
    let mut sender = sending.join().unwrap();
    while receiver.look() {}
    assert_eq!(receiver.next, sender.next, "messages lost");

    // All lines are free again, except those without a due credit: one message must fit.
    assert!(sender.send(), "credits lost");
    assert!(receiver.look());
    assert!(!receiver.look());
    assert!(Arc::ptr_eq(&sender.ring, &receiver.ring));
}

#[test]
fn one_line_is_used_in_turn() {
    model_in_full(|| pass(1, Stream { first: 1, lengths: &[8, 0, SHORT_MAX] }, 3, 3));
}

#[test]
fn two_lines_hold_one_long_message_or_two_short_ones() {
    model_in_full(|| pass(2, Stream { first: 1, lengths: &[8, 8, 60, 49] }, 4, 4));
}

#[test]
fn a_long_message_wraps_around_the_ring() {
    model_in_full(|| pass(3, Stream { first: 1, lengths: &[8, 8, 60, 150, 8] }, 5, 4));
}

#[test]
fn credit_that_is_given_late_is_enough() {
    model_in_full(|| pass(8, Stream { first: 1, lengths: &[210, 180, 8] }, 5, 4));
}

#[test]
fn sequence_numbers_pass_48_bits_in_a_ring_that_was_filled_before() {
    model_in_full(|| pass(2, Stream { first: (1 << 48) - 3, lengths: &[0, 1, 0, 0, 60] }, 5, 4));
}

/// A word that the receiver writes after it has taken a message, and that the sender reads once it
/// has the credit.
struct Place(UnsafeCell<u64>);

// SAFETY: the sender reads only after it has the credit; the model explores that.
unsafe impl Sync for Place {}

#[test]
fn what_is_told_to_be_taken_has_been() {
    model_in_full(|| {
        // A credit is due after two lines of eight.
        let (ring, stream) = (Ring::new(8), Stream { first: 1, lengths: &[8] });
        let place = Arc::new(Place(UnsafeCell::new(0)));
        let (mut sender, mut receiver) = (Sender::new(&ring, stream), Receiver::new(&ring, stream));
        assert!(sender.send());
        let mark = sender.end.sent();
        let taking = {
            let place = Arc::clone(&place);
            thread::spawn(move || {
                assert!(receiver.look());
                // SAFETY: the sender does not have the credit yet.
                place.0.with_mut(|place| unsafe { place.write(7) });
                receiver.end.tell();
            })
        };
        let is_taken = |sender: &mut Sender| {
            let taken = sender.end.consumed().unwrap() >= mark;
            // SAFETY: the receiver has written the word and given the credit.
            assert!(!taken || place.0.with(|place| unsafe { place.read() }) == 7);
            taken
        };
        is_taken(&mut sender);
        taking.join().unwrap();
        assert!(is_taken(&mut sender));
    });
}
