//! Names of the messages of windows by messages: at most one message with a given name is in flight
//! from one rank to another.
//!
//! Every rank is an origin and a target, and numbers its operations by itself. It is ahead of the
//! others by a random number of them. The network keeps the messages of each name apart and
//! delivers in any order. A model with names that lack a direction fails.

use std::collections::HashMap;

use fastrand::Rng;
use strait_core::rma::{AnswerNumber, DataNumber, RecordName};
use strait_tests::traffic;

const RANKS: usize = 3;

/// Maps a name to a message context.
type Context = fn(RecordName) -> u32;

/// The messages in flight: the data of an operation, or its answer.
struct Network {
    context: Context,
    /// Indexed by sender, receiver and context.
    in_flight: HashMap<(usize, usize, u32), RecordName>,
    clashes: usize,
}

impl Network {
    fn send(&mut self, from: usize, to: usize, name: RecordName) {
        let there = self.in_flight.insert((from, to, (self.context)(name)), name);
        self.clashes += usize::from(there.is_some());
    }

    fn receive(&mut self, from: usize, to: usize, name: RecordName) {
        let found = self.in_flight.remove(&(from, to, (self.context)(name)));
        self.clashes += usize::from(found != Some(name));
    }
}

#[derive(Clone, Copy)]
struct Origin {
    data: DataNumber,
    answer: AnswerNumber,
}

/// Plays operations of all ranks in a random order. Returns how often a name was in flight twice,
/// or a receive got another message.
fn play(seed: u64, context: Context) -> usize {
    let mut rng = Rng::with_seed(seed);
    let mut network = Network { context, in_flight: HashMap::new(), clashes: 0 };
    let mut origins = [Origin { data: DataNumber::FIRST, answer: AnswerNumber::FIRST }; RANKS];
    for origin in &mut origins {
        // Some origins start near the end of the numbers.
        let word = if rng.bool() { strait_core::rma::NUMBER_MAX - 5 } else { 1 };
        let ahead = word + rng.u32(..4);
        origin.data = DataNumber::parse(ahead).expect("a number");
        origin.answer = AnswerNumber::parse(ahead).expect("a number");
    }
    let mut flying: Vec<(usize, usize, RecordName)> = Vec::new();
    for _ in 0..300 {
        if flying.len() < 20 && rng.bool() {
            let from = rng.usize(..RANKS);
            let to = (from + rng.usize(1..RANKS)) % RANKS;
            let origin = &mut origins[from];
            // An answer goes to the rank that counts it.
            let message = if rng.bool() {
                origin.data = origin.data.next();
                (from, to, RecordName::Data(origin.data))
            } else {
                origin.answer = origin.answer.next();
                (to, from, RecordName::Answer(origin.answer))
            };
            network.send(message.0, message.1, message.2);
            flying.push(message);
        } else if !flying.is_empty() {
            let (from, to, name) = flying.swap_remove(rng.usize(..flying.len()));
            network.receive(from, to, name);
        }
    }
    network.clashes
}

#[test]
fn a_name_is_in_flight_once() {
    for seed in traffic::seeds(0, 2000) {
        assert_eq!(play(seed, RecordName::context), 0, "seed {seed}");
    }
}

/// Returns the number alone, which data and answers share.
fn without_direction(name: RecordName) -> u32 {
    match name {
        RecordName::Records(number) => number.word(),
        RecordName::Data(number) => number.word(),
        RecordName::Answer(number) => number.word(),
    }
}

#[test]
fn names_without_a_direction_meet() {
    let clashes = traffic::seeds(0, 100).map(|seed| play(seed, without_direction)).sum::<usize>();
    assert!(clashes > 0);
}
