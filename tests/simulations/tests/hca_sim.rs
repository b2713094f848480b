//! The simulated device passes the suite that every device must pass: with two parties that run in
//! turns.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread;

use strait_sim::{Model, SimDevice, SimFabric};
use strait_tests::conformance::hca::{Habits, Outcome, Party, run};
use strait_tests::traffic;

const LIMIT: Duration = Duration::from_secs(60);

/// The state that the parties share.
#[derive(Debug, Default)]
struct Table {
    turn: Mutex<Turn>,
    passed: Condvar,
}

#[derive(Debug, Default)]
struct Turn {
    /// The rank that may run.
    rank: u32,
    /// Whether the other party does not return.
    alone: bool,
    /// Bytes that each party has passed to the other and that are not taken yet.
    given: [Option<Vec<u8>>; 2],
}

impl Table {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().expect("nothing fails while this is locked")
    }

    fn await_turn(&self, rank: u32) {
        let waited = self.passed.wait_while(self.turn(), |turn| turn.rank != rank);
        drop(waited.expect("nothing fails while this is locked"));
    }

    /// Passes the turn of `rank` to the other party, and waits until it comes back.
    fn pass(&self, rank: u32) {
        let mut turn = self.turn();
        if turn.alone {
            return;
        }
        turn.rank = 1 - rank;
        drop(turn);
        self.passed.notify_all();
        self.await_turn(rank);
    }

    /// Passes the turn to the other party for good.
    fn leave(&self, rank: u32) {
        let mut turn = self.turn();
        (turn.rank, turn.alone) = (1 - rank, true);
        drop(turn);
        self.passed.notify_all();
    }

    /// Lets others run until `there` returns a value.
    fn until<T>(&self, rank: u32, mut there: impl FnMut(&mut Turn) -> Option<T>) -> T {
        loop {
            let mut turn = self.turn();
            if let Some(there) = there(&mut turn) {
                return there;
            }
            assert!(!turn.alone, "the other party is gone");
            drop(turn);
            self.pass(rank);
        }
    }
}

/// Panic payload of a party that was killed.
#[derive(Debug)]
struct Killed;

/// A party that runs only in its turn, so that a run is a function of its seed.
struct Simulated {
    rank: u32,
    device: SimDevice,
    fabric: SimFabric,
    table: Arc<Table>,
}

impl Party for Simulated {
    type Device = SimDevice;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn device(&mut self) -> &mut SimDevice {
        &mut self.device
    }

    fn exchange(&mut self, mine: &[u8]) -> Vec<u8> {
        let (own, theirs) = (self.rank as usize, 1 - self.rank as usize);
        self.table.until(self.rank, |turn| turn.given[own].is_none().then_some(()));
        self.table.turn().given[own] = Some(mine.to_vec());
        self.table.until(self.rank, |turn| turn.given[theirs].take())
    }

    fn pause(&mut self) {
        let waits_for_other = !self.fabric.advance();
        assert!(!(waits_for_other && self.table.turn().alone), "the other party is gone");
        self.table.pass(self.rank);
    }

    fn wait_for_event(&mut self) -> bool {
        while !self.device.take_event() {
            self.pause();
        }
        true
    }

    fn die(&mut self) {
        self.fabric.kill(self.rank);
        resume_unwind(Box::new(Killed));
    }

    fn habits(&self) -> Habits {
        Habits { mortal: true, ..Habits::default() }
    }
}

/// Draws a model from the seed, with the few resources that the checks need. It never refuses
/// requests temporarily, because the suite counts them.
fn model(seed: u64) -> Model {
    let mut model = Model { refuse: 0, ..Model::drawn(seed) };
    model.capabilities.receives = 64;
    model.capabilities.depth = model.capabilities.depth.max(8);
    model
}

/// The checks that did not apply; `None` if the party was killed.
type Missing = Option<Vec<&'static str>>;

/// Runs the suite as one party.
fn play(rank: u32, fabric: SimFabric, table: Arc<Table>) -> Missing {
    let mut party = Simulated { rank, device: fabric.device(rank), fabric, table };
    let mut missing = Vec::new();
    party.table.await_turn(rank);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        run(&mut party, |line| {
            if line.outcome != Outcome::Holds {
                missing.push(line.name);
            }
        });
    }));
    party.table.leave(rank);
    match ended {
        Ok(()) => Some(missing),
        Err(cause) if cause.is::<Killed>() => None,
        Err(cause) => resume_unwind(cause),
    }
}

/// Runs the suite on this device. Returns the result of each rank's party in the order in which
/// they ended, or `Err` if a check failed.
fn on_two(seed: u64, model: Model) -> [Result<(u32, Missing), ()>; 2] {
    let (fabric, table) = (SimFabric::new(seed, 2, model), Arc::default());
    let (says, heard) = mpsc::channel();
    for rank in 0..2 {
        let (fabric, table, says) = (fabric.clone(), Arc::clone(&table), says.clone());
        thread::spawn(move || {
            let ended = catch_unwind(|| (rank, play(rank, fabric, table)));
            says.send(ended.map_err(drop)).expect("the test listens to both");
        });
    }
    [(); 2].map(|()| heard.recv_timeout(LIMIT).expect("the parties hang"))
}

#[test]
fn the_simulated_device_keeps_every_promise() {
    for seed in traffic::simulated_seeds(10) {
        let model = model(seed);
        let can = model.capabilities;
        let mut missing = Vec::new();
        for ended in on_two(seed, model) {
            let (rank, ended) = ended.unwrap_or_else(|()| panic!("seed {seed}: {can:?}"));
            assert_eq!(ended.is_none(), rank == 1, "seed {seed}: the second dies in the end");
            missing.extend(ended.unwrap_or_default());
        }
        let expected = [
            (can.inline == 0, "inline_data_is_taken_at_once"),
            (can.pieces < 2, "pieces_are_gathered_and_scattered"),
            (!can.ordered_bytes, "the_last_word_comes_last"),
        ];
        let expected: Vec<_> = expected.iter().filter(|one| one.0).map(|one| one.1).collect();
        missing.sort_unstable();
        assert_eq!(missing, expected, "seed {seed}: {can:?}");
    }
}

/// The suite detects a broken promise: a device that promises an order within a write and does not
/// keep it fails.
#[test]
fn a_broken_promise_is_found_out() {
    let mut model = Model { faithful: false, ..model(1) };
    model.capabilities.ordered_bytes = true;
    assert_eq!(on_two(1, model), [Err(()), Err(())]);
}
