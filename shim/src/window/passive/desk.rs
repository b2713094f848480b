//! The lock managers of a rank: one *desk* for each of its windows that has any.
//!
//! They are part of progress: whoever makes it for this rank, a call or a thread, takes in requests, and grants what can be granted.
//! Nothing here waits.

use std::collections::VecDeque;

use strait_core::hca::Remote;
use strait_core::layout::Corrupt;
use strait_core::lock::{
    Coding, Entry, HybridWord, LockType, Manager, Migration, MigrationStep, Mode, Op, Policy,
    Request, State, Words,
};
use strait_core::rma::LaneError;

use super::far::change_of;
use super::message::{Answer, Message, Word};
use crate::Rank;
use crate::network::{JobNetwork, LaneId};
use crate::world::ShmEngine;

/// A manager, and the answers of the managers that this member has asked.
pub(super) struct Desk {
    pub(super) number: u64,
    /// The members, this one's place, and the desks of all.
    ranks: Box<[Rank]>,
    place: u32,
    desks: Box<[u64]>,
    manager: Manager<Box<[Entry]>>,
    hybrid: Option<TwoWords>,
    answers: Box<[Option<Answer>]>,
    /// How often this manager has moved the lock to network mode.
    moved: u64,
}

/// The words of a lock of two modes, and what is under way with them.
pub(super) struct TwoWords {
    /// This member's own, which are there until the desk is closed.
    words: Words,
    /// The lane to itself, and the network word.
    lane: LaneId,
    network: Remote,
    policy: Box<dyn Policy + Send>,
    current: Option<Current>,
}

/// The request that is first in the queue.
struct Current {
    origin: u32,
    lock_type: LockType,
    migration: Migration,
    /// The request to the device that is under way.
    posted: Option<u64>,
}

impl TwoWords {
    pub(super) fn new(
        words: Words,
        (lane, network): (LaneId, Remote),
        policy: Box<dyn Policy + Send>,
    ) -> Self {
        Self { words, lane, network, policy, current: None }
    }

    fn access_cpu(&self, op: Op) -> u64 {
        self.words.at(Words::CPU).access(op)
    }

    /// Whether the member in `place` shares the lock, or is about to.
    fn is_sharer(&self, place: u32) -> bool {
        self.words.at(Words::share_offset(place)).access(Op::Read) != 0
    }

    /// Gives back what the manager held for a member. If that has died, a rank of the node may have taken it already.
    fn give_back(&self, origin: u32, lock_type: LockType) {
        self.access_cpu(match lock_type {
            LockType::Shared => Coding::Signed.release(lock_type, origin),
            LockType::Exclusive => {
                let expected = Coding::Signed.word(State::One(origin));
                Op::CompareAndSwap { expected, desired: Coding::Signed.word(State::Free) }
            }
        });
    }
}

impl Desk {
    pub(super) fn new(
        number: u64,
        ranks: &[Rank],
        place: u32,
        desks: Box<[u64]>,
        hybrid: Option<TwoWords>,
    ) -> Self {
        let entries = vec![Entry::default(); ranks.len()].into_boxed_slice();
        let answers = vec![None; ranks.len()].into_boxed_slice();
        let manager = Manager::new(entries);
        Self { number, ranks: ranks.into(), place, desks, manager, hybrid, answers, moved: 0 }
    }

    pub(super) const fn moved(&self) -> u64 {
        self.moved
    }

    /// The answer of the member in `place`, once it is here.
    pub(super) fn take_answer(&mut self, place: u32) -> Option<Answer> {
        self.answers[place as usize].take()
    }

    /// Whether nobody wants or has anything of this manager.
    pub(super) fn is_idle(&self) -> bool {
        self.manager.is_idle() && self.hybrid.as_ref().is_none_or(|words| words.current.is_none())
    }

    /// What this member says to the one in `place`.
    pub(super) fn message(&self, place: u32, word: Word) -> (Rank, Message) {
        let desk = self.desks[place as usize];
        (self.ranks[place as usize], Message { word, desk, place: self.place })
    }

    /// The answer to a rank that has said something impossible. `None`: it is no member.
    pub(super) fn refusal(&self, source: Rank) -> Option<(Rank, Message)> {
        let place = self.ranks.iter().position(|rank| *rank == source)?;
        Some(self.message(place as u32, Word::Answer(Answer::Corrupt)))
    }

    /// Takes in what a member says. What makes no sense is corrupt.
    pub(super) fn take_in(&mut self, source: Rank, message: Message) -> Result<(), Corrupt> {
        let Message { word, place, .. } = message;
        let corrupt = Corrupt::Lock { found: place };
        if self.ranks.get(place as usize) != Some(&source) {
            return Err(corrupt);
        }
        match word {
            Word::Answer(answer) => self.answers[place as usize] = Some(answer),
            Word::Request(request) => {
                let held = self.manager.held(place);
                self.manager.handle(place, request).map_err(|_| corrupt)?;
                if let (Request::Unlock, Some(lock_type), Some(words)) =
                    (request, held, &self.hybrid)
                {
                    words.give_back(place, lock_type);
                }
            }
        }
        Ok(())
    }

    /// A rank has died or left.
    pub(super) fn revoke(&mut self, rank: Rank) {
        let Some(place) = self.ranks.iter().position(|member| *member == rank) else { return };
        let place = place as u32;
        let held = self.manager.revoke(place);
        let Some(words) = &mut self.hybrid else { return };
        if let Some(lock_type) = held {
            words.give_back(place, lock_type);
        }
        words.current.take_if(|it| it.origin == place && !it.migration.abandon());
    }

    /// Grants what can be granted.
    pub(super) fn work(
        &mut self,
        engine: &ShmEngine,
        network: Option<&mut JobNetwork>,
        said: &mut VecDeque<(Rank, Message)>,
    ) {
        let answer = |desk: &Self, origin, answer| desk.message(origin, Word::Answer(answer));
        if self.hybrid.is_none() {
            while let Some((origin, _)) = self.manager.first() {
                self.manager.grant();
                said.push_back(answer(self, origin, Answer::Granted(Mode::Cpu)));
            }
            return;
        }
        let Some(network) = network else { return };
        while let Some((origin, came_of)) = self.work_on(engine, network) {
            match came_of {
                Some(Answer::Granted(Mode::Cpu)) => self.manager.grant(),
                Some(_) => self.manager.dismiss(),
                None => continue,
            }
            self.moved += u64::from(came_of == Some(Answer::Granted(Mode::Network)));
            said.extend(came_of.map(|came_of| answer(self, origin, came_of)));
        }
    }

    /// Works on the first request until there is an answer for its member; none for one that has died. `None`: not now.
    fn work_on(
        &mut self,
        engine: &ShmEngine,
        network: &mut JobNetwork,
    ) -> Option<(u32, Option<Answer>)> {
        let (place, size) = (self.place, self.ranks.len() as u32);
        let words = self.hybrid.as_mut()?;
        if words.current.is_none() {
            let (origin, lock_type) = self.manager.first()?;
            // The number tells this migration from all others of the lock.
            let moves = words.policy.migrates(Mode::Cpu).then_some(self.moved + 1);
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
                        // A lane to oneself breaks when the window has ended.
                        Ok(None) | Err(_) => {
                            words.current = Some(current);
                            return None;
                        }
                    }
                }
                MigrationStep::Blocked(State::One(holder))
                    if engine.gone(self.ranks[holder as usize]).is_some() =>
                {
                    current.migration.inherit();
                    continue;
                }
                MigrationStep::Blocked(State::Sharers(_))
                    if (0..).zip(&self.ranks).any(|(place, rank)| {
                        engine.gone(*rank).is_some() && words.is_sharer(place)
                    }) =>
                {
                    Answer::Denied
                }
                MigrationStep::Blocked(state) => {
                    watch_over_holders(network, words, &self.ranks, state);
                    current.migration.again();
                    words.current = Some(current);
                    return None;
                }
                MigrationStep::Granted(mode) => Answer::Granted(mode),
                MigrationStep::Elsewhere => Answer::Elsewhere,
                MigrationStep::Corrupt(_) => Answer::Corrupt,
            };
            let Current { origin, lock_type, migration, .. } = current;
            if !migration.is_abandoned() {
                return Some((origin, Some(answer)));
            }
            self.moved += u64::from(answer == Answer::Granted(Mode::Network));
            if answer == Answer::Granted(Mode::Network) && lock_type == LockType::Shared {
                // Who has it alone is taken from by who wants it next; sharers have no name.
                let op = Coding::Ranks { size }.release(lock_type, origin);
                let _ = ask(network, words, &mut None, op);
            }
            return Some((origin, None));
        }
    }
}

/// Makes sure that this rank learns of the deaths of those that hold the lock: devices may have given it to them.
fn watch_over_holders(network: &mut JobNetwork, words: &TwoWords, ranks: &[Rank], state: State) {
    for (place, rank) in (0..).zip(ranks) {
        let holds = match state {
            State::One(holder) => holder == place,
            State::Sharers(_) => words.is_sharer(place),
            _ => false,
        };
        if holds {
            network.watch_over(*rank);
        }
    }
}

/// Has the device access the network word. `None`: it is not done yet. Aside, for a call on the same lane may be in progress, whose
/// slots are not to be taken.
fn ask(
    network: &mut JobNetwork,
    words: &TwoWords,
    posted: &mut Option<u64>,
    op: Op,
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
