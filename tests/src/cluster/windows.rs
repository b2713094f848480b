//! Windows by messages, played by the engines of a cluster: every rank is an origin and a target at
//! the same time.
//!
//! The origins number their operations as windows do, so numbers of two ranks coincide. Whenever a
//! send or a receive begins, the play checks its name: no other message has it in this direction.

use core::ptr::NonNull;
use std::collections::BTreeMap;

use fastrand::Rng;
use strait::raw::ANY_SOURCE;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Owner, Received, RequestId, Sent};
use strait_core::matching::{Pattern, TAG_MAX};
use strait_core::rma::{AnswerNumber, DataNumber, RECORD, Record, RecordName, WindowNumber};
use strait_core::wire::Key;

use super::Cluster;
use crate::payload;

/// Bytes of each rank's part, and length of the longest operation.
const LENGTH: usize = 4000;

/// The most turns of a play.
const TURNS: u32 = 2_000_000;

/// Maps a name to the context of its message. The library uses [`RecordName::context`].
pub type Contexts = fn(RecordName) -> u32;

/// Source, destination and context of a message.
type Direction = (u32, u32, u32);

/// Messages under way: their names, and whether their send and their receive have begun.
#[derive(Debug, Default)]
struct Names(BTreeMap<Direction, Flight>);

#[derive(Debug)]
struct Flight {
    name: RecordName,
    /// The rank that counts the number.
    origin: u32,
    begun: [bool; 2],
    /// Number of its two ends that are complete.
    over: u32,
}

impl Names {
    /// Records that a message's send (0) or receive (1) begins.
    fn begin(&mut self, direction: Direction, (name, origin): (RecordName, u32), end: usize) {
        let new = Flight { name, origin, begun: [false; 2], over: 0 };
        let flight = self.0.entry(direction).or_insert(new);
        let is_same = (flight.name, flight.origin) == (name, origin);
        let was_begun = core::mem::replace(&mut flight.begun[end], true);
        assert!(is_same && !was_begun, "{name:?} of rank {origin} shares its name with {flight:?}");
    }

    fn end(&mut self, direction: Direction) {
        let flight = self.0.get_mut(&direction).expect("it has begun");
        flight.over += 1;
        if flight.over == 2 {
            self.0.remove(&direction);
        }
    }
}

/// A send or a receive that has begun.
#[derive(Debug)]
struct Transfer {
    /// `None` if it is complete.
    id: Option<RequestId>,
    rank: u32,
    buffer: Vec<u8>,
    /// `None` for records, of which several have one name.
    direction: Option<Direction>,
    /// Number of the payload that a receive expects; for a record, its source.
    awaits: Option<u64>,
}

/// The counters of one rank.
#[derive(Debug, Default)]
struct Origin {
    /// Number of operations still to begin.
    left: u32,
    data: Option<DataNumber>,
    answers: Option<AnswerNumber>,
}

/// Plays `operations` puts and gets of each rank. Returns how often two numbers of the two origins
/// of a pair coincided.
///
/// # Panics
///
/// When two messages in one direction have one name, or a message is wrong.
pub fn play_windows(cluster: Cluster, seed: u64, operations: u32, contexts: Contexts) -> u32 {
    let ranks = cluster.ranks();
    let origins = ranks.map(|_| Origin { left: operations, ..Origin::default() }).collect();
    let (names, transfers) = Default::default();
    let rng = Rng::with_seed(seed);
    let mut play = Play { transfers, cluster, origins, names, rng, contexts, mirrored: 0 };
    let mut turns = 0;
    while !play.is_over() {
        play.turn();
        turns += 1;
        assert!(turns < TURNS, "the play does not end: {:?}", play.names);
    }
    play.mirrored
}

struct Play {
    cluster: Cluster,
    transfers: Vec<Transfer>,
    origins: Vec<Origin>,
    names: Names,
    rng: Rng,
    contexts: Contexts,
    mirrored: u32,
}

/// Returns the payload of a message, from its name and the rank that counts it.
fn payload_of(name: RecordName, origin: u32) -> u64 {
    u64::from(name.context()) << 32 | u64::from(origin)
}

/// Returns whether data and an answer have the same number.
fn are_mirrored(one: RecordName, other: RecordName) -> bool {
    match (one, other) {
        (RecordName::Data(data), RecordName::Answer(answer))
        | (RecordName::Answer(answer), RecordName::Data(data)) => data.word() == answer.word(),
        _ => false,
    }
}

impl Play {
    fn is_over(&self) -> bool {
        let is_flushed = |rank: u32| self.cluster.engines[rank as usize].is_flushed();
        self.origins.iter().all(|origin| origin.left == 0)
            && self.transfers.is_empty()
            && self.names.0.is_empty()
            && self.cluster.ranks().all(is_flushed)
    }

    /// Takes one turn of a rank, or of the fabric.
    fn turn(&mut self) {
        let rank = self.rng.u32(self.cluster.ranks());
        match self.rng.u8(..8) {
            0 => self.operate(rank),
            1 | 2 => self.hear(rank),
            3 | 4 => self.test(rank),
            5 => drop(self.cluster.turn(rank)),
            _ => drop(self.cluster.pass()),
        }
    }

    /// Begins an operation of `rank` on another rank's part.
    fn operate(&mut self, rank: u32) {
        let ranks = self.cluster.ranks().end;
        let (target, length) = ((rank + self.rng.u32(1..ranks)) % ranks, self.rng.usize(1..LENGTH));
        let is_put = self.rng.bool();
        let origin = &mut self.origins[rank as usize];
        let Some(left) = origin.left.checked_sub(1) else { return };
        origin.left = left;
        if is_put {
            let number = origin.data.map_or(DataNumber::FIRST, DataNumber::next);
            origin.data = Some(number);
            self.say(rank, target, Record::Put { offset: 0, length, apart: Some(number) });
            self.send(rank, target, (RecordName::Data(number), rank), length);
        } else {
            let answer = origin.answers.map_or(AnswerNumber::FIRST, AnswerNumber::next);
            origin.answers = Some(answer);
            self.say(rank, target, Record::Get { offset: 0, length, answer });
            self.receive((target, rank), (RecordName::Answer(answer), rank), length);
        }
    }

    fn key(&self, name: RecordName) -> Key {
        Key::new(1 << 31 | (self.contexts)(name), TAG_MAX)
    }

    /// Sends a record.
    fn say(&mut self, rank: u32, target: u32, record: Record) {
        let key = self.key(RecordName::Records(WindowNumber::FIRST));
        self.begin_send((rank, target), key, record.bytes().into(), None);
    }

    /// Sends data or an answer.
    fn send(&mut self, from: u32, to: u32, (name, origin): (RecordName, u32), length: usize) {
        let key = self.key(name);
        let direction = (from, to, key.context());
        let is_mirrored = self.names.0.iter().any(|(&(source, destination, _), flight)| {
            (source, destination) == (from, to) && are_mirrored(flight.name, name)
        });
        self.mirrored += u32::from(is_mirrored);
        self.names.begin(direction, (name, origin), 0);
        let data = payload::of(payload_of(name, origin), length);
        self.begin_send((from, to), key, data, Some(direction));
    }

    fn begin_send(
        &mut self,
        (rank, to): (u32, u32),
        key: Key,
        mut buffer: Vec<u8>,
        direction: Option<Direction>,
    ) {
        let engine = &mut self.cluster.engines[rank as usize];
        // SAFETY: the buffer lives until the send is complete, and its bytes stay in place when the
        // vector moves.
        let sent = unsafe { engine.isend(to, key, cursor(&mut buffer), Owner(1)) };
        let id = match sent.expect("all live") {
            Sent::Done => None,
            Sent::Pending(id) => Some(id),
        };
        self.transfers.push(Transfer { id, rank, buffer, direction, awaits: None });
    }

    /// Receives data or an answer.
    fn receive(
        &mut self,
        (from, to): (u32, u32),
        (name, origin): (RecordName, u32),
        length: usize,
    ) {
        let key = self.key(name);
        let direction = (from, to, key.context());
        self.names.begin(direction, (name, origin), 1);
        let awaits = Some(payload_of(name, origin));
        self.begin_receive((from, to), key, vec![0; length], (Some(direction), awaits));
    }

    fn begin_receive(
        &mut self,
        (source, rank): (u32, u32),
        key: Key,
        mut buffer: Vec<u8>,
        (direction, awaits): (Option<Direction>, Option<u64>),
    ) {
        let pattern = Pattern { context: key.context(), source, tag: key.tag() };
        let engine = &mut self.cluster.engines[rank as usize];
        // SAFETY: the buffer lives until the receive is complete, and its bytes stay in place when
        // the vector moves.
        let received = unsafe { engine.irecv(pattern, cursor(&mut buffer), Owner(1)) };
        let id = match received.expect("all live") {
            Received::Done(outcome) => {
                outcome.expect("it is as long");
                None
            }
            Received::Pending(id) => Some(id),
        };
        self.transfers.push(Transfer { id, rank, buffer, direction, awaits });
    }

    /// Begins to receive a record that has arrived.
    fn hear(&mut self, rank: u32) {
        let key = self.key(RecordName::Records(WindowNumber::FIRST));
        let pattern = Pattern { context: key.context(), source: ANY_SOURCE, tag: key.tag() };
        let found = self.cluster.engines[rank as usize].iprobe(pattern).expect("a sound segment");
        if let Some(status) = found {
            let source = Some(u64::from(status.source));
            self.begin_receive((status.source, rank), key, vec![0; RECORD], (None, source));
        }
    }

    /// Tests the transfers of `rank`, and handles their data.
    fn test(&mut self, rank: u32) {
        let engine = &mut self.cluster.engines[rank as usize];
        let is_over = |it: &mut Transfer| {
            it.rank == rank
                && it.id.is_none_or(|id| {
                    engine.test(id).map(|outcome| outcome.expect("all live")).is_some()
                })
        };
        let over: Vec<_> = self.transfers.extract_if(.., is_over).collect();
        for Transfer { buffer, direction, awaits, .. } in over {
            match (direction, awaits) {
                (Some(direction), awaits) => {
                    self.names.end(direction);
                    let wrong = awaits.and_then(|id| payload::first_difference(id, &buffer));
                    assert_eq!(wrong, None, "{direction:?} brought something else");
                }
                (None, Some(source)) => self.carry_out(rank, source as u32, &buffer),
                (None, None) => {}
            }
        }
    }

    /// Carries out the operation that a record of `origin` requests of `rank`.
    fn carry_out(&mut self, rank: u32, origin: u32, message: &[u8]) {
        let part = Part { base: NonNull::dangling(), length: LENGTH };
        match Record::read(message, part).expect("an origin has packed it") {
            Record::Put { length, apart: Some(number), .. } => {
                self.receive((origin, rank), (RecordName::Data(number), origin), length);
            }
            Record::Get { length, answer, .. } => {
                self.send(rank, origin, (RecordName::Answer(answer), origin), length);
            }
            record => panic!("{record:?} was not sent"),
        }
    }
}

fn cursor(buffer: &mut [u8]) -> Cursor {
    let part = Part { base: NonNull::from(&mut *buffer).cast(), length: buffer.len() };
    // SAFETY: the callers keep the buffer until the operation is complete.
    unsafe { Cursor::contiguous(part) }
}
