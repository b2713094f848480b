//! Barriers and locks without contention.

use criterion::{BenchmarkId, Criterion};
use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, Follow, Hybrid, HybridStep, HybridWord, LockState, LockType,
    LockWord, Mcs, McsRelease, McsStep, McsWord, RevocableLock,
};
use strait_core::shm::{Barrier, BarrierAlgorithm, BarrierSlot};

/// Measures both members of a barrier as they enter and leave it ([Nemesis07] §3.4).
pub(super) fn barrier(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("barrier of two: enter, enter, leave, leave");
    for way in [BarrierAlgorithm::Word, BarrierAlgorithm::Flags, BarrierAlgorithm::Signal] {
        let slot = BarrierSlot::empty();
        let mut members = [0, 1].map(|place| Barrier::new(way, place, 2));
        group.bench_function(BenchmarkId::from_parameter(format!("{way:?}")), |bencher| {
            bencher.iter(|| {
                let entered = members.each_mut().map(|member| member.enter(&slot));
                (entered, members.each_mut().map(|member| member.is_over(&slot)))
            });
        });
    }
    group.finish();
}

/// Takes and releases each window lock on the processor's own words ([OneSided04] §4.3,
/// [HybridLock09] §4.1).
pub(super) fn lock_words(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("window lock: acquire, release");
    let word = LockWord::new(0);
    for lock_type in [LockType::Exclusive, LockType::Shared] {
        group.bench_function(
            BenchmarkId::new("test-and-set", format!("{lock_type:?}")),
            |bencher| {
                bencher.iter(|| {
                    let mut attempt = Attempt::new(Coding::Signed, lock_type, 1, 2);
                    while attempt.handle(word.access(attempt.op())) != AttemptOutcome::Taken {}
                    word.access(Coding::Signed.release(lock_type, 1))
                });
            },
        );
    }
    let queue = Queue::free();
    group.bench_function("MCS", |bencher| bencher.iter(|| queue.acquire_and_release()));
    let cpu = LockWord::new(Coding::Signed.word(LockState::Free));
    group.bench_function("hybrid, CPU mode", |bencher| {
        bencher.iter(|| {
            let mut hybrid = Hybrid::new(LockType::Exclusive, 1, 2, true);
            while let HybridStep::Access(HybridWord::Cpu, op) = hybrid.step() {
                hybrid.handle(cpu.access(op), &mut Follow);
            }
            cpu.access(Coding::Signed.release(LockType::Exclusive, 1))
        });
    });
    group.finish();
}

/// The words of an MCS queue of one rank.
struct Queue {
    lock: LockWord,
    sharers: LockWord,
    flag: LockWord,
    next: LockWord,
}

impl Queue {
    fn free() -> Self {
        let word = || LockWord::new(0);
        Self { lock: word(), sharers: word(), flag: word(), next: word() }
    }

    fn word(&self, word: McsWord) -> &LockWord {
        match word {
            McsWord::Lock => &self.lock,
            McsWord::Holders => &self.sharers,
            McsWord::Flag(_) => &self.flag,
            McsWord::Next(_) => &self.next,
        }
    }

    fn acquire_and_release(&self) {
        let mut mcs = Mcs::new(LockType::Exclusive, 0, 1, true);
        while let McsStep::Access(word, op) = mcs.step() {
            mcs.handle(self.word(word).access(op), |_| false);
        }
        let mut release = McsRelease::new(LockType::Exclusive, 0, 1, true, true);
        while let McsStep::Access(word, op) = release.step() {
            release.handle(self.word(word).access(op), |_| false);
        }
    }
}

/// Takes and releases the segment's lock that survives its holder.
pub(super) fn robust_lock(criterion: &mut Criterion) {
    let lock = RevocableLock::free();
    criterion.bench_function("lock that outlives its holder: acquire, release", |bencher| {
        bencher.iter(|| {
            let taken = lock.try_acquire(1);
            lock.release(1);
            taken
        });
    });
}
