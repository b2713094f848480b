//! Random programs with speculation, on one thread that decides which rank makes progress, against
//! the order that MPI demands.

use core::ptr::NonNull;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::raw::ANY_SOURCE;
use strait::{ANY_TAG, Fault, Rendezvous, Transfer, Tuning};
use strait_core::buffer::Part;
use strait_core::engine::{InUse, Outcome, Owner, Received, RequestId, Rtrs, Status};
use strait_core::lmt::Refused;
use strait_core::matching::Pattern;
use strait_tests::{Engines, payload, shape, traffic};

/// Lengths of messages and buffers: eager, and large.
const LENGTHS: [usize; 6] = [0, 8, 90, 150, 3000, 20_000];
const EAGER_MAX: usize = 100;

/// Lengths of messages that sides move in part while the other is away: several claims, and not
/// whole grains.
const LONG: [usize; 6] = [8, 150, 20_000, 131_072, 200_001, 600_000];

/// Steps of a program, and the number of progress calls after which nothing moves any more.
const STEPS: usize = 200;
const SETTLED: usize = 60;

#[derive(Debug)]
struct Send {
    tag: u32,
    length: usize,
    id: Option<RequestId>,
}

#[derive(Debug)]
struct Receive {
    tag: u32,
    room: Part,
    id: Option<RequestId>,
    outcome: Option<Outcome>,
}

/// The messages and receives from one rank to the other, without cancelled receives.
#[derive(Debug, Default)]
struct Direction {
    sends: Vec<Send>,
    receives: Vec<Receive>,
}

impl Direction {
    /// Returns the message of each receive: the oldest that no older receive takes (MPI-4.1 §3.5).
    /// With one sender it does not depend on time.
    fn matches(&self) -> Vec<Option<usize>> {
        let mut taken = vec![false; self.sends.len()];
        let mut message = |receive: &Receive| {
            let fits =
                |number: &usize| receive.tag == ANY_TAG || receive.tag == self.sends[*number].tag;
            let number = (0..taken.len()).filter(|number| !taken[*number]).find(fits)?;
            taken[number] = true;
            Some(number)
        };
        self.receives.iter().map(&mut message).collect()
    }
}

struct Program {
    transfer: Transfer,
    job: Engines,
    rng: Rng,
    /// One of so many jobs is refused. A refused kind of job is not tried again, so few programs
    /// with a high number meet a refusal.
    refused_of: u16,
    /// Number of requests for memory of a ring by messages under way.
    rings_wanted: u32,
    directions: [Direction; 2],
}

impl Program {
    fn new(seed: u64, rendezvous: Rendezvous, transfer: Transfer) -> Self {
        let mut rng = Rng::with_seed(seed);
        let unexpected_max = if rng.u8(..4) == 0 { 5000 } else { Tuning::default().unexpected_max };
        let tuning = Tuning {
            rendezvous,
            transfer,
            eager_max: EAGER_MAX,
            unexpected_max,
            ..Tuning::default()
        };
        let config = match rng.u8(..3) {
            0 => shape::tiny(2, 1),
            1 => shape::tiny(2, 3),
            _ => SegmentConfig { ring_granules: 4, ..SegmentConfig::new(2) },
        };
        let defers_rings = transfer == Transfer::Auto && rng.bool();
        let job = match defers_rings {
            true => Engines::deferring(config, tuning),
            false => Engines::tuned(config, tuning),
        };
        let refused_of = if defers_rings { 40 } else { 2000 };
        let (rings_wanted, directions) = (0, Default::default());
        Self { transfer, job, rng, refused_of, rings_wanted, directions }
    }

    /// Draws a tag. There are few tags, and one is the most frequent.
    fn tag(&mut self) -> u32 {
        [0, 0, 0, 1, 17][self.rng.usize(..5)]
    }

    fn length(&mut self) -> usize {
        let lengths = if self.transfer == Transfer::Auto { LONG } else { LENGTHS };
        lengths[if self.rng.u8(..3) > 0 { self.rng.usize(3..6) } else { self.rng.usize(..6) }]
    }

    fn send(&mut self, from: usize) {
        let (tag, length) = (self.tag(), self.length());
        let bytes = payload::of(self.directions[from].sends.len() as u64, length);
        let data = self.job.buffer(length);
        // SAFETY: the buffer has that length, and nothing uses it yet.
        unsafe { { data }.scatter(NonNull::from(&bytes[..]).cast(), length) };
        let id = self.job.send_from(from, 1 - from as u32, tag, data);
        self.directions[from].sends.push(Send { tag, length, id });
    }

    fn receive_any(&mut self, at: usize) {
        let tag = if self.rng.u8(..12) == 0 { ANY_TAG } else { self.tag() };
        let source = if self.rng.u8(..12) == 0 { ANY_SOURCE } else { 1 - at as u32 };
        let length = self.length();
        self.receive(at, source, tag, length);
    }

    fn receive(&mut self, at: usize, source: u32, tag: u32, length: usize) {
        let buffer = self.job.buffer(length);
        let room = buffer.first().unwrap_or(Part { base: NonNull::dangling(), length: 0 });
        let pattern = Pattern { context: 0, source, tag };
        // SAFETY: the buffer outlives the engine.
        let received = unsafe { self.job.engines[at].irecv(pattern, buffer, Owner(1)) };
        let (id, outcome) = match received.expect("the receive begins") {
            Received::Done(outcome) => (None, Some(outcome)),
            Received::Pending(id) => (Some(id), None),
        };
        self.directions[1 - at].receives.push(Receive { tag, room, id, outcome });
    }

    /// Cancels some receive of `at` that is not complete, if that is possible.
    fn cancel(&mut self, at: usize) {
        let receives = &mut self.directions[1 - at].receives;
        let place = self.rng.usize(..receives.len().max(1));
        let Some(id) = receives.get(place).and_then(|receive| receive.id) else { return };
        let engine = &mut self.job.engines[at];
        if engine.cancel(id) {
            assert_eq!(engine.test(id), Some(Err(Fault::Cancelled)));
            receives.remove(place);
        }
    }

    fn progress(&mut self, rank: usize) -> bool {
        let moved = self.job.engines[rank].progress().expect("progress");
        // Now and then there is no memory for a ring at first.
        let backed = self.rng.u8(..4) > 0;
        self.rings_wanted += u32::from(self.job.answer_ring_want(rank, backed));
        let refused = self.rng.u16(..self.refused_of) == 0;
        moved | self.job.carry(rank, if refused { Err(Refused) } else { Ok(()) })
    }

    /// A rank enters the library, or leaves it in the middle of what it moves.
    fn enter_or_leave(&mut self) {
        let (rank, inside) = (self.rng.u32(..2), self.rng.bool());
        self.job.arena.segment().rank_block(rank).liveness.set_inside(inside);
    }

    fn step(&mut self) {
        let rank = self.rng.usize(..2);
        match self.rng.u8(..16) {
            0..5 => self.send(rank),
            5..10 => self.receive_any(rank),
            10 => self.cancel(rank),
            11..13 if self.transfer == Transfer::Auto => self.enter_or_leave(),
            _ => drop(self.progress(rank)),
        }
    }

    fn settle(&mut self) {
        for _ in 0..SETTLED {
            while self.progress(0) | self.progress(1) {}
        }
    }

    /// Compares the received data with the oracle.
    fn check(&mut self) {
        for (from, direction) in self.directions.iter_mut().enumerate() {
            let matches = direction.matches();
            for (place, (receive, message)) in
                direction.receives.iter_mut().zip(&matches).enumerate()
            {
                let engine = &mut self.job.engines[1 - from];
                if let Some(id) = receive.id.filter(|_| receive.outcome.is_none()) {
                    receive.outcome = engine.test(id);
                    receive.id = receive.id.filter(|_| receive.outcome.is_none());
                }
                let Some(number) = *message else {
                    assert_eq!(receive.outcome, None, "receive {place} from {from} has no message");
                    continue;
                };
                let (tag, length) = (direction.sends[number].tag, direction.sends[number].length);
                let (source, buffer) = (from as u32, receive.room.length);
                let expected = match length > buffer {
                    true => Err(Fault::Truncated { source, tag, message: length, buffer }),
                    false => Ok(Status { source, tag, bytes: length }),
                };
                assert_eq!(receive.outcome, Some(expected), "receive {place} from {from}");
                let room = NonNull::slice_from_raw_parts(receive.room.base, length.min(buffer));
                // SAFETY: the receive is complete, and the buffer lives as long as the job.
                let bytes = unsafe { room.as_ref() };
                assert_eq!(
                    payload::first_difference(number as u64, bytes),
                    None,
                    "message {number}"
                );
            }
        }
    }

    /// Cancels the remaining receives, receives the remaining messages, and checks that none was
    /// lost.
    fn clear(&mut self) {
        for from in 0..2 {
            let at = 1 - from;
            let engine = &mut self.job.engines[at];
            self.directions[from].receives.retain(|receive| match receive.id {
                Some(id) => {
                    assert!(engine.cancel(id), "nothing matched it");
                    assert_eq!(engine.test(id), Some(Err(Fault::Cancelled)));
                    false
                }
                None => true,
            });
            for _ in self.directions[from].receives.len()..self.directions[from].sends.len() {
                self.receive(at, from as u32, ANY_TAG, LONG[5]);
            }
        }
        self.settle();
        self.check();
        for (direction, engine) in self.directions.iter().zip(&mut self.job.engines) {
            for id in direction.sends.iter().filter_map(|send| send.id) {
                assert!(matches!(engine.test(id), Some(Ok(_))), "a send never ends");
            }
            let mut left = engine.in_use().expect("whole cells");
            left.cells = 0;
            assert_eq!(left, InUse::default());
        }
    }
}

/// Plays the program of a seed. Returns the counts of its RTRs, and of the requests for memory of a
/// ring.
fn play(seed: u64, rendezvous: Rendezvous, transfer: Transfer) -> ([Rtrs; 2], u32) {
    println!("seed {seed}, {}, {}", rendezvous.name(), transfer.name());
    let mut program = Program::new(seed, rendezvous, transfer);
    for _ in 0..3 {
        let steps = if transfer == Transfer::Auto { STEPS / 3 } else { STEPS };
        (0..steps).for_each(|_| program.step());
        program.settle();
        program.check();
    }
    program.clear();
    ([0, 1].map(|rank| program.job.engines[rank].rtrs()), program.rings_wanted)
}

#[test]
fn random_programs_keep_the_order_that_mpi_demands() {
    let mut all = Rtrs::default();
    for seed in traffic::seeds(0, if cfg!(miri) { 1 } else { 30 }) {
        for rendezvous in Rendezvous::ALL {
            for Rtrs { sent, retracted, missed, heard, used, .. } in
                play(seed, rendezvous, Transfer::CopyRing).0
            {
                assert!(retracted + missed <= sent);
                assert!(used <= heard && (rendezvous != Rendezvous::Plain || sent == 0));
                all.sent += sent;
                all.retracted += retracted;
                all.missed += missed;
                all.heard += heard;
                all.used += used;
            }
        }
    }
    println!("{all:?}");
    let Rtrs { sent, retracted, missed, heard, used, .. } = all;
    assert_eq!(sent, heard, "an RTR was lost");
    assert_eq!(sent, retracted + missed + used, "an RTR is out");
    assert!([retracted, missed, used].iter().all(|count| *count > 10), "{all:?}");
}

#[test]
fn messages_arrive_whole_whenever_a_side_enters_or_leaves() {
    let mut rings_wanted = 0;
    for seed in traffic::seeds(0, if cfg!(miri) { 0 } else { 12 }) {
        for rendezvous in Rendezvous::ALL {
            rings_wanted += play(seed, rendezvous, Transfer::Auto).1;
        }
    }
    assert!(cfg!(any(miri, strait_sanitized)) || rings_wanted > 0, "no message needed its ring");
}
