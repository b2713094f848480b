//! The locks of windows: test-and-set, the queue, and the lock of two modes with a device beside the processors.

use strait_core::lock::{
    Attempt, Coding, Follow, Hybrid, HybridStep, HybridWord, LockType, LockWord, Mcs, McsRelease,
    McsStep, McsWord, Migration, MigrationStep, Mode, Op, Outcome, Pinned, Policy, State,
};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model, model_in_full, thread};

use LockType::{Exclusive, Shared};

/// What a lock guards: who shares it reads, who has it alone adds.
struct Guarded(UnsafeCell<u32>);

// SAFETY: what the models are there to find out; loom sees each access.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn reach(&self, lock_type: LockType) {
        match lock_type {
            // SAFETY: the lock is held, here and below.
            Exclusive => self.0.with_mut(|number| unsafe { *number += 1 }),
            Shared => {
                // SAFETY: the lock is held.
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
    /// Takes the lock within a few looks, and gives it back. Whether that was for it alone.
    fn play(&self, lock_type: LockType, place: u32) -> u32 {
        let mut attempt = Attempt::new(Coding::Signed, lock_type, place, MEMBERS as u32);
        for _ in 0..3 {
            if attempt.handle(self.word.access(attempt.op())) == Outcome::Taken {
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
    assert_eq!(lock.word.access(Op::Read), 0, "free");
    // SAFETY: the others have been joined.
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

    fn access(&self, word: McsWord, op: Op) -> u64 {
        match word {
            McsWord::Lock => &self.lock,
            McsWord::Sharers => &self.sharers,
            McsWord::Flag(place) => &self.flags[place as usize],
            McsWord::Next(place) => &self.nexts[place as usize],
        }
        .access(op)
    }

    /// Takes the lock and gives it back, as often as said. Everybody does, so every wait ends.
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
    assert_eq!(queue.lock.access(Op::Read), 0, "nobody is in the queue");
    assert_eq!(queue.sharers.access(Op::Read), 0, "nobody shares");
    let alone = types[1..].iter().filter(|lock_type| **lock_type == Exclusive).count()
        + if types[0] == Exclusive { rounds } else { 0 };
    // SAFETY: the others have been joined.
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

/// A device: each of its atomics is a load and a store, and another takes place before or after it, but for those of processors.
struct Device(strait_core::lock::Lock);

impl Device {
    fn access(&self, word: &LockWord, op: Op, rank: u32) -> u64 {
        while self.0.try_acquire(rank).is_err() {
            thread::yield_now();
        }
        let found = word.access(Op::Read);
        match op {
            Op::CompareAndSwap { expected, desired } if found == expected => {
                word.access(Op::Write(desired));
            }
            Op::FetchAdd(number) => drop(word.access(Op::Write(found.wrapping_add(number)))),
            _ => {}
        }
        self.0.release(rank);
        found
    }
}

/// The lock of two modes of a target in place 0. Place 1 is on its node, place 2 on another.
struct TwoModes {
    cpu: LockWord,
    network: LockWord,
    device: Device,
    /// The fault: processors reach the network word, too.
    mixed: bool,
    guarded: Guarded,
}

const SIZE: u32 = 3;
const NETWORK: Coding = Coding::Ranks { size: SIZE };

impl TwoModes {
    fn new(mode: Mode) -> Self {
        let (cpu, network) = match mode {
            Mode::Cpu => (State::Free, State::Elsewhere(0)),
            Mode::Network => (State::Elsewhere(0), State::Free),
        };
        Self {
            cpu: LockWord::new(Coding::Signed.word(cpu)),
            network: LockWord::new(NETWORK.word(network)),
            device: Device(strait_core::lock::Lock::free()),
            mixed: false,
            guarded: Guarded::new(),
        }
    }

    fn access(&self, word: HybridWord, op: Op, place: u32) -> u64 {
        match word {
            HybridWord::Cpu => self.cpu.access(op),
            HybridWord::Network if self.mixed && place < 2 => self.network.access(op),
            HybridWord::Network => self.device.access(&self.network, op, place),
        }
    }

    fn reach(&self, place: u32, mode: Mode) {
        self.guarded.reach(Exclusive);
        match mode {
            Mode::Cpu => {
                self.access(HybridWord::Cpu, Coding::Signed.release(Exclusive, place), place)
            }
            Mode::Network => {
                self.access(HybridWord::Network, NETWORK.release(Exclusive, place), place)
            }
        };
    }

    fn want(&self, place: u32, on_node: bool) -> Option<HybridStep> {
        self.want_by(&mut Follow, place, on_node)
    }

    /// Wants the lock within a few looks. What came of it: had it, has to ask for it, or gave up.
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

    /// The lock manager moves the lock to place 2, which then has it. False: it found no moment to.
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
                MigrationStep::Granted(Mode::Network) => {
                    self.reach(2, Mode::Network);
                    return migration.step();
                }
                MigrationStep::Granted(Mode::Cpu) => panic!("it was to move"),
                MigrationStep::Elsewhere => return migration.step(),
                MigrationStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    /// Place 0 moves the lock to CPU mode, and dies before it takes the CPU word.
    fn move_and_die(&self) {
        let mut hybrid = Hybrid::new(Exclusive, 0, SIZE, true);
        while !hybrid.has_moved() {
            let HybridStep::Access(word, op) = hybrid.step() else { panic!("it moves the lock") };
            hybrid.handle(self.access(word, op, 0), &mut Follow);
        }
    }

    /// How often somebody had the lock is what it guards, and nobody has it at the end.
    fn judge(&self, times: u32) {
        // SAFETY: the others have been joined.
        assert_eq!(self.guarded.0.with(|number| unsafe { *number }), times);
        let cpu = Coding::Signed.state(self.cpu.access(Op::Read));
        let network = NETWORK.state(self.network.access(Op::Read));
        let in_one_mode = matches!(
            (cpu, network),
            (State::Free, State::Elsewhere(_)) | (State::Elsewhere(_), State::Free)
        );
        let between = matches!((cpu, network), (State::Elsewhere(_), State::Elsewhere(_)));
        assert!(in_one_mode || between, "{cpu:?}, {network:?}");
    }
}

const fn had(step: Option<HybridStep>) -> u32 {
    matches!(step, Some(HybridStep::Taken(_))) as u32
}

/// The manager moves the lock to the network while a rank of the node takes it, which moves it back if it comes second.
#[test]
fn the_lock_migrates_to_the_network() {
    model(|| {
        let lock = Arc::new(TwoModes::new(Mode::Cpu));
        let neighbour = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(1, true)))
        };
        let times = u32::from(lock.migrate(1)) + neighbour.join().unwrap();
        lock.judge(times);
    });
}

/// A rank of the node moves the lock to CPU mode while one of another node takes it.
#[test]
fn the_lock_migrates_to_the_processors() {
    model(|| {
        let lock = Arc::new(TwoModes::new(Mode::Network));
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(2, false)))
        };
        let times = had(lock.want(1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}

/// Two of the node finish each other's migration, and the manager begins the next.
#[test]
fn the_lock_migrates_there_and_back() {
    model(|| {
        let lock = Arc::new(TwoModes::new(Mode::Network));
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

/// A rank of the node and the manager, for a rank of another node, both find a lock between its
/// modes. The manager does not send its rank away: no other rank may ever come to take the lock.
#[test]
fn a_lock_between_its_modes_is_taken_by_the_manager() {
    model(|| {
        let lock = Arc::new(TwoModes::new(Mode::Network));
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

/// Why there are two words: where a processor's atomics reach that of the devices, two have the lock at once, or it is lost.
#[test]
#[cfg_attr(strait_loom, should_panic)]
fn a_word_that_processors_and_devices_change_is_no_lock() {
    model_in_full(|| {
        let mut lock = TwoModes::new(Mode::Network);
        lock.mixed = cfg!(strait_loom);
        let lock = Arc::new(lock);
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(2, false)))
        };
        let mut pinned = Pinned(Mode::Network);
        let times = had(lock.want_by(&mut pinned, 1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}

/// The same without the fault.
#[test]
fn a_word_that_devices_change_is_one() {
    model(|| {
        let lock = Arc::new(TwoModes::new(Mode::Network));
        let remote = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || had(lock.want(2, false)))
        };
        let mut pinned = Pinned(Mode::Network);
        let times = had(lock.want_by(&mut pinned, 1, true)) + remote.join().unwrap();
        lock.judge(times);
    });
}
