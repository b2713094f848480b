//! The bits with which two ranks answer each other's synchronous messages.
//!
//! The receiver of a message changes its bit when the receive has started. Both ranks count the
//! messages, so that they agree on the bit of each.

/// The place of an answer for a message that wants none.
pub(super) const NO_ANSWER: u32 = 0;

/// A synchronous send that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered {
    pub(super) destination: u32,
    pub(super) answer: u32,
}

/// The answers to the synchronous messages of a pair of ranks, in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// The bits that the peer publishes when it has answered all messages to it.
    wanted: u32,
    /// Number of messages to the peer.
    sent: u32,
    /// The bits that this rank has published.
    given: u32,
    /// Number of messages from the peer.
    received: u32,
}

impl Answers {
    /// Returns the bit of message `number`.
    const fn bit(number: u32) -> u32 {
        1 << (number % u32::BITS)
    }

    /// Returns the bits of the messages to the peer that are not answered, of which `published`
    /// tells.
    pub(super) const fn missing(&self, published: u32) -> u32 {
        self.wanted ^ published
    }

    /// Returns the bit of the next message to the peer.
    pub(super) const fn next_sent(&self) -> u32 {
        Self::bit(self.sent)
    }

    /// Counts a message to the peer, and returns its bit.
    pub(super) const fn count_sent(&mut self) -> u32 {
        let bit = self.next_sent();
        self.sent = self.sent.wrapping_add(1);
        self.wanted ^= bit;
        bit
    }

    /// Returns the bit of the next message from the peer.
    pub(super) const fn next_received(&self) -> u32 {
        Self::bit(self.received)
    }

    /// Counts a message from the peer.
    pub(super) const fn count_received(&mut self) {
        self.received = self.received.wrapping_add(1);
    }

    /// Answers the message with this bit. Returns the bits to publish.
    pub(super) const fn give(&mut self, bit: u32) -> u32 {
        self.given ^= bit;
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_free_again_when_its_message_was_answered() {
        let (mut sender, mut receiver) = (Answers::default(), Answers::default());
        let mut published = 0;
        for number in 0..3 * u32::BITS {
            assert_eq!(sender.missing(published) & sender.next_sent(), 0, "{number}");
            let (sent, received) = (sender.count_sent(), receiver.next_received());
            receiver.count_received();
            assert_eq!((sent, sender.missing(published)), (received, sent));
            published = receiver.give(received);
            assert_eq!(sender.missing(published), 0);
        }
    }

    #[test]
    fn answers_come_in_any_order() {
        let (mut sender, mut receiver) = (Answers::default(), Answers::default());
        let bits = [(); u32::BITS as usize].map(|()| sender.count_sent());
        assert_eq!(sender.missing(0), u32::MAX);
        assert!(sender.missing(0) & sender.next_sent() != 0, "all are in use");
        for (left, bit) in (0..u32::BITS).rev().zip(bits) {
            let published = receiver.give(bit);
            assert_eq!((sender.missing(published).count_ones(), bit != NO_ANSWER), (left, true));
        }
    }
}
