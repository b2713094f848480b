//! The operations of the ranks in one phase, as data.
//!
//! A phase is made of messages in one global order. Each belongs to one of three regimes. Each
//! regime has a context of its own, so that no receive takes a message of another regime or phase:
//!
//! - *ordered*: sends and receives of a pair are in the same order, so each receive gets its own
//!   message, and both may block;
//! - *shuffled*: receives from named sources in any order, some with `ANY_TAG`; the model
//!   determines their messages;
//! - *any*: receives from `ANY_SOURCE`; the model must be able to explain the outcome.
//!
//! No program deadlocks, whatever a transport buffers. Consider the first message in the global
//! order that is not complete. All operations before it on either side are complete or do not
//! block; only ordered messages have a blocking send.

use fastrand::Rng;
use strait::ANY_TAG;
use strait::raw::ANY_SOURCE;
use strait_core::matching::{Envelope, Pattern};

use crate::Model;

/// The regimes; each is also the last digit of a context.
pub(super) const ORDERED: u32 = 0;
pub(super) const SHUFFLED: u32 = 1;
pub(super) const ANY: u32 = 2;

/// The parameters from which a phase is derived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) seed: u64,
    pub(super) number: u32,
    pub(super) ranks: u32,
    pub(super) longest: usize,
}

/// A message of a phase. Its name is its place in [`Phase::messages`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) envelope: Envelope,
    pub(super) destination: u32,
    pub(super) length: usize,
    /// The id of its payload.
    pub(super) id: u64,
}

/// A receive of a phase. Its name is its place in [`Phase::receives`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub(super) rank: u32,
    pub(super) pattern: Pattern,
    pub(super) capacity: usize,
    /// The message it must get; `None` in the regime *any*.
    pub(super) message: Option<usize>,
}

/// One call of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Send {
        message: usize,
        blocking: bool,
        vectored: bool,
        synchronous: bool,
    },
    Receive {
        receive: usize,
        how: Taking,
    },
    /// Both at once: `sendrecv`.
    Exchange {
        message: usize,
        receive: usize,
    },
}

/// The way to receive a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taking {
    Blocking,
    BlockingVectored,
    Probed,
    Matched,
    MatchedPosted,
    Posted,
    PostedVectored,
}

/// The operations of all ranks.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) messages: Vec<Message>,
    pub(super) receives: Vec<Receive>,
    /// The steps of each rank.
    pub(super) steps: Vec<Vec<Step>>,
    /// The way in which ranks wait at the end.
    pub(super) ending: Ending,
}

/// The way in which a rank waits for all its operations.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    WaitAll,
    WaitAny,
    WaitSome,
    TestAll,
    Test,
}

/// Few tags, so that they coincide.
const TAGS: u32 = 3;

/// Lengths around the limits of lines, fastboxes and cells.
const EDGES: &[usize] = &[
    0, 1, 7, 8, 9, 47, 48, 49, 55, 56, 57, 104, 105, 1016, 1023, 1024, 1025, 2047, 2048, 2049,
    4095, 4096, 12288, 12289, 16383, 16384, 16385, 32768, 65535, 65537, 262_144, 1_048_575,
    1_048_576,
];

/// Returns the context of a regime in a phase.
pub(super) const fn context(number: u32, regime: u32) -> u32 {
    number * 4 + regime
}

/// Returns the regime of a context.
pub(super) const fn regime(context: u32) -> u32 {
    context % 4
}

impl Phase {
    pub(super) fn generate(shape: Shape) -> Self {
        let mut maker = Maker::new(shape);
        for _ in 0..maker.rng.usize(8..24) * shape.ranks as usize {
            match maker.rng.u8(0..8) {
                0 => maker.exchange(),
                1..=3 => maker.ordered(),
                4..=5 => maker.shuffled(),
                _ => maker.any(),
            }
        }
        maker.finish()
    }
}

/// A phase under construction.
struct Maker {
    rng: Rng,
    shape: Shape,
    phase: Phase,
    /// Whether receives from any source take any tag, for each destination: a mixture could starve
    /// a receive.
    any_tag: Vec<bool>,
    /// Shuffled receives, which are inserted among the steps at the end.
    shuffled: Vec<Vec<usize>>,
}

impl Maker {
    fn new(shape: Shape) -> Self {
        let mut rng = Rng::with_seed(shape.seed ^ u64::from(shape.number) << 48);
        let ranks = shape.ranks as usize;
        let (messages, receives, steps) = (Vec::new(), Vec::new(), vec![Vec::new(); ranks]);
        let any_tag = (0..ranks).map(|_| rng.bool()).collect();
        let endings =
            [Ending::WaitAll, Ending::WaitAny, Ending::WaitSome, Ending::TestAll, Ending::Test];
        let ending = endings[(shape.seed as usize + shape.number as usize) % endings.len()];
        let phase = Phase { messages, receives, steps, ending };
        Self { rng, shape, phase, any_tag, shuffled: vec![Vec::new(); ranks] }
    }

    fn length(&mut self) -> usize {
        let longest = self.shape.longest;
        let length = match self.rng.u8(0..10) {
            0..=3 => self.rng.usize(0..200),
            // The longest lengths are rare, because they take most of the time.
            4..=7 => EDGES[self.rng.usize(..EDGES.len() - 5)],
            8 => self.rng.usize(1..8) * 1024 + self.rng.usize(0..3) - 1,
            _ => EDGES[self.rng.usize(..EDGES.len())],
        };
        length.min(longest)
    }

    /// Makes a message. Its number is the next in the order of its source.
    fn message(&mut self, regime: u32, source: u32, destination: u32) -> usize {
        let context = context(self.shape.number, regime);
        let number = self.phase.messages.len();
        let id = self.shape.seed << 32 ^ u64::from(self.shape.number) << 20 ^ number as u64;
        let envelope = Envelope { context, source, tag: self.rng.u32(0..TAGS) };
        let length = self.length();
        self.phase.messages.push(Message { envelope, destination, length, id });
        number
    }

    /// Makes a receive that gets `message`, and may be longer.
    fn receive(&mut self, message: usize) -> usize {
        let Message { envelope, destination, length, .. } = self.phase.messages[message];
        let Envelope { context, source, tag } = envelope;
        let mut pattern = Pattern { context, source, tag };
        if self.rng.u8(0..4) == 0 {
            pattern.tag = ANY_TAG;
        }
        let capacity = length + self.rng.usize(0..2) * self.rng.usize(0..100);
        let receive = Receive { rank: destination, pattern, capacity, message: Some(message) };
        self.phase.receives.push(receive);
        self.phase.receives.len() - 1
    }

    fn any_rank(&mut self) -> u32 {
        self.rng.u32(0..self.shape.ranks)
    }

    fn ordered(&mut self) {
        let (source, destination) = (self.any_rank(), self.any_rank());
        let message = self.message(ORDERED, source, destination);
        let receive = self.receive(message);
        let (mut blocking, vectored) = (self.rng.bool(), self.rng.u8(0..4) == 0);
        let synchronous = self.rng.u8(0..4) == 0;
        let mut how = match self.rng.u8(0..10) {
            0..=1 => Taking::Blocking,
            2 => Taking::BlockingVectored,
            3 => Taking::Probed,
            4 => Taking::Matched,
            5 => Taking::MatchedPosted,
            6..=8 => Taking::Posted,
            _ => Taking::PostedVectored,
        };
        let mut receive_first = true;
        if source == destination {
            // For a message to itself, the first of the two calls must not block.
            receive_first = self.rng.bool();
            if receive_first {
                how = Taking::Posted;
            } else {
                blocking = false;
            }
        }
        let (send, receive) = (
            Step::Send { message, blocking, vectored, synchronous },
            Step::Receive { receive, how },
        );
        let pair = if receive_first { [receive, send] } else { [send, receive] };
        for step in pair {
            let rank = if matches!(step, Step::Send { .. }) { source } else { destination };
            self.phase.steps[rank as usize].push(step);
        }
    }

    fn exchange(&mut self) {
        let (one, other) = (self.any_rank(), self.any_rank());
        let there = self.message(ORDERED, one, other);
        if one == other {
            let receive = self.receive(there);
            self.phase.steps[one as usize].push(Step::Exchange { message: there, receive });
            return;
        }
        let back = self.message(ORDERED, other, one);
        for (rank, message, received) in [(one, there, back), (other, back, there)] {
            let receive = self.receive(received);
            self.phase.steps[rank as usize].push(Step::Exchange { message, receive });
        }
    }

    /// Adds a nonblocking send.
    fn begin_send(&mut self, source: u32, message: usize) {
        let (vectored, synchronous) = (self.rng.u8(0..4) == 0, self.rng.u8(0..4) == 0);
        let send = Step::Send { message, blocking: false, vectored, synchronous };
        self.phase.steps[source as usize].push(send);
    }

    fn shuffled(&mut self) {
        let (source, destination) = (self.any_rank(), self.any_rank());
        let message = self.message(SHUFFLED, source, destination);
        self.begin_send(source, message);
        let receive = self.receive(message);
        self.shuffled[destination as usize].push(receive);
    }

    fn any(&mut self) {
        let (source, destination) = (self.any_rank(), self.any_rank());
        let message = self.message(ANY, source, destination);
        self.begin_send(source, message);
        let Envelope { context, tag, .. } = self.phase.messages[message].envelope;
        let tag = if self.any_tag[destination as usize] { ANY_TAG } else { tag };
        let pattern = Pattern { context, source: ANY_SOURCE, tag };
        let receive = self.phase.receives.len();
        self.phase.receives.push(Receive {
            rank: destination,
            pattern,
            capacity: 0,
            message: None,
        });
        let how = match self.rng.u8(0..8) {
            0 => Taking::Blocking,
            1 => Taking::Matched,
            _ => Taking::Posted,
        };
        self.phase.steps[destination as usize].push(Step::Receive { receive, how });
    }

    fn finish(mut self) -> Phase {
        for rank in 0..self.shape.ranks as usize {
            let mut receives = core::mem::take(&mut self.shuffled[rank]);
            self.rng.shuffle(&mut receives);
            for receive in receives {
                let at = self.rng.usize(0..=self.phase.steps[rank].len());
                let how =
                    if self.rng.u8(0..4) == 0 { Taking::PostedVectored } else { Taking::Posted };
                self.phase.steps[rank].insert(at, Step::Receive { receive, how });
            }
            self.settle_shuffled(rank);
        }
        for at in 0..self.phase.receives.len() {
            let Receive { rank, pattern, message, .. } = self.phase.receives[at];
            if message.is_none() {
                let of_class = |message: &&Message| {
                    message.destination == rank && message.envelope.context == pattern.context
                };
                let messages = self.phase.messages.iter().filter(of_class);
                let longest = messages.map(|message| message.length).max();
                self.phase.receives[at].capacity = longest.unwrap_or(0);
            }
        }
        self.phase
    }

    /// Determines from the model the message of each shuffled receive of a rank. Where a receive
    /// with `ANY_TAG` would take the message of another receive, all use their own tags.
    fn settle_shuffled(&mut self, rank: usize) {
        let context = context(self.shape.number, SHUFFLED);
        let receives: Vec<usize> = (self.phase.steps[rank].iter())
            .filter_map(|step| match step {
                Step::Receive { receive, .. } => Some(*receive),
                _ => None,
            })
            .filter(|receive| self.phase.receives[*receive].pattern.context == context)
            .collect();
        if self.try_to_settle(rank, context, &receives) {
            return;
        }
        for &receive in &receives {
            let message = self.phase.receives[receive].message.expect("shuffled receives have one");
            self.phase.receives[receive].pattern.tag = self.phase.messages[message].envelope.tag;
        }
        assert!(self.try_to_settle(rank, context, &receives), "there is a message for each");
    }

    fn try_to_settle(&mut self, rank: usize, context: u32, receives: &[usize]) -> bool {
        let mut model = Model::default();
        for (number, message) in self.phase.messages.iter().enumerate() {
            if message.destination as usize == rank && message.envelope.context == context {
                model.arrive(number, message.envelope);
            }
        }
        for &receive in receives {
            model.post(receive, self.phase.receives[receive].pattern);
        }
        if receives.iter().any(|receive| model.message_of(*receive).is_none()) {
            return false;
        }
        for &receive in receives {
            let message = model.message_of(receive).expect("looked at above");
            let slack = self.rng.usize(0..2) * self.rng.usize(0..100);
            let entry = &mut self.phase.receives[receive];
            entry.message = Some(message);
            entry.capacity = self.phase.messages[message].length + slack;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the generator makes every kind of call that the scenarios need.
    #[test]
    fn every_kind_of_step_and_receive_occurs() {
        let mut seen = std::collections::HashSet::new();
        for number in 0..20 {
            let phase = Phase::generate(Shape { seed: 1, number, ranks: 3, longest: 1 << 20 });
            for step in phase.steps.iter().flatten() {
                seen.insert(match *step {
                    Step::Send { blocking, vectored, synchronous, .. } => {
                        format!("send {blocking} {vectored} {synchronous}")
                    }
                    Step::Receive { how, receive } => {
                        let receive = phase.receives[receive];
                        let (source, tag) = (receive.pattern.source, receive.pattern.tag);
                        let wild = (source == ANY_SOURCE, tag == ANY_TAG);
                        let own = receive
                            .message
                            .is_some_and(|m| phase.messages[m].envelope.source == receive.rank);
                        format!("{how:?} {wild:?} {own}")
                    }
                    Step::Exchange { .. } => "exchange".into(),
                });
            }
        }
        // Sends: 8. Exchange: 1. Receives: 7 ways by tag or none by own or not, and from any source
        // 3 ways by tag or none. A blocking receive of a message to itself is never vectored and
        // posted first or probed late. All other combinations must occur.
        assert!(seen.len() >= 8 + 1 + 7 * 2 + 3 * 2, "{seen:#?}");
    }

    #[test]
    fn a_seed_stands_for_one_phase() {
        let phase = |seed| {
            format!("{:?}", Phase::generate(Shape { seed, number: 2, ranks: 4, longest: 4096 }))
        };
        assert_eq!(phase(5), phase(5));
        assert_ne!(phase(5), phase(6));
    }
}
