//! Locks of windows with words that other processes write at random. Every step must name a word
//! that exists. A member may wait only for a state that other members can bring about, and no step
//! may loop.

use arbitrary::{Result, Unstructured};
use strait_core::lock::{
    Attempt, AttemptOutcome, Coding, Follow, Hybrid, HybridStep, HybridWord, LockManager,
    LockMember, LockRequest, LockState, LockType, LockWord, Mcs, McsRelease, McsStep, McsWord,
    Migration, MigrationStep, WordAccess,
};

const MEMBERS: u32 = 4;

/// Number of consecutive accesses after which a member counts as looping. A member that closes a
/// queue marks each flag.
const ACCESSES: usize = 64;

/// The words of one target, and those of its members' queue places.
struct Target {
    cpu: LockWord,
    network: LockWord,
    queue: LockWord,
    sharers: LockWord,
    flags: [LockWord; MEMBERS as usize],
    nexts: [LockWord; MEMBERS as usize],
}

/// A member that acquires or releases the lock.
enum Machine {
    Word(Attempt),
    Hybrid(Hybrid),
    Migration(Migration),
    Queue(Mcs, u32),
    Leaving(McsRelease),
}

/// Outcome of a run of steps.
#[derive(Eq, PartialEq)]
enum Progress {
    Waits,
    Over,
}

/// Runs members that take locks, and a lock manager that serves them, while words and requests are
/// damaged.
pub fn locks(input: &[u8]) {
    let mut input = Unstructured::new(input);
    play(&mut input).expect("there are bytes without end");
    manage(&mut input).expect("there are bytes without end");
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let words = || core::array::from_fn(|_| LockWord::new(0));
    let target = Target {
        cpu: LockWord::new(0),
        network: LockWord::new(u64::from(MEMBERS) + 1),
        queue: LockWord::new(0),
        sharers: LockWord::new(0),
        flags: words(),
        nexts: words(),
    };
    let mut machines = Vec::new();
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        match input.int_in_range(0..=3)? {
            0 => machines.push(machine(input)?),
            1 => target.destroy(input)?,
            _ if machines.is_empty() => {}
            _ => {
                let at = input.choose_index(machines.len())?;
                let lost = *input.choose(&[None, Some(false), Some(true)])?;
                if target.run(&mut machines[at], lost) == Progress::Over {
                    machines.swap_remove(at);
                }
            }
        }
    }
    Ok(())
}

fn lock_type(input: &mut Unstructured<'_>) -> Result<LockType> {
    Ok(if input.arbitrary()? { LockType::Shared } else { LockType::Exclusive })
}

fn machine(input: &mut Unstructured<'_>) -> Result<Machine> {
    let place = input.int_in_range(0..=MEMBERS - 1)?;
    let (lock_type, native_swap) = (lock_type(input)?, input.arbitrary()?);
    Ok(match input.int_in_range(0..=4)? {
        0 => Machine::Word(Attempt::new(Coding::Signed, lock_type, place, MEMBERS)),
        1 => Machine::Hybrid(Hybrid::new(lock_type, place, MEMBERS, native_swap)),
        2 => {
            let moves = input.arbitrary()?;
            Machine::Migration(Migration::new(place, lock_type, 0, MEMBERS, moves))
        }
        3 => Machine::Queue(Mcs::new(lock_type, place, MEMBERS, native_swap), place),
        _ => {
            let queued = input.arbitrary()?;
            Machine::Leaving(McsRelease::new(lock_type, place, MEMBERS, native_swap, queued))
        }
    })
}

impl Target {
    fn queue_word(&self, word: McsWord) -> &LockWord {
        match word {
            McsWord::Lock => &self.queue,
            McsWord::Holders => &self.sharers,
            McsWord::Flag(place) => &self.flags[place as usize],
            McsWord::Next(place) => &self.nexts[place as usize],
        }
    }

    fn hybrid_word(&self, word: HybridWord) -> &LockWord {
        match word {
            HybridWord::Cpu => &self.cpu,
            HybridWord::Network => &self.network,
        }
    }

    fn destroy(&self, input: &mut Unstructured<'_>) -> Result<()> {
        let place = input.int_in_range(0..=MEMBERS - 1)?;
        let word = match input.int_in_range(0..=5)? {
            0 => &self.cpu,
            1 => &self.network,
            2 => self.queue_word(McsWord::Lock),
            3 => self.queue_word(McsWord::Holders),
            4 => self.queue_word(McsWord::Flag(place)),
            _ => self.queue_word(McsWord::Next(place)),
        };
        let value = match input.int_in_range(0..=3)? {
            0 => input.arbitrary()?,
            1 => input.int_in_range(0..=2 * u64::from(MEMBERS))?,
            2 => u64::MAX - input.int_in_range(0..=2 * u64::from(MEMBERS))?,
            _ => word.access(WordAccess::Read).rotate_left(input.int_in_range(0..=63)?),
        };
        word.preset(value);
        Ok(())
    }

    /// Continues after a wait, until the next one. `lost`: whether a member has died, and whether
    /// it is the one waited for.
    fn run(&self, machine: &mut Machine, lost: Option<bool>) -> Progress {
        match machine {
            Machine::Hybrid(hybrid) if lost == Some(true) => hybrid.inherit(),
            Machine::Hybrid(hybrid) => hybrid.again(),
            Machine::Migration(migration) if lost == Some(true) => migration.inherit(),
            Machine::Migration(migration) => migration.again(),
            Machine::Queue(mcs, _) => match mcs.step() {
                McsStep::Held(state)
                    if lost == Some(true) && !matches!(state, LockState::Sharers(_)) =>
                {
                    mcs.take_over(state);
                }
                _ => mcs.again(lost),
            },
            Machine::Leaving(release) => release.again(lost.is_some()),
            Machine::Word(_) => {}
        }
        for _ in 0..ACCESSES {
            if let Some(progress) = self.step(machine, lost == Some(true)) {
                return progress;
            }
        }
        panic!("a member loops");
    }

    /// Makes one access. Returns `Some` if the member waits now, or is done.
    fn step(&self, machine: &mut Machine, gone: bool) -> Option<Progress> {
        let is_gone = |place: u32| {
            assert!(place < MEMBERS, "only members die");
            gone
        };
        match machine {
            Machine::Word(attempt) => match attempt.handle(self.cpu.access(attempt.op())) {
                AttemptOutcome::Again => return None,
                AttemptOutcome::Held(state) => {
                    assert!(can_end(state) && !matches!(state, LockState::Elsewhere(_)));
                    return Some(Progress::Waits);
                }
                AttemptOutcome::Taken | AttemptOutcome::Corrupt(_) => {}
            },
            Machine::Hybrid(hybrid) => match hybrid.step() {
                HybridStep::Access(word, op) => {
                    hybrid.handle(self.hybrid_word(word).access(op), &mut Follow);
                    return None;
                }
                HybridStep::Wait(state) => {
                    assert!(can_end(state));
                    return Some(Progress::Waits);
                }
                HybridStep::Ask | HybridStep::Taken(_) | HybridStep::Corrupt(_) => {}
            },
            Machine::Migration(migration) => match migration.step() {
                MigrationStep::Access(word, op) => {
                    migration.handle(self.hybrid_word(word).access(op));
                    return None;
                }
                MigrationStep::Blocked(state) => {
                    assert!(can_end(state));
                    return Some(Progress::Waits);
                }
                MigrationStep::Granted(_)
                | MigrationStep::Elsewhere
                | MigrationStep::Corrupt(_) => {}
            },
            Machine::Queue(mcs, place) => match mcs.step() {
                McsStep::Access(word, op) => {
                    mcs.handle(self.queue_word(word).access(op), is_gone);
                    return None;
                }
                McsStep::Wait(before) => {
                    assert!(before.is_none_or(|before| before < MEMBERS && before != *place));
                    return Some(Progress::Waits);
                }
                McsStep::Held(state) => {
                    assert!(can_end(state) && !matches!(state, LockState::Elsewhere(_)));
                    return Some(Progress::Waits);
                }
                McsStep::Done | McsStep::Corrupt(_) => {}
            },
            Machine::Leaving(release) => match release.step() {
                McsStep::Access(word, op) => {
                    release.handle(self.queue_word(word).access(op), is_gone);
                    return None;
                }
                McsStep::Wait(_) => return Some(Progress::Waits),
                McsStep::Held(_) | McsStep::Done | McsStep::Corrupt(_) => {}
            },
        }
        Some(Progress::Over)
    }
}

/// Returns whether members can bring the state about, and end it.
const fn can_end(state: LockState) -> bool {
    match state {
        LockState::Free | LockState::Elsewhere(_) => true,
        LockState::One(place) => place < MEMBERS,
        LockState::Sharers(count) => count < MEMBERS,
    }
}

/// Sends a lock manager arbitrary requests. It must grant the lock to one member, or to members
/// that share it.
fn manage(input: &mut Unstructured<'_>) -> Result<()> {
    let mut manager = LockManager::new([LockMember::default(); MEMBERS as usize]);
    for _ in 0..100 {
        if input.is_empty() {
            break;
        }
        let origin = input.int_in_range(0..=MEMBERS)?;
        match input.int_in_range(0..=5)? {
            0 | 1 => drop(manager.handle(origin, LockRequest::Lock(lock_type(input)?))),
            2 => drop(manager.handle(origin, LockRequest::Unlock)),
            3 => drop(manager.revoke(origin)),
            4 => drop(manager.handle(origin, LockRequest::ShareAhead)),
            _ => manager.dismiss(origin),
        }
        while let Some((first, lock_type)) = manager.first() {
            manager.grant(first);
            assert_eq!(manager.held(first), Some(lock_type));
        }
        let held: Vec<_> = (0..MEMBERS).filter_map(|place| manager.held(place)).collect();
        let alone = held.contains(&LockType::Exclusive);
        assert!(!alone || held.len() == 1, "{held:?}");
    }
    Ok(())
}
