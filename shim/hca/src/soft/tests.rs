//! Tests beyond the conformance suite: files that are not a fabric, ranks that do not exist,
//! addresses of other fabrics.

use core::time::Duration;

use strait_core::hca::{Done, Operation, RemoteAddress, WorkError};

use super::block::DeviceBlock;
use super::*;
use crate::cq;

fn refused(file: &OwnedFd, rank: u32) -> FabricError {
    SoftHca::attach(file, rank, SoftMode::Inline).map(|_| ()).unwrap_err()
}

#[test]
fn a_rank_attaches_once_and_only_if_there_is_one() {
    let file = Fabric::create(2).unwrap();
    let device = SoftHca::attach(&file, 1, SoftMode::Inline).unwrap();
    assert_eq!(refused(&file, 1), FabricError::Taken { rank: 1 });
    assert_eq!(refused(&file, 2), FabricError::Rank { rank: 2, ranks: 2 });
    drop(device);
    assert_eq!(refused(&file, 1), FabricError::Taken { rank: 1 });
}

#[test]
fn a_foreign_file_is_refused() {
    let segment =
        strait_platform::segment::SegmentMap::create(strait_core::layout::SegmentConfig::new(1), 1);
    let file = segment.unwrap().fd().try_clone_to_owned().unwrap();
    assert_eq!(refused(&file, 0), FabricError::NotAFabric);
    let file = strait_platform::segment::new_memfd().unwrap();
    assert_eq!(refused(&file, 0), FabricError::NotAFabric);
    assert_eq!(Fabric::create(0).unwrap_err(), FabricError::Ranks { ranks: 0 });
}

#[test]
fn an_address_of_another_fabric_is_refused() {
    let attach = || {
        let file = Fabric::create(2).unwrap();
        [0, 1].map(|rank| SoftHca::attach(&file, rank, SoftMode::Inline).unwrap())
    };
    let ([mut ours, _], [_, mut theirs]) = (attach(), attach());
    let (connection, _) = ours.open(1).unwrap();
    let (_, address) = theirs.open(0).unwrap();
    let refused = ours.connect(connection, &address).unwrap_err();
    assert!(matches!(refused, HcaError::Unreachable { .. }), "{refused:?}");
    let refused = ours.connect(connection, &Address([0; Address::LENGTH])).unwrap_err();
    assert!(matches!(refused, HcaError::Unreachable { .. }), "{refused:?}");
}

#[test]
fn devices_of_no_job_find_each_other_by_address_or_number() {
    let alone = || SoftHca::alone(SoftMode::Inline).unwrap();
    let [mut a, mut b] = [alone(), alone()];
    let (here, to_a) = a.open(0).unwrap();
    let (there, to_b) = b.open(0).unwrap();
    assert_eq!(a.connect(here, &to_b), Ok(Readiness::Pending));
    assert_eq!(b.connect(there, &to_a), Ok(Readiness::Ready));
    assert_eq!(a.connect(here, &to_b), Ok(Readiness::Ready));
    let knows = |rank| a.shared.fabric.liveness(rank).is_some();
    let unmet = alone();
    assert!(knows(unmet.rank()), "it may hold a lock that this device waits for");
    let gone = alone().rank();
    assert!(!knows(gone));
    let job = Fabric::attach(&Fabric::create(1).unwrap()).unwrap();
    assert!(
        job.liveness(unmet.rank()).is_none(),
        "a job's devices find no devices outside the job"
    );
}

#[test]
fn a_lock_is_taken_over_only_from_a_dead_holder() {
    use std::process::{Command, Stdio};

    use strait_core::layout::Liveness;
    use strait_core::lock::RevocableLock;

    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let liveness = Liveness::unborn();
    strait_platform::liveness::attach_other(&liveness, child.id());
    let lock = RevocableLock::free();
    core::mem::forget(strait_platform::lock::acquire(&lock, 7, Err).unwrap());
    let taken = core::sync::atomic::AtomicBool::new(false);
    let order = core::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let has_ended = |_| Ok::<_, ()>(strait_platform::liveness::has_ended(&liveness));
            let _guard = strait_platform::lock::acquire(&lock, 3, has_ended).unwrap();
            taken.store(true, order);
        });
        for _ in 0..10_000 {
            std::thread::yield_now();
        }
        assert!(!taken.load(order), "its holder lives");
        child.kill().unwrap();
        child.wait().unwrap();
    });
    assert!(taken.load(order));
    drop(strait_platform::lock::acquire(&lock, 1, Err).unwrap());
}

#[test]
fn a_lock_with_a_holder_that_does_not_exist_is_an_error() {
    let lock = strait_core::lock::RevocableLock::free();
    assert_eq!(lock.try_acquire(1_000_000), Ok(()));
    assert_eq!(strait_platform::lock::acquire(&lock, 1, Err).map(drop), Err(1_000_000));
}

/// Two connected devices, each with 64 bytes that every peer may write.
struct Pair {
    file: OwnedFd,
    devices: [SoftHca; 2],
    links: [Connection; 2],
    regions: [Region; 2],
    _memory: Box<[[u64; 8]; 2]>,
}

impl Pair {
    fn new(mode: SoftMode) -> Self {
        let file = Fabric::create(3).unwrap();
        let mut devices = [0, 1].map(|rank| SoftHca::attach(&file, rank, mode).unwrap());
        let mut memory = Box::new([[0; 8]; 2]);
        let [one, other] = &mut devices;
        let ((link, to_one), (back, to_other)) = (one.open(1).unwrap(), other.open(0).unwrap());
        one.connect(link, &to_other).unwrap();
        assert_eq!(other.connect(back, &to_one), Ok(Readiness::Ready));
        let bases = [NonNull::from(&mut memory[0]).cast(), NonNull::from(&mut memory[1]).cast()];
        // SAFETY: the memory is dropped after the devices.
        let regions = unsafe {
            [one.register(bases[0], 64, Access::ALL), other.register(bases[1], 64, Access::ALL)]
        };
        let regions = regions.map(Result::unwrap);
        Self { file, devices, links: [link, back], regions, _memory: memory }
    }

    fn piece(&self, side: usize) -> Sge {
        let base = core::ptr::with_exposed_provenance_mut(self.regions[side].base as usize);
        Sge { base: NonNull::new(base).unwrap(), length: 8, key: self.regions[side].local_key }
    }

    /// Posts a request from one side.
    fn post(&mut self, side: usize, id: u64, operation: Operation<'_>) -> Result<(), PostError> {
        let request = WorkRequest { id, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: the pieces are in the pair's memory, which no other code accesses.
        unsafe { self.devices[side].post(self.links[side], &request) }
    }

    fn poll(&mut self, side: usize) -> Result<Vec<Completion>, HcaError> {
        let mut some = [nothing(); 16];
        let count = self.devices[side].poll(&mut some)?;
        Ok(some[..count].to_vec())
    }

    /// Waits for a completion as [`cq::wait`] does, but fails unless an event wakes it.
    fn be_woken(&mut self, side: usize) -> Completion {
        const LONGER_THAN_ANY_DELAY: Duration = Duration::from_secs(60);
        loop {
            self.devices[side].arm().unwrap();
            if let Some(completion) = self.poll_one(side) {
                return completion;
            }
            let woken = self.devices[side].events().wait(LONGER_THAN_ANY_DELAY);
            assert_eq!(woken, Ok(true), "no event has come");
        }
    }

    fn poll_one(&mut self, side: usize) -> Option<Completion> {
        let mut some = [nothing()];
        (self.devices[side].poll(&mut some).unwrap() == 1).then_some(some[0])
    }

    fn wait(&mut self, side: usize) -> Completion {
        let mut some = [nothing()];
        assert_eq!(cq::wait(&mut self.devices[side], &mut some), Ok(1));
        some[0]
    }
}

fn nothing() -> Completion {
    Completion { id: 0, connection: Connection(0), result: Err(WorkError::Flushed) }
}

/// A receive that a rank took before it died is reported as flushed.
#[test]
fn a_receive_that_a_dead_rank_took_comes_back() {
    let mut pair = Pair::new(SoftMode::Inline);
    let piece = pair.piece(1);
    for id in [7, 8] {
        // SAFETY: the piece is in the pair's memory, which no other code accesses.
        unsafe { pair.devices[1].post_receive(id, piece) }.unwrap();
    }
    let fabric = Fabric::attach(&pair.file).unwrap();
    let (block, third) = (fabric.block(1).unwrap(), fabric.block(2).unwrap());
    let mut child = std::process::Command::new("true").spawn().unwrap();
    strait_platform::liveness::attach_other(&third.liveness, child.id());
    child.wait().unwrap();
    assert!(block.receives.take(&block.slots, 2, pair.links[1].0).is_some());
    let from = [pair.piece(0)];
    pair.post(0, 1, Operation::Send { from: &from }).unwrap();
    assert_eq!(pair.wait(0).result, Ok(Done::Send));
    assert_eq!(
        pair.wait(1),
        Completion { id: 7, connection: pair.links[1], result: Err(WorkError::Flushed) }
    );
    let second = pair.wait(1);
    assert_eq!((second.id, second.result), (8, Ok(Done::Receive { length: 8 })));
}

/// While one sender is stopped with a receive, messages of others arrive; its own receive completes
/// when it goes on.
#[test]
fn a_sender_that_stops_halfway_does_not_hold_others_back() {
    let mut pair = Pair::new(SoftMode::Inline);
    let piece = pair.piece(1);
    let fabric = Fabric::attach(&pair.file).unwrap();
    let (block, third) = (fabric.block(1).unwrap(), fabric.block(2).unwrap());
    attach_self(&third.liveness);
    // SAFETY: the piece is in the pair's memory, which no other code accesses.
    unsafe { pair.devices[1].post_receive(7, piece) }.unwrap();
    assert!(block.receives.take(&block.slots, 2, pair.links[1].0).is_some());
    // All other slots, and the first of them again.
    for id in 8..8 + u64::from(RECEIVES) - 1 {
        // SAFETY: the piece is in the pair's memory, which no other code accesses.
        unsafe { pair.devices[1].post_receive(id, piece) }.unwrap();
        let from = [pair.piece(0)];
        pair.post(0, id, Operation::Send { from: &from }).unwrap();
        assert_eq!((pair.wait(0).id, pair.wait(1).id), (id, id));
    }
    // SAFETY: the piece is in the pair's memory, which no other code accesses.
    let refused = unsafe { pair.devices[1].post_receive(0, piece) };
    assert_eq!(refused, Err(PostError::Full), "the slots are used in turn");
    block.slots[0].complete(strait_core::hca::fabric::ReceiveResult::Message, 8, 0);
    let late = pair.wait(1);
    assert_eq!((late.id, late.result), (7, Ok(Done::Receive { length: 8 })));
    // SAFETY: the piece is in the pair's memory, which no other code accesses.
    unsafe { pair.devices[1].post_receive(0, piece) }.unwrap();
}

/// A waiting device is woken by what comes from elsewhere, and by the work of its own thread.
#[test]
fn a_sleeper_is_woken() {
    const TURNS: u64 = 1000;
    let model = TimeModel { write: Duration::from_micros(200), ..TimeModel::NONE };
    for mode in [SoftMode::Inline, SoftMode::Engine(model)] {
        let mut pair = Pair::new(mode);
        for turn in 0..TURNS {
            let (from, piece) = ([pair.piece(0)], pair.piece(1));
            // SAFETY: the piece is in the pair's memory, which no other code accesses.
            unsafe { pair.devices[1].post_receive(turn, piece) }.unwrap();
            pair.post(0, turn, Operation::Send { from: &from }).unwrap();
            let (sent, came) = (pair.be_woken(0), pair.be_woken(1));
            assert_eq!((sent.id, sent.result), (turn, Ok(Done::Send)));
            assert_eq!((came.id, came.result), (turn, Ok(Done::Receive { length: 8 })));
        }
    }
}

/// With any bytes in the fabric, no device panics, and no device waits for ever.
#[test]
fn a_damaged_fabric_harms_no_device() {
    for seed in 0..300 {
        let mut pair = Pair::new(SoftMode::Inline);
        let mut chance = Chance(seed);
        let fabric = Fabric::attach(&pair.file).unwrap();
        // At the few entries in use, and anywhere.
        for _ in 0..40 {
            scribble(&fabric, &mut chance);
            let (from, piece, far) = ([pair.piece(0)], pair.piece(1), pair.regions[1]);
            let to = RemoteAddress { address: far.base, key: far.remote_key };
            let result = pair.piece(0);
            // SAFETY: the piece is in the pair's memory, which no other code accesses. A refusal is
            // fine.
            let _ = unsafe { pair.devices[1].post_receive(1, piece) };
            let operation = match chance.below(4) {
                0 => Operation::Write { from: &from, to },
                1 => Operation::Read { into: &from, from: to },
                2 => Operation::Send { from: &from },
                _ => Operation::FetchAndAdd { result, target: to, addend: 1 },
            };
            let _ = pair.post(0, 1, operation);
            let _ = (pair.poll(0), pair.poll(1));
        }
    }
}

/// A generator of pseudo-random numbers, the same for a seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ (word >> 27)
    }

    fn below(&mut self, limit: u64) -> usize {
        (self.next() % limit) as usize
    }
}

/// Writes a word into the second rank's block: near the start of one of its tables, or anywhere
/// behind the first lines. It leaves out the addresses in the peer, which are trusted, and the
/// locks, which any process could hold for ever.
fn scribble(fabric: &Fabric, chance: &mut Chance) {
    use strait_core::sync::AtomicU32;
    use strait_core::sync::Ordering::Relaxed;

    let block = fabric.block(1).unwrap();
    let word: *const DeviceBlock = block;
    let starts =
        [260, 264, 320, 324, 33_088, 33_092, 33_096, 65_856, 65_872, 65_876, 65_880, 65_884];
    let offset = starts[chance.below(starts.len() as u64)];
    // SAFETY: the offset is inside the block and a multiple of 4, and the block consists of atomics
    // alone.
    let word = unsafe { &*word.byte_add(offset).cast::<AtomicU32>() };
    let value = match chance.below(3) {
        0 => chance.below(5) as u32,
        1 => chance.next() as u32,
        _ => word.load(Relaxed).wrapping_add(1),
    };
    word.store(value, Relaxed);
}
