//! Plays a plan on a cluster in a random order.

use fastrand::Rng;
use strait::Fault;
use strait::raw::ANY_SOURCE;
use strait_core::engine::{
    FailureCause, Gone, InUse, MessageId, Outcome, Owner, Received, RemoteTransfers, RequestId,
    Rtrs, SendMode, Sent, StartError,
};
use strait_core::wire::Key;

use super::plan::{Message, Receive};
use super::scattered::Scattered;
use super::{Cluster, Plan};
use crate::payload;

/// Number of turns without an event after which none will follow.
const QUIET: u32 = 3_000;

/// The most turns of a plan.
const TURNS: u32 = 1_000_000;

/// One send or receive.
#[derive(Debug)]
struct Operation {
    rank: u32,
    buffer: Scattered,
    state: State,
    /// Whether the game wants to cancel the receive.
    cancelled: bool,
}

impl Operation {
    fn new(rank: u32, bytes: &[u8], rng: &mut Rng) -> Self {
        let buffer = Scattered::drawn(bytes, rng);
        Self { rank, buffer, state: State::Waiting, cancelled: false }
    }
}

#[derive(Debug)]
enum State {
    Waiting,
    /// A receive with a message that a probe has matched.
    Matched(MessageId),
    Pending(RequestId),
    Over(Outcome),
    /// Detached: it has no outcome.
    Detached,
}

/// Plays `plan` to its end and judges it. `victim` gives the rank that dies, and the turn. Returns
/// the counts of all RTRs, and of the announced messages.
///
/// # Panics
///
/// When a receive got the wrong message, or a message is lost.
pub fn play(
    mut cluster: Cluster,
    plan: &Plan,
    seed: u64,
    victim: Option<(u32, u32)>,
) -> (Rtrs, RemoteTransfers) {
    let mut game = Game::new(&mut cluster, plan, seed);
    let (mut turns, mut quiet) = (0, 0);
    while !game.is_over() {
        if let Some((rank, turn)) = victim
            && turn == turns
        {
            game.cluster.kill(rank);
        }
        turns += 1;
        quiet = if game.turn() { 0 } else { quiet + 1 };
        if quiet == QUIET && game.give_up() {
            quiet = 0;
        }
        let goes_on = quiet < QUIET && turns < TURNS;
        assert!(goes_on, "the play does not end: {:#?}", game.state());
    }
    game.judge();
    game.leave();
    let counts = (game.rtrs(), game.remote_transfers());
    let ledger = cluster.ledger.clone();
    drop(cluster);
    assert_eq!(ledger.lent_bytes(), 0, "memory was not released");
    counts
}

/// Returns the state of a receive that began with this result.
fn begun(received: Result<Received, StartError>) -> State {
    match received {
        Ok(Received::Done(outcome)) => State::Over(outcome),
        Ok(Received::Pending(id)) => State::Pending(id),
        Err(StartError::Peer(fault)) => State::Over(Err(fault)),
        Err(error) => panic!("{error}"),
    }
}

#[derive(Debug)]
struct Game<'a> {
    cluster: &'a mut Cluster,
    plan: Plan,
    /// Indexed by message.
    sends: Vec<Operation>,
    /// Indexed by receive.
    receives: Vec<Operation>,
    rng: Rng,
    /// Rounds that are left for leaving.
    backoff: u32,
}

impl<'a> Game<'a> {
    fn new(cluster: &'a mut Cluster, plan: &'a Plan, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let send = |(id, message): (u64, &Message)| {
            Operation::new(message.envelope.source, &payload::of(id, message.length), &mut rng)
        };
        let sends = (0..).zip(&plan.messages).map(send).collect();
        let receive = |receive: &Receive| {
            Operation::new(receive.rank, &vec![0xee; receive.capacity], &mut rng)
        };
        let receives = plan.receives.iter().map(receive).collect();
        let plan = plan.clone();
        Self { cluster, plan, sends, receives, rng, backoff: 20 * QUIET }
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        let dead = self.cluster.dead;
        self.sends.iter().chain(&self.receives).filter(move |one| Some(one.rank) != dead)
    }

    /// Describes the incomplete operations, for a failure.
    fn state(&self) -> Vec<String> {
        let over = |one: &Operation| matches!(one.state, State::Over(_) | State::Detached);
        let open = |one: &Operation| Some(one.rank) != self.cluster.dead && !over(one);
        let sends = self.sends.iter().zip(&self.plan.messages).filter(|(one, _)| open(one));
        let sends = sends.map(|(one, message)| format!("{:?} {message:?}", one.state));
        let receives = self.receives.iter().zip(&self.plan.receives).filter(|(one, _)| open(one));
        let receives = receives.map(|(one, receive)| format!("{:?} {receive:?}", one.state));
        sends.chain(receives).collect()
    }

    fn is_over(&self) -> bool {
        self.operations().all(|one| matches!(one.state, State::Over(_) | State::Detached))
    }

    /// Takes one turn of a rank, or of the fabric. Returns whether it changed anything.
    fn turn(&mut self) -> bool {
        let living: Vec<u32> = self.cluster.living().collect();
        let rank = *self.rng.choice(&living).expect("a rank lives");
        match self.rng.u8(0..12) {
            10 => self.cancel_a_receive(rank),
            0 => self.begin_send(rank),
            1 | 11 => self.begin_receive(rank),
            2 => self.test(rank),
            3 => self.detach_a_send(rank),
            4 => self.tell_of_the_dead(rank),
            5..8 => self.cluster.turn(rank),
            _ => (0..self.rng.u32(..8)).fold(false, |passed, _| self.cluster.pass() || passed),
        }
    }

    /// Begins the next send of `rank`.
    fn begin_send(&mut self, rank: u32) -> bool {
        let next = |one: &Operation| one.rank == rank && matches!(one.state, State::Waiting);
        let Some(number) = self.sends.iter().position(next) else { return false };
        if self.rng.u8(0..self.plan.hesitation) > 0 {
            return false;
        }
        let Message { envelope, destination, .. } = self.plan.messages[number];
        let (send, engine) = (&mut self.sends[number], &mut self.cluster.engines[rank as usize]);
        let key = Key::new(envelope.context, envelope.tag);
        let mode = match self.rng.u8(0..4) {
            0 => SendMode::Synchronous,
            _ => SendMode::Standard,
        };
        // SAFETY: buffers live as long as the game, which uses them only when the engine has no
        // claim on them.
        let sent =
            unsafe { engine.isend_by(mode, destination, key, send.buffer.cursor(), Owner(1)) };
        send.state = match sent {
            // A rank knows of its own receives at once.
            Ok(Sent::Done) if mode == SendMode::Synchronous && destination != rank => {
                panic!("its receive has not begun")
            }
            Ok(Sent::Done) => State::Detached,
            Ok(Sent::Pending(id)) => State::Pending(id),
            Err(StartError::Peer(fault)) => State::Over(Err(fault)),
            Err(error) => panic!("{error}"),
        };
        true
    }

    /// Begins the next receive of `rank`, by itself or by a matched probe.
    fn begin_receive(&mut self, rank: u32) -> bool {
        let matched = |one: &Operation| one.rank == rank && matches!(one.state, State::Matched(_));
        if let Some(number) = self.receives.iter().position(matched) {
            self.end_probe(number);
            return true;
        }
        let next = |one: &Operation| one.rank == rank && matches!(one.state, State::Waiting);
        let Some(number) = self.receives.iter().position(next) else { return false };
        let pending = |one: &&Operation| one.rank == rank && matches!(one.state, State::Pending(_));
        if self.receives.iter().filter(pending).count() >= self.plan.ahead {
            return false;
        }
        let pattern = self.plan.receives[number].pattern;
        let (receive, engine) =
            (&mut self.receives[number], &mut self.cluster.engines[rank as usize]);
        if self.rng.u8(0..4) == 0
            && let Ok(Some((message, _))) = engine.improbe(pattern)
        {
            receive.state = State::Matched(message);
            return true;
        }
        // SAFETY: buffers live as long as the game, which uses them only when the engine has no
        // claim on them.
        receive.state = begun(unsafe { engine.irecv(pattern, receive.buffer.cursor(), Owner(1)) });
        true
    }

    /// Receives the message that a probe has matched, or returns it. Its rank has begun no other
    /// receive meanwhile, so the absence has no effect.
    fn end_probe(&mut self, number: usize) {
        let receive = &mut self.receives[number];
        let engine = &mut self.cluster.engines[receive.rank as usize];
        let State::Matched(message) = receive.state else { return };
        if self.rng.bool() {
            engine.put_back(message).expect("memory");
            receive.state = State::Waiting;
            return;
        }
        // SAFETY: buffers live as long as the game, which uses them only when the engine has no
        // claim on them.
        receive.state = begun(unsafe { engine.imrecv(message, receive.buffer.cursor(), Owner(1)) });
    }

    /// Tests all operations that `rank` has under way.
    fn test(&mut self, rank: u32) -> bool {
        let engine = &mut self.cluster.engines[rank as usize];
        let (mut moved, mut again) = (false, Vec::new());
        for (number, one) in
            self.receives.iter_mut().enumerate().filter(|(_, one)| one.rank == rank)
        {
            if let State::Pending(id) = one.state
                && one.cancelled
                && let Some(outcome) = engine.test(id)
            {
                let cancelled = outcome == Err(Fault::Cancelled);
                one.state = if cancelled { State::Detached } else { State::Over(outcome) };
                again.extend(cancelled.then_some(number));
                moved = true;
            }
        }
        for number in again {
            self.post_again(number);
        }
        let engine = &mut self.cluster.engines[rank as usize];
        for one in self.sends.iter_mut().chain(&mut self.receives).filter(|one| one.rank == rank) {
            if let State::Pending(id) = one.state
                && let Some(outcome) = engine.test(id)
            {
                one.state = State::Over(outcome);
                moved = true;
            }
        }
        moved
    }

    /// Detaches one send. Its buffer then belongs to the game, and the message still arrives.
    fn detach_a_send(&mut self, rank: u32) -> bool {
        if self.rng.u8(0..8) > 0 {
            return false;
        }
        let engine = &mut self.cluster.engines[rank as usize];
        for send in self.sends.iter_mut().filter(|send| send.rank == rank) {
            if let State::Pending(id) = send.state
                && engine.detach(id).is_ok()
            {
                send.buffer.fill(0xdd);
                send.state = State::Detached;
                return true;
            }
        }
        false
    }

    /// Cancels one receive, which may need an answer of its sender. With a dead rank, some receives
    /// wait for messages that never arrive.
    fn cancel_a_receive(&mut self, rank: u32) -> bool {
        if self.cluster.dead.is_some() {
            return false;
        }
        let engine = &mut self.cluster.engines[rank as usize];
        let pending = |one: &&mut Operation| {
            one.rank == rank && !one.cancelled && matches!(one.state, State::Pending(_))
        };
        let found = self.receives.iter_mut().filter(pending).find(|_| self.rng.u8(0..64) == 0);
        let Some(receive) = found else { return false };
        if let State::Pending(id) = receive.state {
            let _ = engine.cancel(id);
        }
        receive.cancelled = true;
        true
    }

    /// Posts a receive like a cancelled one after all others, because some receive must get the
    /// message.
    fn post_again(&mut self, number: usize) {
        let receive = self.plan.receives[number];
        self.plan.receives.push(receive);
        let room = vec![0xee; receive.capacity];
        self.receives.push(Operation::new(receive.rank, &room, &mut self.rng));
    }

    /// Returns the RTR counts of all living ranks.
    fn rtrs(&self) -> Rtrs {
        self.cluster.living().fold(Rtrs::default(), |sum, rank| {
            let one = self.cluster.engines[rank as usize].rtrs();
            Rtrs {
                sent: sum.sent + one.sent,
                retracted: sum.retracted + one.retracted,
                missed: sum.missed + one.missed,
                heard: sum.heard + one.heard,
                used: sum.used + one.used,
                stopped: sum.stopped + one.stopped,
            }
        })
    }

    /// Returns the counts of announced messages of all living ranks.
    fn remote_transfers(&self) -> RemoteTransfers {
        self.cluster.living().fold(RemoteTransfers::default(), |sum, rank| {
            let one = self.cluster.engines[rank as usize].remote_transfers();
            RemoteTransfers {
                read: sum.read + one.read,
                written: sum.written + one.written,
                scattered: sum.scattered + one.scattered,
            }
        })
    }

    fn tell_of_the_dead(&mut self, rank: u32) -> bool {
        let Some(dead) = self.cluster.dead else { return false };
        let engine = &mut self.cluster.engines[rank as usize];
        let known = engine.gone(dead).is_some();
        let _ = engine.peer_gone(dead, Gone::Failed(FailureCause::Ended)).expect("a sound segment");
        !known && engine.gone(dead).is_some()
    }

    /// Cancels the receives from any source that may lack a message of the dead rank. Returns false
    /// if there are none.
    fn give_up(&mut self) -> bool {
        let mut some = false;
        for (receive, plan) in self.receives.iter_mut().zip(&self.plan.receives) {
            if let State::Pending(id) = receive.state
                && plan.pattern.source == ANY_SOURCE
                && self.cluster.dead.is_some_and(|dead| dead != receive.rank)
            {
                some |= self.cluster.engines[receive.rank as usize].cancel(id);
            }
        }
        some
    }

    fn judge(&self) {
        let dead = self.cluster.dead;
        for send in self.sends.iter().filter(|send| Some(send.rank) != dead) {
            if let State::Over(Err(fault)) = send.state {
                let told = matches!(fault, Fault::PeerFailed { rank, .. } if Some(rank) == dead);
                assert!(told, "a send of rank {}: {fault}", send.rank);
            }
        }
        for rank in self.cluster.living() {
            let numbered = self.receives.iter().enumerate().filter(|(_, one)| one.rank == rank);
            let got = numbered.filter_map(|(number, one)| match one.state {
                State::Over(outcome) => Some((number, outcome, one.buffer.bytes())),
                _ => None,
            });
            let got: Vec<_> = got.collect();
            let lost = got.iter().filter(|(_, outcome, _)| *outcome == Err(Fault::Cancelled));
            let from_the_dead = self.plan.messages.iter().filter(|message| {
                Some(message.envelope.source) == dead && message.destination == rank
            });
            assert!(lost.count() <= from_the_dead.count(), "rank {rank} lost a message");
            self.plan.judge(rank, &got, dead);
        }
    }

    /// All living ranks leave in good order, and nothing is left under way.
    fn leave(&mut self) {
        let living: Vec<u32> = self.cluster.living().collect();
        while !living.iter().all(|rank| {
            self.cluster.dead.is_none_or(|dead| {
                let engine = &mut self.cluster.engines[*rank as usize];
                engine.peer_gone(dead, Gone::Failed(FailureCause::Ended)).expect("a sound segment")
            })
        }) {
            self.work(&living);
        }
        // Sends the last bytes of detached sends.
        while !living.iter().all(|rank| self.cluster.engines[*rank as usize].is_flushed()) {
            self.work(&living);
        }
        for rank in &living {
            self.cluster.engines[*rank as usize].leave_network();
        }
        let is_done = |cluster: &mut Cluster, rank: u32| {
            cluster.engines[rank as usize].is_flushed() && cluster.is_drained(rank)
        };
        while !living.iter().all(|rank| is_done(self.cluster, *rank)) {
            self.work(&living);
        }
        for rank in living {
            let used = self.cluster.engines[rank as usize].in_use().expect("a sound segment");
            let InUse { requests, transfers, .. } = used;
            assert_eq!((requests, transfers), (0, 0), "rank {rank}: {used:?}");
            let links = self.cluster.mesh.nodes[rank as usize].links.len() - 1;
            let regions = self.cluster.mesh.nodes[rank as usize].device.regions();
            assert_eq!(regions, links, "rank {rank}: regions beside the memory of its links");
        }
    }

    fn work(&mut self, living: &[u32]) {
        self.backoff = self.backoff.checked_sub(1).expect("the ranks cannot leave");
        for rank in living {
            self.cluster.turn(*rank);
            let _ = self.cluster.pass();
        }
    }
}
