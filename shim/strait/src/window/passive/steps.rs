//! The pursuit of a lock: the state of a member's steps to get it.

use strait_core::lock::{
    Attempt, Hybrid, HybridStep, HybridWord, LockMode, LockRequest, LockState, LockType, Mcs,
    McsStep, McsWord, WordAccess,
};

use super::standing::LockStanding;

/// The pursuit of a target's lock by this member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pursuit {
    pub(super) lock_type: LockType,
    /// The request to the target's manager.
    pub(super) request: LockRequest,
    pub(super) chase: Chase,
    /// The request to the device in progress.
    pub(super) posted: Option<u64>,
    /// True when the target's manager has been asked.
    pub(super) asked: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Chase {
    Managed,
    Word(Attempt, LockMode),
    Hybrid(Hybrid),
    Queue(Mcs),
}

/// The next step of a pursuit.
pub(super) enum NextStep {
    Access(LockWordKind, WordAccess),
    Ask,
    Pause(Blame),
    Taken(LockStanding),
    Corrupt(u64),
}

/// The word to access.
#[derive(Clone, Copy)]
pub(super) enum LockWordKind {
    Cpu,
    Network,
    Queue(McsWord),
}

/// The reason for which a member waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blame {
    /// The holder that a word names.
    Word(LockState),
    /// The member before it in the queue; `None`: sharers, or the member behind it.
    Queue(Option<u32>),
}

impl Pursuit {
    pub(super) fn next(&self) -> NextStep {
        let lock_type = self.lock_type;
        match &self.chase {
            Chase::Managed => NextStep::Ask,
            Chase::Word(attempt, LockMode::Cpu) => {
                NextStep::Access(LockWordKind::Cpu, attempt.op())
            }
            Chase::Word(attempt, LockMode::Network) => {
                NextStep::Access(LockWordKind::Network, attempt.op())
            }
            Chase::Hybrid(hybrid) => match hybrid.step() {
                HybridStep::Access(HybridWord::Cpu, op) => NextStep::Access(LockWordKind::Cpu, op),
                HybridStep::Access(HybridWord::Network, op) => {
                    NextStep::Access(LockWordKind::Network, op)
                }
                HybridStep::Ask => NextStep::Ask,
                HybridStep::Wait(state) => NextStep::Pause(Blame::Word(state)),
                HybridStep::Taken(LockMode::Cpu) => NextStep::Taken(LockStanding::cpu(lock_type)),
                HybridStep::Taken(LockMode::Network) => {
                    NextStep::Taken(LockStanding::Network(lock_type))
                }
                HybridStep::Corrupt(found) => NextStep::Corrupt(found),
            },
            Chase::Queue(mcs) => match mcs.step() {
                McsStep::Access(word, op) => NextStep::Access(LockWordKind::Queue(word), op),
                McsStep::Wait(before) => NextStep::Pause(Blame::Queue(before)),
                McsStep::Held(state) => NextStep::Pause(Blame::Word(state)),
                McsStep::Done => NextStep::Taken(LockStanding::Queue(lock_type, mcs.is_queued())),
                McsStep::Corrupt(found) => NextStep::Corrupt(found),
            },
        }
    }
}
