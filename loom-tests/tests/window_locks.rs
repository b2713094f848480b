//! The locks of windows: test-and-set, the MCS queue, and the lock of two modes with a device
//! beside the processors.

use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, FixedMode, LockMode, LockType, LockWord, Mcs, McsRelease,
    McsStep, McsWord, MigrationStep, WordAccess,
};
use strait_loom_tests::{Arc, Guarded, TwoModes, had, model, model_in_full, thread};

use LockType::{Exclusive, Shared};

struct TestAndSet {
    word: LockWord,
    guarded: Guarded,
}

impl TestAndSet {
    /// Takes the lock within a few polls and releases it. Returns 1 if it held the lock
    /// exclusively.
    fn play(&self, lock_type: LockType, place: u32) -> u32 {
        let mut attempt = Attempt::new(Coding::Signed, lock_type, place, MEMBERS as u32);
        for _ in 0..3 {
            if attempt.handle(self.word.access(attempt.op())) == AttemptOutcome::Taken {
                self.guarded.reach(lock_type);
                self.word.access(Coding::Signed.release(lock_type, place));
                return u32::from(lock_type == Exclusive);
            }
            thread::yield_now();
        }
        0
    }
}

fn test_and_set(types: [LockType; 2]) {
    let lock = Arc::new(TestAndSet { word: LockWord::new(0), guarded: Guarded::new() });
    let others = [(types[0], 1), (types[1], 2)].map(|(lock_type, place)| {
        let lock = Arc::clone(&lock);
        thread::spawn(move || lock.play(lock_type, place))
    });
    let mut alone = lock.play(Exclusive, 0);
    alone += others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
    assert_eq!(lock.word.access(WordAccess::Read), 0, "free");
    // SAFETY: the other threads have been joined.
    assert_eq!(unsafe { lock.guarded.number() }, alone);
}

#[test]
fn one_excludes_sharers_and_another() {
    model(|| test_and_set([Shared, Exclusive]));
}

#[test]
fn one_comes_after_two_that_share() {
    model(|| test_and_set([Shared, Shared]));
}

const MEMBERS: usize = 3;

/// The queue at one target.
struct Queue {
    lock: LockWord,
    sharers: LockWord,
    flags: [LockWord; MEMBERS],
    nexts: [LockWord; MEMBERS],
    guarded: Guarded,
}

impl Queue {
    fn new() -> Self {
        let words = || core::array::from_fn(|_| LockWord::new(0));
        let (lock, sharers) = (LockWord::new(0), LockWord::new(0));
        Self { lock, sharers, flags: words(), nexts: words(), guarded: Guarded::new() }
    }

    fn access(&self, word: McsWord, op: WordAccess) -> u64 {
        match word {
            McsWord::Lock => &self.lock,
            McsWord::Holders => &self.sharers,
            McsWord::Flag(place) => &self.flags[place as usize],
            McsWord::Next(place) => &self.nexts[place as usize],
        }
        .access(op)
    }

    /// Takes the lock and releases it, `rounds` times. Every thread releases, so every wait ends.
    fn play(&self, lock_type: LockType, place: u32, rounds: usize, native_swap: bool) {
        for _ in 0..rounds {
            let mut mcs = Mcs::new(lock_type, place, MEMBERS as u32, native_swap);
            loop {
                match mcs.step() {
                    McsStep::Access(word, op) => mcs.handle(self.access(word, op), |_| false),
                    McsStep::Wait(_) | McsStep::Held(_) => {
                        thread::yield_now();
                        mcs.again(None);
                    }
                    McsStep::Done => break,
                    closed => panic!("no member has died: {closed:?}"),
                }
            }
            self.guarded.reach(lock_type);
            let mut release =
                McsRelease::new(lock_type, place, MEMBERS as u32, native_swap, mcs.is_queued());
            loop {
                match release.step() {
                    McsStep::Access(word, op) => release.handle(self.access(word, op), |_| false),
                    McsStep::Wait(_) => {
                        thread::yield_now();
                        release.again(false);
                    }
                    McsStep::Done => break,
                    closed => panic!("no member has died: {closed:?}"),
                }
            }
        }
    }
}

fn queue(types: &[LockType], rounds: usize, native_swap: bool) {
    let queue = Arc::new(Queue::new());
    let others = (1..).zip(&types[1..]).map(|(place, &lock_type)| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.play(lock_type, place, 1, native_swap))
    });
    let others: Vec<_> = others.collect();
    queue.play(types[0], 0, rounds, native_swap);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(queue.lock.access(WordAccess::Read), 0, "the queue is empty");
    assert_eq!(queue.sharers.access(WordAccess::Read), 0, "no shared holder is left");
    let alone = types[1..].iter().filter(|lock_type| **lock_type == Exclusive).count()
        + if types[0] == Exclusive { rounds } else { 0 };
    // SAFETY: the other threads have been joined.
    assert_eq!(unsafe { queue.guarded.number() }, alone as u32);
}

#[test]
fn three_in_a_queue_come_one_after_the_other() {
    model(|| queue(&[Exclusive; MEMBERS], 1, true));
}

#[test]
fn one_comes_back_to_the_queue() {
    model(|| queue(&[Exclusive; 2], 2, true));
}

#[test]
fn a_queue_joined_by_compare_and_swap_is_one() {
    model(|| queue(&[Exclusive; MEMBERS], 1, false));
}

#[test]
fn sharers_pass_through_the_queue() {
    model(|| queue(&[Exclusive, Shared, Shared], 1, true));
}

/// The manager moves the lock to the network while a rank of the node takes it. If that rank is
/// second, it moves the lock back.
#[test]
fn the_lock_migrates_to_the_network() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Cpu));
        let neighbour = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(1, true)))
        };
        let times = u32::from(lock.migrate(1)) + neighbour.join().unwrap();
        lock.judge(times);
    });
}

/// A rank of the node moves the lock to CPU mode while a rank of another node takes it.
#[test]
fn the_lock_migrates_to_the_processors() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Network));
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(2, false)))
        };
        let times = had(lock.want(1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}

/// Two ranks of the node finish each other's migration, and the manager starts the next.
#[test]
fn the_lock_migrates_there_and_back() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Network));
        let neighbour = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(1, true)))
        };
        let mut times = had(lock.want(0, true));
        times += u32::from(lock.migrate(1));
        times += neighbour.join().unwrap();
        lock.judge(times);
    });
}

/// A rank of the node, and the manager for a rank of another node, both find a lock between its
/// modes. The manager does not reject its rank, because possibly no other rank ever takes the lock.
#[test]
fn a_lock_between_its_modes_is_taken_by_the_manager() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Network));
        lock.move_and_die();
        let neighbour = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(1, true)))
        };
        let step = lock.try_to_migrate(Exclusive, 1);
        assert_ne!(step, MigrationStep::Elsewhere);
        let moved = u32::from(matches!(step, MigrationStep::Granted(_)));
        let times = moved + neighbour.join().unwrap();
        lock.judge(times);
    });
}

/// The reason for two words: if a processor's atomics access the device's word, two ranks hold the
/// lock at once, or the lock is lost.
#[test]
#[cfg_attr(strait_loom, should_panic)]
fn a_word_that_processors_and_devices_change_is_no_lock() {
    model_in_full(|| {
        let mut lock = TwoModes::new(LockMode::Network);
        lock.mixed = cfg!(strait_loom);
        let lock = Arc::new(lock);
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(2, false)))
        };
        let mut pinned = FixedMode(LockMode::Network);
        let times = had(lock.want_by(&mut pinned, Exclusive, 1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}

/// The preceding test without the fault.
#[test]
fn a_word_that_devices_change_is_one() {
    model(|| {
        let lock = Arc::new(TwoModes::new(LockMode::Network));
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(2, false)))
        };
        let mut pinned = FixedMode(LockMode::Network);
        let times = had(lock.want_by(&mut pinned, Exclusive, 1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}
