//! The fabric: the order of events, and their effects on memory.

use core::cmp::Reverse;
use core::ptr::NonNull;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use strait_core::hca::{Access, Completion, Connection, Done, Sge, WorkError};

use super::end::{End, Standing, Step};
use super::memory::Regions;
use super::model::Model;
use super::request::{LocalBytes, MovingBytes, SimRequest, Stage, Verb};

/// Number of attempts to start a request at a peer that is not ready, before it fails.
const TRIES: u32 = 40;

/// A fabric and its ranks.
#[derive(Clone, Debug)]
pub struct SimFabric(pub(super) Arc<Mutex<State>>);

impl SimFabric {
    /// Creates a fabric of `ranks` devices on which nothing has happened yet.
    #[must_use]
    pub fn new(seed: u64, ranks: u32, model: Model) -> Self {
        Self(Arc::new(Mutex::new(State {
            model,
            rng: Rng::with_seed(seed),
            now: 0,
            serial: 0,
            events: BinaryHeap::new(),
            ranks: (0..ranks).map(|_| SimRank::default()).collect(),
        })))
    }

    /// Lets the next event happen. Returns false if nothing is under way.
    #[must_use]
    pub fn advance(&self) -> bool {
        lock(&self.0).advance()
    }

    /// Lets the next event happen, and returns the ranks at the ends of its connection.
    pub(super) fn advance_between(&self) -> Option<[u32; 2]> {
        let mut state = lock(&self.0);
        let Reverse(FabricEvent { rank, end, .. }) = *state.events.peek()?;
        let peer = state.rank(rank).ends[end as usize].peer;
        state.advance().then_some([rank, peer])
    }

    /// Returns the time of the next event.
    pub(super) fn next_due(&self) -> Option<u64> {
        lock(&self.0).next()
    }

    /// Returns the time of the processor of `rank`.
    pub(super) fn clock(&self, rank: u32) -> u64 {
        lock(&self.0).rank(rank).clock
    }

    /// Sets the processor of `rank` to `due`, unless it is later already. Returns its time.
    pub(super) fn wait_until(&self, rank: u32, due: u64) -> u64 {
        let mut state = lock(&self.0);
        let clock = &mut state.rank_mut(rank).clock;
        *clock = (*clock).max(due);
        *clock
    }

    /// Lets the processor of `rank` compute for this many nanoseconds.
    pub(super) fn compute(&self, rank: u32, time: u64) {
        lock(&self.0).rank_mut(rank).clock += time;
    }

    /// Fails the request that starts next on this connection of `rank`.
    pub fn fail(&self, rank: u32, connection: Connection, error: WorkError) {
        if let Some(end) = lock(&self.0).end_mut(rank, connection.0) {
            end.fault = Some(error);
        }
    }

    /// Ends `rank`: its device does nothing any more, and no request reaches it.
    pub fn kill(&self, rank: u32) {
        let mut state = lock(&self.0);
        let rank = state.rank_mut(rank);
        rank.dead = true;
        rank.ends.iter_mut().for_each(|end| end.queue.clear());
    }

    /// Revokes the region with this local key of `rank` without its knowledge.
    pub fn revoke(&self, rank: u32, local_key: u32) {
        lock(&self.0).rank_mut(rank).regions.remove(local_key);
    }
}

// SAFETY: the pointers are to memory that the ranks lent (contract of `Hca::register`). The fabric
// accesses it only under its lock. The ranks order their own accesses, on any number of threads.
unsafe impl Send for State {}

/// Locks the state. A failed assertion leaves it useless to other ranks, but harmless.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) model: Model,
    pub(super) rng: Rng,
    pub(super) now: u64,
    serial: u64,
    events: BinaryHeap<Reverse<FabricEvent>>,
    pub(super) ranks: Vec<SimRank>,
}

/// One device.
#[derive(Debug, Default)]
pub(super) struct SimRank {
    pub(super) regions: Regions,
    pub(super) ends: Vec<End>,
    pub(super) receives: VecDeque<(u64, Sge)>,
    pub(super) completions: VecDeque<ReportedEnd>,
    pub(super) armed: bool,
    pub(super) event: bool,
    pub(super) dead: bool,
    /// The time of its processor. Used with a [`Wire`](super::Wire) only, like the times below.
    pub(super) clock: u64,
    /// The times at which its outgoing link, its incoming link and its memory bus are free.
    pub(super) link_free: u64,
    pub(super) inbound_free: u64,
    pub(super) bus_free: u64,
}

/// A completion, and the request up to which it frees the queue.
#[derive(Debug)]
pub(super) struct ReportedEnd {
    pub(super) completion: Completion,
    pub(super) frees: u64,
}

/// Ordered by time, then by lot.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct FabricEvent {
    due: u64,
    lot: u32,
    serial: u64,
    rank: u32,
    end: u32,
    retires: bool,
}

/// A connection from the side that posts.
#[derive(Clone, Copy, Debug)]
struct Way {
    rank: u32,
    end: u32,
    peer: u32,
    peer_end: u32,
}

impl State {
    pub(super) fn rank(&self, rank: u32) -> &SimRank {
        &self.ranks[rank as usize]
    }

    pub(super) fn rank_mut(&mut self, rank: u32) -> &mut SimRank {
        &mut self.ranks[rank as usize]
    }

    pub(super) fn end_mut(&mut self, rank: u32, end: u32) -> Option<&mut End> {
        self.rank_mut(rank).ends.get_mut(end as usize)
    }

    /// Schedules the next step of the end, not before the given time, unless one is scheduled.
    pub(super) fn schedule_step(&mut self, rank: u32, end: u32, not_before: u64) {
        let delay = self.rng.u64(self.model.step.clone());
        let due = (self.now + delay).max(not_before);
        let at = &mut self.ranks[rank as usize].ends[end as usize];
        if at.stepping.is_none_or(|planned| due < planned) {
            at.stepping = Some(due);
            self.schedule(due, rank, end, false);
        }
    }

    fn schedule(&mut self, due: u64, rank: u32, end: u32, retires: bool) {
        self.serial += 1;
        let (lot, serial) = (self.rng.u32(..), self.serial);
        self.events.push(Reverse(FabricEvent { due, lot, serial, rank, end, retires }));
    }

    /// Returns the time of the next event.
    pub(super) fn next(&self) -> Option<u64> {
        self.events.peek().map(|Reverse(event)| event.due)
    }

    pub(super) fn advance(&mut self) -> bool {
        let Some(Reverse(event)) = self.events.pop() else { return false };
        self.now = event.due;
        if event.retires {
            self.retire(event.rank, event.end);
        } else {
            self.step(event.rank, event.end);
        }
        true
    }

    fn step(&mut self, rank: u32, end: u32) {
        let reads = self.model.capabilities.reads;
        let at = &mut self.ranks[rank as usize].ends[end as usize];
        if at.stepping != Some(self.now) {
            return;
        }
        at.stepping = None;
        let Standing::Connected(peer_end) = at.state else { return };
        if self.ranks[rank as usize].dead {
            return;
        }
        let at = &mut self.ranks[rank as usize].ends[end as usize];
        let way = Way { rank, end, peer: at.peer, peer_end };
        let mut steps = at.steps(reads);
        let Some(first) = steps.iter().map(|(due, _)| *due).min() else { return };
        steps.retain(|(due, _)| *due <= self.now);
        if let Some((_, step)) = self.rng.choice(&steps) {
            let (Step::Start(place) | Step::Carry(place)) = *step;
            let mut request = at.queue.remove(place).unwrap();
            let stage = match step {
                Step::Start(_) => self.start(way, &request),
                Step::Carry(_) => self.carry(way, &mut request),
            };
            request.stage = stage.unwrap_or_else(Stage::Failed);
            let leaves = matches!(step, Step::Start(_)) && !self.model.capabilities.acknowledged;
            if leaves || matches!(request.stage, Stage::Landed(_) | Stage::Failed(_)) {
                let delay = self.rng.u64(self.model.report.clone());
                self.schedule(self.now + delay, rank, end, true);
            }
            self.ranks[rank as usize].ends[end as usize].queue.insert(place, request);
        }
        self.schedule_step(rank, end, first);
    }

    /// Starts a request: finds its places, or its error.
    fn start(&mut self, way: Way, request: &SimRequest) -> Result<Stage, WorkError> {
        let Way { rank, end, peer, peer_end } = way;
        if let Some(error) = self.ranks[rank as usize].ends[end as usize].fault.take() {
            return Err(error);
        }
        let takes_receive =
            matches!(request.verb, Verb::Send | Verb::Write { immediate: Some(_), .. });
        match self.rank(peer).ends[peer_end as usize].state {
            _ if self.rank(peer).dead => return Err(WorkError::Unreachable),
            Standing::Broken | Standing::Closed => return Err(WorkError::Unreachable),
            Standing::Open => return self.try_again(rank, end, WorkError::Unreachable),
            Standing::Connected(_) if takes_receive && self.rank(peer).receives.is_empty() => {
                return self.try_again(rank, end, WorkError::NotReady);
            }
            Standing::Connected(_) => {}
        }
        let mut remote = self.places(rank, peer, request)?;
        let mut receive = None;
        if takes_receive {
            let (id, piece) = self.rank_mut(peer).receives.pop_front().unwrap();
            receive = Some(id);
            if matches!(request.verb, Verb::Send) {
                let refused = if !self.rank(peer).regions.allows(&piece, true) {
                    Some((WorkError::RemoteAccess, WorkError::LocalAccess))
                } else if request.length() > piece.length as usize {
                    Some((WorkError::Length, WorkError::Length))
                } else {
                    None
                };
                if let Some((ours, theirs)) = refused {
                    let (connection, result) = (Connection(peer_end), Err(theirs));
                    self.report(peer, 0, Completion { id, connection, result });
                    return Err(ours);
                }
                remote = piece.base;
            }
        }
        self.ranks[rank as usize].ends[end as usize].tries = 0;
        let ready = if request.is_write() {
            self.now
        } else {
            self.come_back(peer, rank, request) + self.rng.u64(self.model.read.clone())
        };
        Ok(Stage::Moving(MovingBytes {
            remote,
            runs: self.cut(remote.addr().get(), request.length()),
            moved: vec![0; request.length()],
            not_before: ready,
            receive,
        }))
    }

    fn try_again(&mut self, rank: u32, end: u32, error: WorkError) -> Result<Stage, WorkError> {
        let at = &mut self.ranks[rank as usize].ends[end as usize];
        at.tries += 1;
        if at.tries < TRIES { Ok(Stage::Posted) } else { Err(error) }
    }

    /// Returns the peer's side of a request, if keys and bounds are right on both sides.
    fn places(&self, rank: u32, peer: u32, request: &SimRequest) -> Result<NonNull<u8>, WorkError> {
        if let LocalBytes::Pieces(pieces) = &request.local {
            let regions = &self.rank(rank).regions;
            if !pieces.iter().all(|piece| regions.allows(piece, !request.is_write())) {
                return Err(WorkError::LocalAccess);
            }
        }
        let length = request.length() as u64;
        let atomic = |access: &Access| access.remote_atomic;
        let regions = &self.rank(peer).regions;
        let place = match request.verb {
            Verb::Send => return Ok(NonNull::dangling()),
            Verb::Write { to, .. } => regions.place(to, length, |access| access.remote_write),
            Verb::Read { from } => regions.place(from, length, |access| access.remote_read),
            Verb::CompareAndSwap { target, .. } | Verb::FetchAndAdd { target, .. } => regions
                .place(target, length, atomic)
                .filter(|_| length == 8 && target.address.is_multiple_of(8)),
        };
        place.ok_or(WorkError::RemoteAccess)
    }

    /// Cuts `length` bytes at `address` into runs of whole words, in the order in which they move.
    fn cut(&mut self, address: usize, length: usize) -> Vec<(usize, usize)> {
        let first = address.next_multiple_of(8) - address;
        let words = length.saturating_sub(first) / 8;
        let last = first + words.saturating_sub(1) * 8;
        let mut cuts: Vec<usize> = (0..self.rng.usize(..6))
            .map(|_| first + 8 * self.rng.usize(..=words))
            .chain([0, last, length])
            .filter(|cut| *cut <= length)
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut runs: Vec<_> = cuts.windows(2).map(|cut| (cut[0], cut[1] - cut[0])).collect();
        let ends_in_word = words > 0 && last + 8 == length;
        let ordered = self.model.capabilities.ordered_bytes && self.model.faithful;
        let promised = usize::from(ordered && ends_in_word);
        let free = runs.len().saturating_sub(promised);
        self.rng.shuffle(&mut runs[..free]);
        runs.reverse();
        runs
    }

    /// Moves the next run of a request.
    fn carry(&mut self, way: Way, request: &mut SimRequest) -> Result<Stage, WorkError> {
        let Way { rank, peer, peer_end, .. } = way;
        if self.rank(peer).dead {
            return Err(WorkError::Unreachable);
        }
        self.places(rank, peer, request)?;
        let stage = core::mem::replace(&mut request.stage, Stage::Posted);
        let Stage::Moving(mut moving) = stage else { unreachable!("only what moves is carried") };
        if let Some(run) = moving.runs.pop() {
            let moved = match request.verb {
                Verb::CompareAndSwap { expected, desired, .. } => request
                    .exchange(moving.remote, |old| if old == expected { desired } else { old }),
                Verb::FetchAndAdd { addend, .. } => {
                    request.exchange(moving.remote, |old| old.wrapping_add(addend))
                }
                _ => request.carry(moving.remote, run),
            };
            moving.moved[run.0..run.0 + run.1].copy_from_slice(&moved);
        }
        if !moving.runs.is_empty() {
            return Ok(Stage::Moving(moving));
        }
        if let Some(id) = moving.receive {
            let length = request.length() as u32;
            let done = match request.verb {
                Verb::Write { immediate: Some(immediate), .. } => {
                    Done::Immediate { immediate, length }
                }
                _ => Done::Receive { length },
            };
            let connection = Connection(peer_end);
            self.report(peer, 0, Completion { id, connection, result: Ok(done) });
        }
        self.land(if request.is_write() { peer } else { rank }, request.length());
        Ok(Stage::Landed(moving.moved))
    }

    /// Reports the finished requests at the front of an end's queue. A failure flushes the rest.
    fn retire(&mut self, rank: u32, end: u32) {
        let connection = Connection(end);
        loop {
            let at = &mut self.ranks[rank as usize].ends[end as usize];
            let finished =
                |request: &SimRequest| matches!(request.stage, Stage::Landed(_) | Stage::Failed(_));
            if !at.queue.front().is_some_and(finished) {
                return self.report_early(rank, end);
            }
            let Some(request) = at.queue.pop_front() else { return };
            let failed = match &request.stage {
                Stage::Failed(error) => Some(*error),
                Stage::Landed(sent) => {
                    assert!(
                        !request.is_write() || request.bytes() == *sent,
                        "rank {rank} changed the bytes of a write before its completion"
                    );
                    None
                }
                _ => return,
            };
            let SimRequest { id, number, .. } = request;
            if !request.reported && (failed.is_some() || request.signaled) {
                let result = failed.map_or(Ok(request.done()), Err);
                self.report(rank, number, Completion { id, connection, result });
            }
            if failed.is_some() {
                let at = &mut self.ranks[rank as usize].ends[end as usize];
                at.state = Standing::Broken;
                for SimRequest { id, number, .. } in core::mem::take(&mut at.queue) {
                    let result = Err(WorkError::Flushed);
                    self.report(rank, number, Completion { id, connection, result });
                }
            }
        }
    }

    /// Without acknowledgements, reports the write at the front when its bytes have left.
    fn report_early(&mut self, rank: u32, end: u32) {
        if self.model.capabilities.acknowledged {
            return;
        }
        let at = &mut self.ranks[rank as usize].ends[end as usize];
        let leaves = |request: &&mut SimRequest| {
            !request.reported && request.is_write() && matches!(request.stage, Stage::Moving(_))
        };
        let Some(request) = at.queue.front_mut().filter(leaves) else { return };
        request.local = LocalBytes::Inline(request.bytes());
        request.reported = true;
        let SimRequest { id, number, signaled, .. } = *request;
        let result = Ok(request.done());
        if signaled {
            self.report(rank, number, Completion { id, connection: Connection(end), result });
        }
    }

    fn report(&mut self, rank: u32, frees: u64, completion: Completion) {
        let rank = self.rank_mut(rank);
        rank.completions.push_back(ReportedEnd { completion, frees });
        rank.event |= core::mem::take(&mut rank.armed);
    }
}
