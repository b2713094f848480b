//! The lock of two modes, with a device beside the processors, and the data under it.

use strait_core::lock::{
    Coding, Follow, Hybrid, HybridStep, HybridWord, LockMode, LockState, LockType, LockWord,
    Migration, MigrationStep, Policy, WordAccess,
};
use strait_core::sync::UnsafeCell;

use crate::thread;

use LockType::{Exclusive, Shared};

/// The data under a lock: a shared holder reads, an exclusive holder adds.
#[derive(Debug)]
pub struct Guarded(UnsafeCell<u32>);

// SAFETY: the models check the exclusion; loom sees each access.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Creates data that no member has reached.
    #[must_use]
    pub fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    /// Reads or adds, as a holder of the lock may.
    pub fn reach(&self, lock_type: LockType) {
        match lock_type {
            // SAFETY: the caller holds the lock.
            Exclusive => self.0.with_mut(|number| unsafe { *number += 1 }),
            Shared => {
                // SAFETY: the caller holds the lock.
                self.0.with(|number| core::hint::black_box(unsafe { *number }));
            }
        }
    }

    /// Returns the number of exclusive holders so far.
    ///
    /// # Safety
    ///
    /// All other threads have been joined.
    #[must_use]
    pub unsafe fn number(&self) -> u32 {
        // SAFETY: no other thread is left (contract of `number`).
        self.0.with(|number| unsafe { *number })
    }
}

impl Default for Guarded {
    fn default() -> Self {
        Self::new()
    }
}

/// A device. Each of its atomics is a load and a store. Its atomics exclude each other, but not
/// those of processors.
#[derive(Debug)]
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
#[derive(Debug)]
pub struct TwoModes {
    cpu: LockWord,
    network: LockWord,
    device: Device,
    /// The fault to inject: processors access the network word, too.
    pub mixed: bool,
    guarded: Guarded,
}

const SIZE: u32 = 3;
const NETWORK: Coding = Coding::Ranks { size: SIZE };

impl TwoModes {
    /// Creates a free lock in this mode.
    #[must_use]
    pub fn new(mode: LockMode) -> Self {
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

    fn reach(&self, place: u32, mode: LockMode, lock_type: LockType) {
        self.guarded.reach(lock_type);
        match mode {
            LockMode::Cpu => {
                self.access(HybridWord::Cpu, Coding::Signed.release(lock_type, place), place)
            }
            LockMode::Network => {
                self.access(HybridWord::Network, NETWORK.release(lock_type, place), place)
            }
        };
    }

    /// Tries to get the lock alone, with the policy of the paper.
    pub fn want(&self, place: u32, on_node: bool) -> Option<HybridStep> {
        self.want_by(&mut Follow, Exclusive, place, on_node)
    }

    /// Tries to get the lock within a few polls. Returns how that ended: with the lock, with a
    /// request that it has to send, or without either.
    pub fn want_by(
        &self,
        policy: &mut dyn Policy,
        lock_type: LockType,
        place: u32,
        on_node: bool,
    ) -> Option<HybridStep> {
        let mut hybrid = Hybrid::new(lock_type, place, SIZE, on_node);
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
                    self.reach(place, mode, lock_type);
                    return Some(HybridStep::Taken(mode));
                }
                HybridStep::Ask => return Some(HybridStep::Ask),
                HybridStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    /// Lets the lock manager move the lock to place 2, which then gets it. Returns false if it
    /// found no moment for that.
    pub fn migrate(&self, time: u64) -> bool {
        matches!(self.try_to_migrate(Exclusive, time), MigrationStep::Granted(_))
    }

    /// Lets the lock manager move the lock to place 2. Returns the step at which it stopped.
    pub fn try_to_migrate(&self, lock_type: LockType, time: u64) -> MigrationStep {
        let mut migration = Migration::new(2, lock_type, 0, SIZE, Some(time));
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
                    self.reach(2, LockMode::Network, lock_type);
                    return migration.step();
                }
                MigrationStep::Granted(LockMode::Cpu) => panic!("the lock did not move"),
                MigrationStep::Elsewhere => return migration.step(),
                MigrationStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            }
        }
    }

    /// Moves the lock to CPU mode as place 0, which dies before it takes the CPU word.
    pub fn move_and_die(&self) {
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
    pub fn judge(&self, times: u32) {
        // SAFETY: the other threads have been joined.
        assert_eq!(unsafe { self.guarded.number() }, times);
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

/// Returns 1 if a member got the lock.
#[must_use]
pub const fn had(step: Option<HybridStep>) -> u32 {
    matches!(step, Some(HybridStep::Taken(_))) as u32
}
