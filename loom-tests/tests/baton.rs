//! The baton: lines that two ranks write alternately.

use core::ptr::NonNull;

use strait_core::shm::{Baton, Line, SHORT_MAX};
use strait_core::wire::{PacketKind, Sequence};
use strait_loom_tests::{Arc, contents, key, model_within, read, thread, writer};

/// One rank's end, with the numbers of the next packets.
struct End {
    _lines: Arc<Vec<Line>>,
    baton: Baton,
    lengths: &'static [usize],
    next_out: Sequence,
    next_in: Sequence,
}

impl End {
    /// Creates both ends of a baton of `count` lines, the current holder first. In either
    /// direction, message `n` has the `n`-th length.
    fn pair(count: usize, lengths: &'static [usize]) -> (Self, Self) {
        let lines: Arc<Vec<_>> = Arc::new((0..count).map(|_| Line::empty()).collect());
        let end = |higher| {
            let place = NonNull::from(lines.as_slice()).cast();
            // SAFETY: both ends keep the lines alive, and there is one of each.
            let mut baton = unsafe { Baton::new(place, count as u32, higher) };
            baton.open();
            let (ours, theirs) = (u32::from(higher), u32::from(!higher));
            let (next_out, next_in) =
                (Sequence::first(ours, theirs), Sequence::first(theirs, ours));
            Self { _lines: Arc::clone(&lines), baton, lengths, next_out, next_in }
        };
        (end(false), end(true))
    }

    fn length(&self, sequence: Sequence) -> usize {
        self.lengths[sequence.number() as usize % self.lengths.len()]
    }

    /// Sends the next message if this end holds the baton.
    fn send(&mut self) -> bool {
        let (sequence, length) = (self.next_out, self.length(self.next_out));
        let (key, payload) = (key(sequence.number()), contents(sequence.number(), length));
        let sent = if length <= SHORT_MAX {
            self.baton.send_short(sequence, key, &payload)
        } else {
            // Both ways to send must keep the order of the lines and the header.
            match sequence.number() % 2 {
                0 => self.baton.send_straight(sequence, key, &payload),
                _ => self.baton.send(sequence, PacketKind::Eager, key, length, writer(&payload)),
            }
        };
        self.next_out += u64::from(sent);
        sent
    }

    /// Takes the next message if it has arrived, and checks it.
    fn look(&mut self) -> bool {
        let Some(found) = self.baton.peek(self.next_in) else { return false };
        assert_eq!(found.kind(), Ok(PacketKind::Eager));
        let (number, length) = (self.next_in.number(), self.length(self.next_in));
        assert_eq!(found.length(), length, "a header of another message");
        let message = self.baton.message();
        assert_eq!(message.key(), key(number));
        assert_eq!(read(&message, length), contents(number, length));
        self.baton.release();
        self.next_in += 1;
        true
    }

    /// Polls and answers, `times` times.
    fn answer(mut self, times: u32) -> Self {
        for _ in 0..times {
            if !self.look() {
                thread::yield_now();
            }
            self.send();
        }
        self
    }
}

fn exchange(lines: usize, lengths: &'static [usize], times: u32) {
    let (lower, higher) = End::pair(lines, lengths);
    let peer = thread::spawn(move || higher.answer(times));
    let mut lower = lower.answer(times);
    let mut higher = peer.join().unwrap();
    lower.look();
    higher.look();
    assert_eq!(lower.next_out, higher.next_in, "messages to the higher rank lost");
    assert_eq!(higher.next_out, lower.next_in, "messages to the lower rank lost");
    assert_ne!(lower.send(), higher.send(), "exactly one end holds the baton");
}

#[test]
fn one_line_goes_back_and_forth() {
    model_within(5, || exchange(1, &[8, 0, SHORT_MAX], 6));
}

#[test]
fn long_and_short_messages_share_the_lines() {
    model_within(5, || exchange(3, &[60, 8, 150], 6));
}
