//! Ranks, devices and lock managers in virtual time.
//!
//! A rank is a thread, but one of them runs at a time: the one whose turn is next. So what ranks do is written as programs do it,
//! and a run is the same everywhere. Devices and managers are events.

mod desk;

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use core::cmp::Reverse;

use strait::LockDesign;
use strait_core::lock::{
    Coding, Entry, LockType, LockWord, Manager, McsWord, Op, Request, State as Held,
};
use strait_tests::sim::Wire;

use desk::Desk;

/// What things take beside the wire, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) wire: Wire,
    /// An access of a processor to a line that another had last, and to one that it had itself.
    pub(crate) line: u64,
    pub(crate) own_line: u64,
    /// A message on a node, one way.
    pub(crate) message: u64,
    /// Of a manager, for each request.
    pub(crate) serve: u64,
    /// Until a manager that sleeps is awake.
    pub(crate) wake: u64,
    /// The unit of back-off at words for processors, and at those for devices.
    pub(crate) units: [u64; 2],
    /// Most units of a back-off.
    pub(crate) backoff: u32,
}

impl Costs {
    /// The cards of `Wire::INFINIBAND_2004`, for which an atomic takes as long as a read; the rest is assumed. A request costs a manager
    /// what a poll, matching and two locks of a library with threads do; a wake-up is an interrupt and a switch.
    pub(crate) const OF_2004: Self = Self {
        wire: Wire::INFINIBAND_2004,
        line: 200,
        own_line: 20,
        message: 500,
        serve: 2_000,
        wake: 15_000,
        units: [500, 12_400],
        backoff: 64,
    };
}

/// A word of the lock of one target in one window.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Word {
    Cpu,
    Network,
    Last,
    Sharers,
    Flag(u32),
    Next(u32),
    /// Of the window itself.
    Tag,
}

impl From<McsWord> for Word {
    fn from(word: McsWord) -> Self {
        match word {
            McsWord::Lock => Self::Last,
            McsWord::Sharers => Self::Sharers,
            McsWord::Flag(place) => Self::Flag(place),
            McsWord::Next(place) => Self::Next(place),
        }
    }
}

/// The lock of a target in a window.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Lock {
    pub(crate) window: u32,
    pub(crate) target: u32,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Answer {
    /// The lock is had; true: in network mode.
    Granted(bool),
    Elsewhere,
}

/// Who waits for what an access finds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Asker {
    Rank(u32),
    Manager,
    Nobody,
}

/// An access as an event: a compare-and-swap, or else an addition, a read or a write.
#[derive(Clone, Copy, Debug)]
struct Access {
    lock: Lock,
    word: Word,
    op: Op,
    asker: Asker,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Turn(u32),
    /// A request is at the device of a node.
    Arrive(u32, Access),
    Perform(Access),
    Found(Lock, u64),
    /// A request is at its manager.
    Come(Lock, u32, Request),
    Serve(Lock, u32, Request),
    Work(Lock),
}

/// A word, and whose processor had its line last until when.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    word: u64,
    owner: u32,
    free: u64,
}

pub(crate) struct State {
    pub(crate) costs: Costs,
    pub(crate) design: LockDesign,
    /// Of each rank.
    nodes: Vec<u32>,
    pub(crate) now: u64,
    serial: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    bodies: BTreeMap<u64, Event>,
    turn: Option<u32>,
    lines: BTreeMap<(Lock, Word), Line>,
    desks: BTreeMap<Lock, Desk>,
    /// Until when each device, and each rank's manager, has something to do.
    devices: Vec<u64>,
    managers: Vec<u64>,
    /// Which ranks are outside the library, and what has come for their managers meanwhile.
    outside: Vec<bool>,
    missed: Vec<Vec<Event>>,
    parked: Vec<bool>,
    found: Vec<u64>,
    answers: Vec<Option<Answer>>,
    /// Requests to devices, and messages to managers and from them, for each rank.
    pub(crate) messages: Vec<u64>,
}

pub(crate) struct Cluster {
    state: Mutex<State>,
    turns: Vec<Condvar>,
}

impl Cluster {
    /// Ranks on these nodes, each of which has so many windows.
    pub(crate) fn new(costs: Costs, design: LockDesign, nodes: Vec<u32>, windows: u32) -> Self {
        let ranks = nodes.len();
        let turns = nodes.iter().map(|_| Condvar::new()).collect();
        let mut state = State {
            costs,
            design,
            now: 0,
            serial: 0,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            turn: None,
            lines: BTreeMap::new(),
            desks: BTreeMap::new(),
            devices: vec![0; ranks],
            managers: vec![0; ranks],
            outside: vec![false; ranks],
            missed: vec![Vec::new(); ranks],
            parked: vec![false; ranks],
            found: vec![0; ranks],
            answers: vec![None; ranks],
            messages: vec![0; ranks],
            nodes,
        };
        let targets = 0..ranks as u32;
        let locks = (0..windows)
            .flat_map(|window| targets.clone().map(move |target| Lock { window, target }));
        locks.for_each(|lock| state.open(lock));
        (0..ranks as u32).for_each(|rank| state.at(0, Event::Turn(rank)));
        state.hand_over();
        Self { state: Mutex::new(state), turns }
    }

    /// Has all ranks do their parts. What came of them, and the state in the end.
    pub(crate) fn play<R: Send>(self, part: impl Fn(&Rank<'_>) -> R + Sync) -> (Vec<R>, State) {
        let ranks = 0..self.turns.len() as u32;
        let results = std::thread::scope(|scope| {
            let start = |rank| {
                let (cluster, part) = (&self, &part);
                scope.spawn(move || {
                    let _end = End(cluster);
                    let rank = Rank { cluster, rank };
                    drop(rank.wait(cluster.state.lock().unwrap()));
                    let result = part(&rank);
                    let mut state = cluster.state.lock().unwrap();
                    state.hand_over();
                    cluster.tell(&state);
                    result
                })
            };
            let threads: Vec<_> = ranks.map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        (results, self.state.into_inner().unwrap())
    }

    fn tell(&self, state: &State) {
        match state.turn {
            Some(rank) => self.turns[rank as usize].notify_one(),
            // Nothing is under way any more: who still waits does so for ever.
            None => self.turns.iter().for_each(Condvar::notify_all),
        }
    }
}

/// Ends all ranks when one has failed.
struct End<'a>(&'a Cluster);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.turn = None;
            self.0.tell(&state);
        }
    }
}

/// One rank, in its own thread.
pub(crate) struct Rank<'a> {
    cluster: &'a Cluster,
    pub(crate) rank: u32,
}

impl Rank<'_> {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.cluster.state.lock().unwrap()
    }

    pub(crate) fn costs(&self) -> Costs {
        self.state().costs
    }

    pub(crate) fn now(&self) -> u64 {
        self.state().now
    }

    /// Waits for this rank's turn.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let own = &self.cluster.turns[self.rank as usize];
        let is_anothers = |state: &mut State| state.turn.is_some_and(|turn| turn != self.rank);
        let state = own.wait_while(state, is_anothers).unwrap();
        assert_eq!(state.turn, Some(self.rank), "ranks wait, and nothing is under way");
        state
    }

    fn pass<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.hand_over();
        if state.turn != Some(self.rank) {
            self.cluster.tell(&state);
        }
        self.wait(state)
    }

    /// Lets time pass.
    pub(crate) fn spend(&self, time: u64) {
        let mut state = self.state();
        let due = state.now + time;
        state.at(due, Event::Turn(self.rank));
        drop(self.pass(state));
    }

    /// Computes outside the library.
    pub(crate) fn compute(&self, time: u64) {
        self.state().outside[self.rank as usize] = true;
        self.spend(time);
        self.enter();
    }

    /// Computes, and stays outside the library until [`Rank::enter`].
    pub(crate) fn compute_on(&self, time: u64) {
        self.state().outside[self.rank as usize] = true;
        self.spend(time);
    }

    /// Is in the library from now on.
    pub(crate) fn enter(&self) {
        let mut state = self.state();
        state.outside[self.rank as usize] = false;
        let (now, missed) = (state.now, core::mem::take(&mut state.missed[self.rank as usize]));
        missed.into_iter().for_each(|event| state.at(now, event));
    }

    /// Puts a few bytes, and waits until they are there.
    pub(crate) fn put(&self, lock: Lock, word: u64) {
        if self.is_near(lock.target) {
            self.touch(lock, Word::Tag, Op::Write(word));
            return;
        }
        self.post(lock, (Word::Tag, lock.target), Op::Write(word), false);
        let Wire { write, acknowledge, .. } = self.costs().wire;
        self.spend(write + acknowledge);
    }

    /// Waits until somebody writes a word that this rank looks at.
    pub(crate) fn park(&self) {
        let mut state = self.state();
        state.parked[self.rank as usize] = true;
        drop(self.pass(state));
    }

    /// An access by the processor.
    pub(crate) fn touch(&self, lock: Lock, word: Word, op: Op) -> u64 {
        let mut state = self.state();
        let Costs { line, own_line, .. } = state.costs;
        let now = state.now;
        let there = state.lines.get_mut(&(lock, word)).unwrap();
        let time = if there.owner == self.rank { own_line } else { line };
        (there.owner, there.free) = (self.rank, there.free.max(now) + time);
        let due = there.free;
        state.at(due, Event::Turn(self.rank));
        self.pass(state).change(lock, word, op)
    }

    /// A request to the device; `asks`: waits for what it finds.
    pub(crate) fn post(&self, lock: Lock, (word, at): (Word, u32), op: Op, asks: bool) -> u64 {
        self.spend(self.costs().wire.post);
        let asker = if asks { Asker::Rank(self.rank) } else { Asker::Nobody };
        let mut state = self.state();
        state.messages[self.rank as usize] += 1;
        state.leave(self.rank, at, Access { lock, word, op, asker });
        if !asks {
            return 0;
        }
        self.pass(state).found[self.rank as usize]
    }

    /// A message to the manager, which is answered if `asks`.
    pub(crate) fn say(&self, lock: Lock, request: Request, asks: bool) -> Option<Answer> {
        self.spend(self.costs().wire.post);
        let mut state = self.state();
        state.messages[self.rank as usize] += 1 + u64::from(asks);
        let due = state.now + state.way(self.rank, lock.target);
        state.at(due, Event::Come(lock, self.rank, request));
        if !asks {
            return None;
        }
        self.pass(state).answers[self.rank as usize].take()
    }

    pub(crate) fn is_near(&self, other: u32) -> bool {
        self.state().is_near(self.rank, other)
    }
}

impl State {
    fn at(&mut self, due: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((due, self.serial)));
        self.bodies.insert(self.serial, event);
    }

    /// Lets things happen until it is a rank's turn.
    fn hand_over(&mut self) {
        self.turn = None;
        while let Some(Reverse((due, serial))) = self.events.pop() {
            self.now = due;
            match self.bodies.remove(&serial) {
                Some(Event::Turn(rank)) => {
                    self.turn = Some(rank);
                    return;
                }
                Some(event) => self.handle(event),
                None => {}
            }
        }
    }

    fn is_near(&self, one: u32, other: u32) -> bool {
        self.nodes[one as usize] == self.nodes[other as usize]
    }

    /// How long a message goes.
    fn way(&self, one: u32, other: u32) -> u64 {
        if self.is_near(one, other) { self.costs.message } else { self.costs.wire.write }
    }

    /// Makes the words of a lock.
    fn open(&mut self, lock: Lock) {
        let size = self.nodes.len() as u32;
        let hybrid = self.design == LockDesign::Hybrid;
        let coding = if hybrid { Coding::Ranks { size } } else { Coding::Signed };
        let free = if hybrid { Held::Elsewhere(0) } else { Held::Free };
        let mut words = vec![Word::Cpu, Word::Network, Word::Last, Word::Sharers, Word::Tag];
        words.extend((0..size).flat_map(|place| [Word::Flag(place), Word::Next(place)]));
        for word in words {
            let word_of = if word == Word::Network { coding.word(free) } else { 0 };
            let line = Line { word: word_of, owner: u32::MAX, free: 0 };
            self.lines.insert((lock, word), line);
        }
        let manager = Manager::new(vec![Entry::default(); size as usize]);
        self.desks.insert(lock, Desk { manager, current: None, asks: false, moved: 0 });
    }

    fn change(&mut self, lock: Lock, word: Word, op: Op) -> u64 {
        let there = self.lines.get_mut(&(lock, word)).unwrap();
        let atomic = LockWord::new(there.word);
        let found = atomic.access(op);
        there.word = atomic.access(Op::Read);
        found
    }

    /// What a rank reads of its own memory.
    pub(crate) fn look(&self, lock: Lock, word: Word) -> u64 {
        self.lines[&(lock, word)].word
    }

    /// A rank writes its own memory.
    pub(crate) fn set(&mut self, lock: Lock, word: Word, op: Op) {
        self.change(lock, word, op);
    }

    /// A device takes a request of its rank's.
    fn leave(&mut self, rank: u32, at: u32, access: Access) {
        let node = self.nodes[rank as usize] as usize;
        let begin = self.now.max(self.devices[node]);
        self.devices[node] = begin + self.costs.wire.gap;
        let Wire { read, write, .. } = self.costs.wire;
        let way = if let Op::Write(_) = access.op { write } else { read / 2 };
        self.at(begin + way, Event::Arrive(self.nodes[at as usize], access));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Turn(_) => {}
            Event::Arrive(node, access) => {
                let device = &mut self.devices[node as usize];
                let begin = self.now.max(*device);
                *device = begin + self.costs.wire.gap;
                self.at(begin, Event::Perform(access));
            }
            Event::Perform(access) => self.perform(access),
            Event::Found(lock, found) => {
                let desk = self.desks.get_mut(&lock).unwrap();
                desk.asks = false;
                desk.current.as_mut().unwrap().1.handle(found);
                self.work(lock);
            }
            Event::Come(lock, origin, request) => self.come(lock, origin, request),
            Event::Serve(lock, origin, request) => {
                let desk = self.desks.get_mut(&lock).unwrap();
                desk.manager.handle(origin, request).unwrap();
                if (request, self.design) == (Request::Unlock, LockDesign::Hybrid) {
                    let release = Coding::Signed.release(LockType::Exclusive, origin);
                    self.change(lock, Word::Cpu, release);
                }
                self.work(lock);
            }
            Event::Work(lock) => self.work(lock),
        }
    }

    fn perform(&mut self, Access { lock, word, op, asker }: Access) {
        let found = self.change(lock, word, op);
        let Wire { read, poll, .. } = self.costs.wire;
        let due = self.now + read - read / 2;
        match asker {
            Asker::Rank(rank) => {
                self.found[rank as usize] = found;
                self.at(due, Event::Turn(rank));
            }
            Asker::Manager => self.at(due, Event::Found(lock, found)),
            Asker::Nobody => {}
        }
        if let Word::Flag(place) | Word::Next(place) = word
            && core::mem::take(&mut self.parked[place as usize])
        {
            self.at(self.now + poll, Event::Turn(place));
        }
    }
}
