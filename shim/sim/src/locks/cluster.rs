//! Ranks, devices and lock managers in virtual time.
//!
//! A rank is a thread, but only one thread runs at a time: the one with the next turn. Therefore
//! the ranks are written like programs, and a run is the same on every machine. Devices and
//! managers are events.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use strait::{LockDesign, LockPolicy};
use strait_core::lock::{LockRequest, WordAccess};

use super::state::{Answer, AskedAccess, Asker, Costs, Lock, LockEvent, PlayedState, Word};
use crate::Wire;

/// Bytes of the stack of a rank's thread.
const STACK: usize = 256 << 10;

pub(crate) struct Cluster {
    state: Mutex<PlayedState>,
    turns: Vec<Condvar>,
}

impl Cluster {
    /// Creates ranks on these nodes.
    pub(crate) fn new(costs: Costs, design: LockDesign, nodes: Vec<u32>) -> Self {
        Self::with_policy(costs, (design, LockPolicy::Follow), nodes)
    }

    /// Creates ranks with hybrid locks that migrate by a policy.
    pub(crate) fn with_policy(
        costs: Costs,
        design: (LockDesign, LockPolicy),
        nodes: Vec<u32>,
    ) -> Self {
        let turns = nodes.iter().map(|_| Condvar::new()).collect();
        let state = PlayedState::new(costs, design, nodes);
        Self { state: Mutex::new(state), turns }
    }

    /// Runs `part` on all ranks. Returns their results and the final state.
    pub(crate) fn play<R: Send>(
        self,
        part: impl Fn(&ClusterRank<'_>) -> R + Sync,
    ) -> (Vec<R>, PlayedState) {
        let ranks = 0..self.turns.len() as u32;
        let results = std::thread::scope(|scope| {
            let start = |rank| {
                let (cluster, part) = (&self, &part);
                let part_of_rank = move || {
                    let _end = ClusterEnd(cluster);
                    let rank = ClusterRank { cluster, rank };
                    drop(rank.wait(cluster.state.lock().unwrap()));
                    let result = part(&rank);
                    let mut state = cluster.state.lock().unwrap();
                    state.hand_over();
                    cluster.tell(&state);
                    result
                };
                // A thousand ranks need little memory each.
                let thread = Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, part_of_rank).expect("a thread for each rank")
            };
            let threads: Vec<_> = ranks.map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        (results, self.state.into_inner().unwrap())
    }

    fn tell(&self, state: &PlayedState) {
        match state.turn {
            Some(rank) => self.turns[rank as usize].notify_one(),
            // Nothing is under way any more, so a rank that still waits does so for ever.
            None => self.turns.iter().for_each(Condvar::notify_all),
        }
    }
}

/// Ends all ranks when one has failed.
struct ClusterEnd<'a>(&'a Cluster);

impl Drop for ClusterEnd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.turn = None;
            self.0.tell(&state);
        }
    }
}

/// One rank, in its own thread.
pub(crate) struct ClusterRank<'a> {
    cluster: &'a Cluster,
    pub(crate) rank: u32,
}

impl ClusterRank<'_> {
    pub(crate) fn state(&self) -> MutexGuard<'_, PlayedState> {
        self.cluster.state.lock().unwrap()
    }

    pub(crate) fn costs(&self) -> Costs {
        self.state().costs
    }

    pub(crate) fn now(&self) -> u64 {
        self.state().now
    }

    /// Waits for this rank's turn.
    fn wait<'a>(&self, state: MutexGuard<'a, PlayedState>) -> MutexGuard<'a, PlayedState> {
        let own = &self.cluster.turns[self.rank as usize];
        let is_anothers =
            |state: &mut PlayedState| state.turn.is_some_and(|turn| turn != self.rank);
        let state = own.wait_while(state, is_anothers).unwrap();
        assert_eq!(state.turn, Some(self.rank), "ranks wait, and nothing is under way");
        state
    }

    fn pass<'a>(&self, mut state: MutexGuard<'a, PlayedState>) -> MutexGuard<'a, PlayedState> {
        state.hand_over();
        if state.turn != Some(self.rank) {
            self.cluster.tell(&state);
        }
        self.wait(state)
    }

    /// Advances this rank's time.
    pub(crate) fn spend(&self, time: u64) {
        let mut state = self.state();
        let due = state.now + time;
        state.at(due, LockEvent::Turn(self.rank));
        drop(self.pass(state));
    }

    /// Computes outside the library.
    pub(crate) fn compute(&self, time: u64) {
        self.state().outside[self.rank as usize] = true;
        self.spend(time);
        self.enter();
    }

    /// Computes, and stays outside the library until [`ClusterRank::enter`].
    pub(crate) fn compute_on(&self, time: u64) {
        self.state().outside[self.rank as usize] = true;
        self.spend(time);
    }

    /// Enters the library.
    pub(crate) fn enter(&self) {
        let mut state = self.state();
        state.outside[self.rank as usize] = false;
        let (now, missed) = (state.now, core::mem::take(&mut state.missed[self.rank as usize]));
        missed.into_iter().for_each(|event| state.at(now, event));
    }

    /// Puts a few bytes, and waits until they have arrived.
    pub(crate) fn put(&self, lock: Lock, word: u64) {
        if self.is_near(lock.target) {
            self.touch(lock, Word::Tag, WordAccess::Write(word));
            return;
        }
        self.post(lock, (Word::Tag, lock.target), WordAccess::Write(word), false);
        let Wire { write, acknowledge, .. } = self.costs().wire;
        self.spend(write + acknowledge);
    }

    /// Waits until another rank or a device writes a word that this rank polls.
    pub(crate) fn park(&self) {
        let mut state = self.state();
        state.parked[self.rank as usize] = true;
        drop(self.pass(state));
    }

    /// Waits until this rank's tag in its own window is `tag`, for which it polls each `interval`
    /// nanoseconds.
    pub(crate) fn wait_for_tag(&self, tag: u64, interval: u64) {
        let (lock, begin) = (Lock { window: 0, target: self.rank }, self.now());
        while self.state().look(lock, Word::Tag) != tag {
            self.park();
        }
        let waited = self.now() - begin;
        self.spend(waited.next_multiple_of(interval) - waited);
    }

    /// Ends the waits of these ranks, which poll a word that this rank has written.
    pub(crate) fn wake(&self, ranks: core::ops::Range<u32>) {
        let mut state = self.state();
        for rank in ranks {
            if core::mem::take(&mut state.parked[rank as usize]) {
                let now = state.now;
                state.at(now, LockEvent::Turn(rank));
            }
        }
    }

    /// Sends a message to a rank of the same node, which sets a word there.
    pub(crate) fn deliver(&self, lock: Lock, word: Word) {
        let message = self.costs().message;
        self.spend(message / 2);
        let mut state = self.state();
        let access = AskedAccess { lock, word, op: WordAccess::Write(1), asker: Asker::None };
        let due = state.now + message - message / 2;
        state.at(due, LockEvent::Perform(access));
    }

    /// Accesses a word with the processor.
    pub(crate) fn touch(&self, lock: Lock, word: Word, op: WordAccess) -> u64 {
        let mut state = self.state();
        let Costs { line, own_line, .. } = state.costs;
        let now = state.now;
        let there = state.line(lock, word);
        let time = if there.owner == self.rank { own_line } else { line };
        (there.owner, there.free) = (self.rank, there.free.max(now) + time);
        let due = there.free;
        state.at(due, LockEvent::Turn(self.rank));
        self.pass(state).change(lock, word, op)
    }

    /// Posts a request to the device. With `asks`, waits for its result.
    pub(crate) fn post(
        &self,
        lock: Lock,
        (word, at): (Word, u32),
        op: WordAccess,
        asks: bool,
    ) -> u64 {
        self.spend(self.costs().wire.post);
        let asker = if asks { Asker::Rank(self.rank) } else { Asker::None };
        let mut state = self.state();
        state.messages[self.rank as usize] += 1;
        state.leave(self.rank, at, AskedAccess { lock, word, op, asker });
        if !asks {
            return 0;
        }
        self.pass(state).found[self.rank as usize]
    }

    /// Sends a message to the manager, which answers it if `asks` is true.
    pub(crate) fn say(&self, lock: Lock, request: LockRequest, asks: bool) -> Option<Answer> {
        self.spend(self.costs().wire.post);
        let mut state = self.state();
        state.messages[self.rank as usize] += 1 + u64::from(asks);
        let due = state.now + state.way(self.rank, lock.target);
        state.at(due, LockEvent::Come(lock, self.rank, request));
        if !asks {
            return None;
        }
        self.pass(state).answers[self.rank as usize].take()
    }

    pub(crate) fn is_near(&self, other: u32) -> bool {
        self.state().is_near(self.rank, other)
    }
}
