//! The locks of windows: test-and-set, the MCS queue, and the lock of two modes with a device
//! beside the processors.

use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, FixedMode, Follow, Hybrid, HybridStep, HybridWord, LockMode,
    LockState, LockType, LockWord, Mcs, McsRelease, McsStep, McsWord, Migration, MigrationStep,
    Policy, WordAccess,
};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model, model_in_full, thread};

use LockType::{Exclusive, Shared};

/// The data under a lock: a shared holder reads, an exclusive holder adds.
struct Guarded(UnsafeCell<u32>);

// SAFETY: the models check the exclusion; loom sees each access.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn reach(&self, lock_type: LockType) {
        match lock_type {
            // SAFETY: the caller holds the lock.
            Exclusive => self.0.with_mut(|number| unsafe { *number += 1 }),
            Shared => {
                // SAFETY: the caller holds the lock.
                self.0.with(|number| core::hint::black_box(unsafe { *number }));
            }
        }
    }
}

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
    assert_eq!(lock.guarded.0.with(|number| unsafe { *number }), alone);
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
            McsWord::Sharers => &self.sharers,
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
                    McsStep::Wait(_) => {
                        thread::yield_now();
                        mcs.again(None);
                    }
                    McsStep::Done => break,
                    closed => panic!("no member has died: {closed:?}"),
                }
            }
            self.guarded.reach(lock_type);
            let mut release = McsRelease::new(lock_type, place, MEMBERS as u32, native_swap);
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
    assert_eq!(queue.guarded.0.with(|number| unsafe { *number }), alone as u32);
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

/// A device. Each of its atomics is a load and a store. Its atomics exclude each other, but not
/// those of processors.
struct Device(strait_core::lock::RevocableLock);

impl Device {
    fn access(&self, word: &LockWord, op: WordAccess, rank: u32) -> u64 {
        while self.0.try_acquire(rank).is_err() {
            thread::yield_now();
        }
        let found = word.access(WordAccess::Read);
        match op {
            WordAccess::CompareAndSwap { expected, desired } if found == expected => {
                word.access(WordAccess::Write(desired));
            }
            WordAccess::FetchAdd(number) => {
                word.access(WordAccess::Write(found.wrapping_add(number)));
            }
            _ => {}
        }
        self.0.release(rank);
        found
    }
}

/// The two-mode lock of a target in place 0. Place 1 is on its node, place 2 on another node.
struct TwoModes {
    cpu: LockWord,
    network: LockWord,
    device: Device,
    /// The fault to inject: processors access the network word, too.
    mixed: bool,
    guarded: Guarded,
}

const SIZE: u32 = 3;
const NETWORK: Coding = Coding::Ranks { size: SIZE };

impl TwoModes {
    fn new(mode: LockMode) -> Self {
        let (cpu, network) = match mode {
            LockMode::Cpu => (LockState::Free, LockState::Elsewhere(0)),
            LockMode::Network => (LockState::Elsewhere(0), LockState::Free),
        };
        Self {
            cpu: LockWord::new(Coding::Signed.word(cpu)),
            network: LockWord::new(NETWORK.word(network)),
            device: Device(strait_core::lock::RevocableLock::free()),
            mixed: false,
            guarded: Guarded::new(),
        }
    }

    fn access(&self, word: HybridWord, op: WordAccess, place: u32) -> u64 {
        match word {
            HybridWord::Cpu => self.cpu.access(op),
            HybridWord::Network if self.mixed && place < 2 => self.network.access(op),
            HybridWord::Network => self.device.access(&self.network, op, place),
        }
    }

    fn reach(&self, place: u32, mode: LockMode) {
        self.guarded.reach(Exclusive);
        match mode {
            LockMode::Cpu => {
                self.access(HybridWord::Cpu, Coding::Signed.release(Exclusive, place), place)
            }
            LockMode::Network => {
                self.access(HybridWord::Network, NETWORK.release(Exclusive, place), place)
            }
        };
    }

    fn want(&self, place: u32, on_node: bool) -> Option<HybridStep> {
        self.want_by(&mut Follow, place, on_node)
    }

    /// Tries to get the lock within a few polls. Returns how that ended: with the lock, with a
    /// request that it has to send, or without either.
    fn want_by(&self, policy: &mut dyn Policy, place: u32, on_node: bool) -> Option<HybridStep> {
        let mut hybrid = Hybrid::new(Exclusive, place, SIZE, on_node);
        let mut looks = 0;
        loop {
            match hybrid.step() {
                HybridStep::Access(word, op) => {
                    hybrid.handle(self.access(word, op, place), policy);
                }
                HybridStep::Wait(_) if looks == 2 => return None,
                HybridStep::Wait(_) => {
                    looks += 1;
                    thread::yield_now();
                    hybrid.again();
                }
                HybridStep::Taken(mode) => {
                    self.reach(place, mode);
                    return Some(HybridStep::Taken(mode));
                }
                HybridStep::Ask => return Some(HybridStep::Ask),
                HybridStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    /// Lets the lock manager move the lock to place 2, which then gets it. Returns false if it
    /// found no moment for that.
    fn migrate(&self, time: u64) -> bool {
        matches!(self.try_to_migrate(time), MigrationStep::Granted(_))
    }

    /// Lets the lock manager move the lock to place 2. Returns the step at which it stopped.
    fn try_to_migrate(&self, time: u64) -> MigrationStep {
        let mut migration = Migration::new(2, Exclusive, 0, SIZE, Some(time));
        let mut looks = 0;
        loop {
            match migration.step() {
                MigrationStep::Access(word, op) => migration.handle(self.access(word, op, 0)),
                MigrationStep::Blocked(_) if looks == 2 => return migration.step(),
                MigrationStep::Blocked(_) => {
                    looks += 1;
                    thread::yield_now();
                    migration.again();
                }
                MigrationStep::Granted(LockMode::Network) => {
                    self.reach(2, LockMode::Network);
                    return migration.step();
                }
                MigrationStep::Granted(LockMode::Cpu) => panic!("the lock did not move"),
                MigrationStep::Elsewhere => return migration.step(),
                MigrationStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    /// Moves the lock to CPU mode as place 0, which dies before it takes the CPU word.
    fn move_and_die(&self) {
        let mut hybrid = Hybrid::new(Exclusive, 0, SIZE, true);
        while !hybrid.has_moved() {
            let HybridStep::Access(word, op) = hybrid.step() else {
                panic!("the step does not move the lock")
            };
            hybrid.handle(self.access(word, op, 0), &mut Follow);
        }
    }

    /// Checks that the guarded number equals the number of exclusive holders, and that the lock is
    /// free at the end.
    fn judge(&self, times: u32) {
        // SAFETY: the other threads have been joined.
        assert_eq!(self.guarded.0.with(|number| unsafe { *number }), times);
        let cpu = Coding::Signed.state(self.cpu.access(WordAccess::Read));
        let network = NETWORK.state(self.network.access(WordAccess::Read));
        let in_one_mode = matches!(
            (cpu, network),
            (LockState::Free, LockState::Elsewhere(_)) | (LockState::Elsewhere(_), LockState::Free)
        );
        let between = matches!((cpu, network), (LockState::Elsewhere(_), LockState::Elsewhere(_)));
        assert!(in_one_mode || between, "{cpu:?}, {network:?}");
    }
}

const fn had(step: Option<HybridStep>) -> u32 {
    matches!(step, Some(HybridStep::Taken(_))) as u32
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
        let step = lock.try_to_migrate(1);
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
        let times = had(lock.want_by(&mut pinned, 1, true)) + remote.join().unwrap();
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
        let times = had(lock.want_by(&mut pinned, 1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}
