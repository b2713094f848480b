//! A fastbox as an observer finds it in memory, without either of its ends.

use super::line::lines_for;
use crate::wire::HeaderWord;

/// Returns the number of lines that a fastbox has carried so far, in messages that were sent.
///
/// `credit` is the receiver's credit word, and `headers` are the first words of all lines of the
/// ring, in their order. Two ranks wrote these values, so any value is possible. Returns `None` if
/// no fastbox has them together.
///
/// The credit counts the lines that the receiver has reported as consumed. The latest message tells
/// where the sender is in the ring, and so how many lines it is ahead. It is never ahead by more
/// than a ring. A sender that is ahead by exactly one ring looks like a sender that is not ahead,
/// and counts as such, except in the first lap.
///
/// ```
/// use strait_core::shm::fastbox_lines_sent;
/// use strait_core::wire::{HeaderWord, PacketKind, Sequence};
///
/// let header = |bytes| HeaderWord::new(Sequence::first(0, 1), PacketKind::Eager, bytes);
/// // One message of two lines in a ring of four. The receiver has not reported it.
/// let ring = [header(60), HeaderWord(0), HeaderWord(0), HeaderWord(0)];
/// assert_eq!(fastbox_lines_sent(0, &ring), Some(2));
/// ```
#[must_use]
pub fn fastbox_lines_sent(credit: u64, headers: &[HeaderWord]) -> Option<u64> {
    let count = headers.len() as u64;
    let sent = headers.iter().zip(0_u64..).filter_map(|(header, place)| {
        let (_, number) = header.packet()?;
        Some((number, place, u64::from(lines_for(header.length()))))
    });
    let Some((number, place, lines)) = sent.max_by_key(|(number, ..)| *number) else {
        return (credit == 0).then_some(0);
    };
    // A message has at least one line, and at most those of the ring.
    if lines > count || credit > number.saturating_mul(count) {
        return None;
    }
    let ahead = (place + lines + count - credit % count) % count;
    let is_first_lap_full = ahead == 0 && credit == 0;
    credit.checked_add(if is_first_lap_full { count } else { ahead })
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use core::ptr::NonNull;

    use proptest::prelude::*;

    use super::*;
    use crate::shm::{FastboxPtr, FastboxReceiver, FastboxSender, Line};
    use crate::sync::Ordering::Relaxed;
    use crate::sync::{AtomicU64, CacheLine};
    use crate::wire::{Key, PacketKind, SHORT_MAX, Sequence};

    /// Lines of the ring in the tests.
    const LINES: usize = 8;

    proptest! {
        /// Whatever is sent and received, the observer counts the lines that were sent.
        #[test]
        fn the_lines_are_those_that_the_sender_counts(
            steps in prop::collection::vec((any::<bool>(), 0..300_usize), 0..60),
        ) {
            let credit = CacheLine(AtomicU64::new(0));
            let lines = [(); LINES].map(|()| Line::empty());
            let first = NonNull::from(&lines).cast();
            // SAFETY: both outlive the two ends, and no other end uses them.
            let ring = unsafe { FastboxPtr::new((&credit).into(), first, LINES as u32) };
            let (mut sender, mut receiver) = (FastboxSender::new(ring), FastboxReceiver::new(ring));
            let (mut out, mut next) = (Sequence::first(0, 1), Sequence::first(0, 1));
            for (is_send, length) in steps {
                if is_send {
                    let key = Key::new(0, 7);
                    let is_sent = sender.send(out, PacketKind::Eager, key, length, |_, _, _| ());
                    out += u64::from(is_sent.unwrap());
                } else if let Some(found) = receiver.peek(next) {
                    receiver.release(found.length());
                    next += 1;
                }
                let headers = lines.each_ref().map(|line| HeaderWord(line.header.load(Relaxed)));
                let reported = credit.0.load(Relaxed);
                let found = fastbox_lines_sent(reported, &headers).unwrap();
                let is_ring_ahead = reported != 0 && sender.sent() == reported + LINES as u64;
                prop_assert_eq!(found, if is_ring_ahead { reported } else { sender.sent() });
            }
        }

        #[test]
        fn any_values_are_counted_or_refused(
            credit: u64,
            words in prop::collection::vec(any::<u64>(), 0..LINES),
        ) {
            let headers: std::vec::Vec<_> = words.into_iter().map(HeaderWord).collect();
            for credit in [credit, credit >> 16, credit >> 60, u64::MAX] {
                let _ = fastbox_lines_sent(credit, &headers);
            }
        }
    }

    #[test]
    fn values_that_no_fastbox_has_together_are_refused() {
        let header = |length| HeaderWord::new(Sequence::first(0, 1), PacketKind::Eager, length);
        let empty = HeaderWord(0);
        assert_eq!(fastbox_lines_sent(0, &[empty; 4]), Some(0));
        assert_eq!(fastbox_lines_sent(1, &[empty; 4]), None, "lines were consumed, but none sent");
        let one = [header(SHORT_MAX), empty];
        assert_eq!(fastbox_lines_sent(2, &one), Some(3));
        assert_eq!(fastbox_lines_sent(3, &one), None, "one message has at most two lines");
        assert_eq!(fastbox_lines_sent(u64::MAX, &one), None);
        assert_eq!(fastbox_lines_sent(0, &[header(4000), empty]), None, "longer than the ring");
        assert_eq!(fastbox_lines_sent(0, &[]), Some(0));
    }
}
