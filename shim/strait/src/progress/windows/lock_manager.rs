//! The lock managers of a rank: one *lock manager* for each window with locks that need it.
//!
//! They are part of progress. The call or thread that makes progress for this rank takes in
//! requests and grants locks. Nothing here waits.

use std::collections::VecDeque;

use strait_core::hca::RemoteAddress;
use strait_core::layout::Corrupt;
use strait_core::lock::{
    Coding, HybridWord, LockManager, LockMember, LockMode, LockRequest, LockState, LockType,
    LockWords, Migration, MigrationStep, Policy, WordAccess,
};
use strait_core::rma::{AtomicOp, LaneError};
use strait_platform::Rank;

use super::lock_message::{LockMessage, LockPayload, LockReply};
use crate::memory::ShmEngine;
use crate::network::LaneId;
use crate::network::resources::JobNetwork;

/// A lock manager, and the answers of the managers that this member has asked.
pub(crate) struct WindowLockManager {
    pub(crate) number: u64,
    /// The members, this member's place, and the numbers of all members' lock managers.
    ranks: Box<[Rank]>,
    place: u32,
    managers: Box<[u64]>,
    manager: LockManager<Box<[LockMember]>>,
    hybrid: Option<TwoWords>,
    /// Words of this member that name the holders, for members that wait and for observers. They
    /// exist until the lock manager is closed. `None` for a hybrid lock, which needs none.
    shown: Option<LockWords>,
    answers: Box<[Option<LockReply>]>,
    /// Number of times that this manager has moved the lock to network mode.
    moved: u64,
}

/// The two words of a hybrid lock, and the migration in progress.
pub(crate) struct TwoWords {
    /// The words of this member, which exist until the lock manager is closed.
    words: LockWords,
    /// The lane of this rank to itself, and the address of the network word.
    lane: LaneId,
    network: RemoteAddress,
    policy: Box<dyn Policy + Send>,
    current: Option<Current>,
}

/// The first request in the queue.
struct Current {
    origin: u32,
    lock_type: LockType,
    migration: Migration,
    /// The request to the device in progress.
    posted: Option<u64>,
}

impl TwoWords {
    pub(crate) fn new(
        words: LockWords,
        (lane, network): (LaneId, RemoteAddress),
        policy: Box<dyn Policy + Send>,
    ) -> Self {
        Self { words, lane, network, policy, current: None }
    }

    fn access_cpu(&self, op: WordAccess) -> u64 {
        self.words.at(LockWords::CPU).access(op)
    }

    /// Returns whether the member in `place` shares the lock, or is about to.
    fn is_sharer(&self, place: u32) -> bool {
        self.words.at(LockWords::share_offset(place)).access(WordAccess::Read) != 0
    }

    /// Releases the lock that the manager held for a member. If the member has died, a rank of the
    /// node may have taken the lock already.
    fn give_back(&self, origin: u32, lock_type: LockType) {
        self.access_cpu(match lock_type {
            LockType::Shared => Coding::Signed.release(lock_type, origin),
            LockType::Exclusive => {
                let expected = Coding::Signed.word(LockState::One(origin));
                WordAccess::CompareAndSwap {
                    expected,
                    desired: Coding::Signed.word(LockState::Free),
                }
            }
        });
    }
}

impl WindowLockManager {
    pub(crate) fn new(
        number: u64,
        ranks: &[Rank],
        place: u32,
        lock_managers: Box<[u64]>,
        hybrid: Option<TwoWords>,
        shown: Option<LockWords>,
    ) -> Self {
        let entries = vec![LockMember::default(); ranks.len()].into_boxed_slice();
        let answers = vec![None; ranks.len()].into_boxed_slice();
        let manager = LockManager::new(entries);
        Self {
            number,
            ranks: ranks.into(),
            place,
            managers: lock_managers,
            manager,
            hybrid,
            shown,
            answers,
            moved: 0,
        }
    }

    pub(crate) const fn moved(&self) -> u64 {
        self.moved
    }

    /// Takes the answer of the member in `place`, if it has arrived.
    pub(crate) fn take_answer(&mut self, place: u32) -> Option<LockReply> {
        self.answers[place as usize].take()
    }

    /// Returns whether no member wants or holds a lock of this manager.
    pub(crate) fn is_idle(&self) -> bool {
        self.manager.is_idle() && self.hybrid.as_ref().is_none_or(|words| words.current.is_none())
    }

    /// Returns a message of this member to the one in `place`, with its destination.
    pub(crate) fn message(&self, place: u32, word: LockPayload) -> (Rank, LockMessage) {
        let lock_manager = self.managers[place as usize];
        (self.ranks[place as usize], LockMessage { word, manager: lock_manager, place: self.place })
    }

    /// Returns the answer to a rank that has sent an impossible message. `None`: the rank is no
    /// member.
    pub(crate) fn refusal(&self, source: Rank) -> Option<(Rank, LockMessage)> {
        let place = self.ranks.iter().position(|rank| *rank == source)?;
        Some(self.message(place as u32, LockPayload::Answer(LockReply::Corrupt)))
    }

    /// Takes in a message of a member. An impossible message is corrupt.
    pub(crate) fn take_in(&mut self, source: Rank, message: LockMessage) -> Result<(), Corrupt> {
        let LockMessage { word, place, .. } = message;
        let corrupt = Corrupt::Lock { found: place };
        if self.ranks.get(place as usize) != Some(&source) {
            return Err(corrupt);
        }
        match word {
            LockPayload::Answer(answer) => self.answers[place as usize] = Some(answer),
            LockPayload::Request(request) => {
                let held = self.manager.held(place);
                self.manager.handle(place, request).map_err(|_| corrupt)?;
                if let (LockRequest::Unlock, Some(lock_type)) = (request, held) {
                    self.give_back(place, lock_type);
                }
            }
        }
        Ok(())
    }

    /// Releases the lock and the requests of a rank that has died or left.
    pub(crate) fn revoke(&mut self, rank: Rank) {
        let Some(place) = self.ranks.iter().position(|member| *member == rank) else { return };
        let place = place as u32;
        if let Some(lock_type) = self.manager.revoke(place) {
            self.give_back(place, lock_type);
        }
        let Some(words) = &mut self.hybrid else { return };
        words.current.take_if(|it| it.origin == place && !it.migration.abandon());
    }

    /// Frees the words of the lock that a member had.
    fn give_back(&self, place: u32, lock_type: LockType) {
        self.show(place, lock_type, false);
        if let Some(words) = &self.hybrid {
            words.give_back(place, lock_type);
        }
    }

    /// Writes into the shown words whether a member has the lock.
    fn show(&self, place: u32, lock_type: LockType, has: bool) {
        let Some(words) = &self.shown else { return };
        let (offset, word) = match lock_type {
            LockType::Exclusive => (LockWords::CPU, Coding::Signed.word(LockState::One(place))),
            LockType::Shared => (LockWords::share_offset(place), 1),
        };
        words.at(offset).access(WordAccess::Write(if has { word } else { 0 }));
    }

    /// Grants all locks that can be granted.
    pub(crate) fn work(
        &mut self,
        engine: &ShmEngine,
        network: Option<&mut JobNetwork>,
        said: &mut VecDeque<(Rank, LockMessage)>,
    ) {
        let answer = |lock_manager: &Self, origin, answer| {
            lock_manager.message(origin, LockPayload::Answer(answer))
        };
        if self.hybrid.is_none() {
            while let Some((origin, lock_type)) = self.manager.first() {
                self.manager.grant(origin);
                self.show(origin, lock_type, true);
                said.push_back(answer(self, origin, LockReply::Granted(LockMode::Cpu)));
            }
            return;
        }
        let Some(network) = network else { return };
        while let Some((origin, came_of)) = self.work_on(engine, network) {
            match came_of {
                Some(LockReply::Granted(LockMode::Cpu)) => self.manager.grant(origin),
                Some(_) => self.manager.dismiss(origin),
                None => continue,
            }
            self.moved += u64::from(came_of == Some(LockReply::Granted(LockMode::Network)));
            said.extend(came_of.map(|came_of| answer(self, origin, came_of)));
        }
    }

    /// Works on the first request until there is an answer for its member. The inner option is
    /// `None` for a member that has died, the outer one when the work has to wait.
    ///
    /// A request that has come ahead of the current one takes its place, if the current one has
    /// taken no word yet.
    fn work_on(
        &mut self,
        engine: &ShmEngine,
        network: &mut JobNetwork,
    ) -> Option<(u32, Option<LockReply>)> {
        let (place, size) = (self.place, self.ranks.len() as u32);
        let words = self.hybrid.as_mut()?;
        let first = self.manager.first();
        let is_overtaken = |current: &mut Current| {
            first.is_some_and(|(first, _)| first != current.origin)
                && current.migration.is_at_start()
        };
        words.current.take_if(is_overtaken);
        if words.current.is_none() {
            let (origin, lock_type) = first?;
            // The number distinguishes this migration from all others of the lock.
            let moves = words.policy.migrates(LockMode::Cpu).then_some(self.moved + 1);
            let migration = Migration::new(origin, lock_type, place, size, moves);
            words.current = Some(Current { origin, lock_type, migration, posted: None });
        }
        let mut current = words.current.take()?;
        loop {
            let answer = match current.migration.step() {
                MigrationStep::Access(HybridWord::Cpu, op) => {
                    let found = words.access_cpu(op);
                    current.migration.handle(found);
                    continue;
                }
                MigrationStep::Access(HybridWord::Network, op) => {
                    match ask(network, words, &mut current.posted, op) {
                        Ok(Some(found)) => {
                            current.migration.handle(found);
                            continue;
                        }
                        // A rank's lane to itself breaks when the window has ended.
                        Ok(None) | Err(_) => {
                            words.current = Some(current);
                            return None;
                        }
                    }
                }
                MigrationStep::Blocked(LockState::One(holder))
                    if engine.gone(self.ranks[holder as usize]).is_some() =>
                {
                    current.migration.inherit();
                    continue;
                }
                MigrationStep::Blocked(LockState::Sharers(_))
                    if (0..).zip(&self.ranks).any(|(place, rank)| {
                        engine.gone(*rank).is_some() && words.is_sharer(place)
                    }) =>
                {
                    LockReply::Denied
                }
                MigrationStep::Blocked(state) => {
                    watch_over_holders(network, words, &self.ranks, state);
                    current.migration.again();
                    words.current = Some(current);
                    return None;
                }
                MigrationStep::Granted(mode) => LockReply::Granted(mode),
                MigrationStep::Elsewhere => LockReply::Elsewhere,
                MigrationStep::Corrupt(_) => LockReply::Corrupt,
            };
            let Current { origin, lock_type, migration, .. } = current;
            if !migration.is_abandoned() {
                return Some((origin, Some(answer)));
            }
            self.moved += u64::from(answer == LockReply::Granted(LockMode::Network));
            if answer == LockReply::Granted(LockMode::Network) && lock_type == LockType::Shared {
                // The next member takes an exclusive lock from a dead holder. A share must be
                // released here, since sharers have no name.
                let op = Coding::Ranks { size }.release(lock_type, origin);
                let _ = ask(network, words, &mut None, op);
            }
            return Some((origin, None));
        }
    }
}

/// Watches over the lock's holders, so that this rank learns of their deaths. Devices may have
/// given them the lock.
fn watch_over_holders(
    network: &mut JobNetwork,
    words: &TwoWords,
    ranks: &[Rank],
    state: LockState,
) {
    for (place, rank) in (0..).zip(ranks) {
        let holds = match state {
            LockState::One(holder) => holder == place,
            LockState::Sharers(_) => words.is_sharer(place),
            _ => false,
        };
        if holds {
            network.watch_over(*rank);
        }
    }
}

/// Lets the device access the network word. `None`: the access is in progress. It uses no slot,
/// because a call on the same lane may be in progress.
fn ask(
    network: &mut JobNetwork,
    words: &TwoWords,
    posted: &mut Option<u64>,
    op: WordAccess,
) -> Result<Option<u64>, LaneError> {
    let Some(change) = change_of(op) else { return Ok(None) };
    network.on_lane(words.lane, |lane, device| {
        if posted.is_none() {
            *posted = lane.change_aside(device, change, words.network)?;
        }
        let Some(number) = *posted else { return Ok(None) };
        if !lane.is_done_aside(number)? {
            return Ok(None);
        }
        *posted = None;
        Ok(Some(lane.found_aside()))
    })
}

/// Returns the atomic of the device that makes this access. A queue that a device reaches asks for
/// no swap.
pub(crate) const fn change_of(op: WordAccess) -> Option<AtomicOp> {
    match op {
        WordAccess::CompareAndSwap { expected, desired } => {
            Some(AtomicOp::Swap { expected, desired })
        }
        WordAccess::FetchAdd(number) => Some(AtomicOp::Add(number)),
        WordAccess::Swap(_) | WordAccess::Read | WordAccess::Write(_) => None,
    }
}
