//! The sends and receives as data, and the judgement of their results.

use fastrand::Rng;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Fault, Status};
use strait_core::engine::Outcome;
use strait_core::matching::{Envelope, Pattern};

use crate::{explain, payload};

/// Lengths around the limits of eager and large messages in these tests.
const LENGTHS: [usize; 10] = [0, 1, 8, 31, 32, 100, 399, 600, 1500, 4000];

/// A message. Its name is its place in [`Plan::messages`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) envelope: Envelope,
    pub(super) destination: u32,
    pub(super) length: usize,
}

/// A receive. Its name is its place in [`Plan::receives`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub(super) rank: u32,
    pub(super) pattern: Pattern,
    pub(super) capacity: usize,
}

/// All messages and receives. Each rank begins its own in the order of these lists.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) messages: Vec<Message>,
    pub(super) receives: Vec<Receive>,
    /// A rank takes one of this many chances to send, so that receivers may come first.
    pub(super) hesitation: u8,
    /// The most receives that a rank has under way at a time.
    pub(super) ahead: usize,
}

impl Plan {
    /// Draws `count` messages among `ranks` ranks, and a receive for each.
    #[must_use]
    pub fn drawn(seed: u64, ranks: u32, count: usize) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x91a0);
        // The fields that receives leave open, for each destination: a mixture could starve a
        // receive.
        let open: Vec<_> = (0..ranks).map(|_| (rng.bool(), rng.bool())).collect();
        Self::of(&mut rng, (ranks, 0), count, &open)
    }

    /// Draws mostly large messages, with receives that name source and tag and may therefore send
    /// RTRs.
    #[must_use]
    pub fn of_large(seed: u64, ranks: u32, count: usize) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x1a46);
        let open: Vec<_> = (0..ranks).map(|_| (false, rng.u8(0..4) == 0)).collect();
        let mut plan = Self::of(&mut rng, (ranks, 1), count, &open);
        for message in &mut plan.messages {
            message.length = if rng.u8(0..8) > 0 { rng.usize(1000..4000) } else { 8 };
        }
        // Some buffers are too short for their message, but still predict a large one.
        for receive in &mut plan.receives {
            receive.capacity = if rng.u8(0..8) == 0 { 1500 } else { 4000 };
        }
        Self { hesitation: 8, ahead: 4, ..plan }
    }

    /// Draws messages to ranks that are at least `nearest` away.
    fn of(
        rng: &mut Rng,
        (ranks, nearest): (u32, u32),
        count: usize,
        open: &[(bool, bool)],
    ) -> Self {
        let (mut messages, mut receives) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let source = rng.u32(0..ranks);
            let destination = (source + rng.u32(nearest..ranks)) % ranks;
            let envelope = Envelope { context: 0, source, tag: rng.u32(0..2) };
            let length = match rng.bool() {
                true => *rng.choice(&LENGTHS).expect("one of them"),
                false => rng.usize(0..700),
            };
            messages.push(Message { envelope, destination, length });
            let (any_source, any_tag) = open[destination as usize];
            let pattern = Pattern {
                context: 0,
                source: if any_source { ANY_SOURCE } else { source },
                tag: if any_tag { ANY_TAG } else { envelope.tag },
            };
            // Some buffers are too short.
            let capacity = if rng.u8(0..8) == 0 { rng.usize(0..300) } else { 4000 };
            receives.push(Receive { rank: destination, pattern, capacity });
        }
        rng.shuffle(&mut receives);
        Self { messages, receives, hesitation: 1, ahead: usize::MAX }
    }

    /// Judges the receives of `rank`: the outcome and the buffer of each, in the order of posting.
    /// With a `dead` rank, a receive may have ended because of it, or have been cancelled where no
    /// more messages can arrive.
    pub(super) fn judge(&self, rank: u32, got: &[(usize, Outcome, Vec<u8>)], dead: Option<u32>) {
        let to_us = |number: &usize| self.messages[*number].destination == rank;
        let numbers: Vec<usize> = (0..self.messages.len()).filter(to_us).collect();
        let mut taken = vec![false; numbers.len()];
        let (mut patterns, mut matches) = (Vec::new(), Vec::new());
        for (receive, outcome, buffer) in got {
            let Receive { pattern, capacity, .. } = self.receives[*receive];
            let (source, tag, bytes) = match *outcome {
                Ok(Status { source, tag, bytes }) => (source, tag, bytes),
                Err(Fault::Truncated { source, tag, message, .. }) => (source, tag, message),
                Err(Fault::PeerFailed { rank, .. }) if Some(rank) == dead => continue,
                Err(Fault::Cancelled) if dead.is_some() => continue,
                Err(fault) => panic!("receive {receive} of rank {rank}: {fault}"),
            };
            let fits = |number: usize| {
                let length = self.messages[number].length;
                let here = &buffer[..length.min(capacity) / 8 * 8];
                bytes == length && payload::first_difference(number as u64, here).is_none()
            };
            let at = (0..numbers.len()).find(|at| {
                let Message { envelope, .. } = self.messages[numbers[*at]];
                // Earlier messages of the dead rank may have matched receives that ended with it.
                !taken[*at]
                    && (envelope.source, envelope.tag) == (source, tag)
                    && (Some(source) != dead || fits(numbers[*at]))
            });
            let at = at.unwrap_or_else(|| panic!("receive {receive} got data that no rank sent"));
            taken[at] = true;
            let number = numbers[at];
            assert!(fits(number), "receive {receive} got other data than message {number}");
            assert_eq!(outcome.is_ok(), bytes <= capacity, "receive {receive}");
            patterns.push(pattern);
            matches.push(at);
        }
        if dead.is_some() {
            // Receives that ended with the dead rank may lie anywhere between. The remaining
            // messages were checked.
            return;
        }
        let envelopes: Vec<_> = numbers.iter().map(|n| self.messages[*n].envelope).collect();
        let explained = explain(&patterns, &envelopes, &matches);
        assert!(explained.is_some(), "{patterns:?} got {matches:?} of {envelopes:?}");
    }
}
