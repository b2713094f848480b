//! The events in virtual time: devices and lock managers act between the turns of ranks.

use std::collections::{BTreeMap, BinaryHeap};

use core::cmp::Reverse;

use strait::{LockDesign, LockPolicy};
use strait_core::lock::{
    Coding, HybridWord, LockManager, LockMember, LockMode, LockRequest, LockState as Held,
    LockType, LockWord, McsWord, Migration, MigrationStep, Policy, WordAccess,
};

use super::busy::BusyThreads;
use crate::Wire;

/// Costs besides those of the wire, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The cards.
    pub wire: Wire,
    /// An access of a processor to a line that another processor accessed last.
    pub line: u64,
    /// An access to a line that the processor accessed last itself.
    pub own_line: u64,
    /// A message on a node, one way.
    pub message: u64,
    /// Time of a manager for each request.
    pub serve: u64,
    /// Time until a sleeping manager is awake.
    pub wake: u64,
    /// The unit of back-off at words for processors, and at words for devices.
    pub units: [u64; 2],
    /// The longest back-off, in units.
    pub backoff: u32,
    /// Threads of each node that never sleep. The polling threads of its managers are the first
    /// ones, if it has as many.
    pub busy: BusyThreads,
}

impl Costs {
    /// The costs with the cards of `Wire::INFINIBAND_2004`, for which an atomic takes as long as a
    /// read. The other values are assumed. A request costs a manager a poll, matching and two locks
    /// of a library with threads. A wake-up costs an interrupt and a context switch.
    pub const OF_2004: Self = Self {
        wire: Wire::INFINIBAND_2004,
        line: 200,
        own_line: 20,
        message: 500,
        serve: 2_000,
        wake: 15_000,
        units: [500, 12_400],
        backoff: 64,
        busy: BusyThreads::NONE,
    };

    /// The costs without any back-off.
    pub const WITHOUT_BACKOFF: Self = Self { units: [0, 0], backoff: 1, ..Self::OF_2004 };

    /// The costs with the back-off that the library uses at all words.
    pub const WITH_SHORT_BACKOFF: Self = Self { units: [500, 500], ..Self::OF_2004 };
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
    /// The tag of the window itself.
    Tag,
}

impl From<McsWord> for Word {
    fn from(word: McsWord) -> Self {
        match word {
            McsWord::Lock => Self::Last,
            McsWord::Holders => Self::Sharers,
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
    /// The lock is held; true: in network mode.
    Granted(bool),
    Elsewhere,
}

/// The rank or device that waits for the result of an access.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Asker {
    Rank(u32),
    Manager,
    None,
}

/// An access as an event: a compare-and-swap, or else an addition, a read or a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedAccess {
    pub(super) lock: Lock,
    pub(super) word: Word,
    pub(super) op: WordAccess,
    pub(super) asker: Asker,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LockEvent {
    Turn(u32),
    /// A request arrives at the device of a node.
    Arrive(u32, AskedAccess),
    Perform(AskedAccess),
    Found(Lock, u64),
    /// A request arrives at its manager.
    Come(Lock, u32, LockRequest),
    Serve(Lock, u32, LockRequest),
    Work(Lock),
}

struct Desk {
    manager: LockManager<Vec<LockMember>>,
    current: Option<(u32, Migration)>,
    /// Whether the rank waits for its device.
    asks: bool,
    moved: u64,
    policy: Box<dyn Policy + Send>,
}

/// A word, the processor that accessed its line last, and the end of that access.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordLine {
    word: u64,
    pub(super) owner: u32,
    pub(super) free: u64,
}

pub(crate) struct PlayedState {
    pub(crate) costs: Costs,
    pub(crate) design: LockDesign,
    /// The policy of each rank for hybrid locks, one for all its windows.
    pub(super) policies: Vec<Box<dyn Policy + Send>>,
    policy: LockPolicy,
    /// The node of each rank.
    nodes: Vec<u32>,
    pub(crate) now: u64,
    serial: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    bodies: BTreeMap<u64, LockEvent>,
    pub(super) turn: Option<u32>,
    lines: BTreeMap<(Lock, Word), WordLine>,
    lock_managers: BTreeMap<Lock, Desk>,
    /// The time until which each device is busy, and the managers of each rank.
    devices: Vec<u64>,
    managers: Vec<u64>,
    /// Where windows have threads: the window of each rank that had the progress lock last.
    last_windows: Vec<Option<u32>>,
    /// The ranks that are outside the library, and the requests that arrived for their managers
    /// meanwhile.
    pub(super) outside: Vec<bool>,
    pub(super) missed: Vec<Vec<LockEvent>>,
    pub(super) parked: Vec<bool>,
    pub(super) found: Vec<u64>,
    pub(super) answers: Vec<Option<Answer>>,
    /// Requests to devices, and messages to and from managers, for each rank.
    pub(crate) messages: Vec<u64>,
}

impl PlayedState {
    pub(super) fn new(
        costs: Costs,
        (design, policy): (LockDesign, LockPolicy),
        nodes: Vec<u32>,
    ) -> Self {
        let ranks = nodes.len();
        let mut state = Self {
            costs,
            design,
            policies: nodes.iter().map(|_| policy.policy()).collect(),
            policy,
            now: 0,
            serial: 0,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            turn: None,
            lines: BTreeMap::new(),
            lock_managers: BTreeMap::new(),
            devices: vec![0; ranks],
            managers: vec![0; ranks],
            last_windows: vec![None; ranks],
            outside: vec![false; ranks],
            missed: vec![Vec::new(); ranks],
            parked: vec![false; ranks],
            found: vec![0; ranks],
            answers: vec![None; ranks],
            messages: vec![0; ranks],
            nodes,
        };
        (0..ranks as u32).for_each(|rank| state.at(0, LockEvent::Turn(rank)));
        state.hand_over();
        state
    }

    pub(super) fn at(&mut self, due: u64, event: LockEvent) {
        self.serial += 1;
        self.events.push(Reverse((due, self.serial)));
        self.bodies.insert(self.serial, event);
    }

    /// Handles events until it is a rank's turn.
    pub(super) fn hand_over(&mut self) {
        self.turn = None;
        while let Some(Reverse((due, serial))) = self.events.pop() {
            self.now = due;
            match self.bodies.remove(&serial) {
                Some(LockEvent::Turn(rank)) => {
                    self.turn = Some(rank);
                    return;
                }
                Some(event) => self.handle(event),
                None => {}
            }
        }
    }

    pub(super) fn is_near(&self, one: u32, other: u32) -> bool {
        self.nodes[one as usize] == self.nodes[other as usize]
    }

    /// Returns the number of earlier ranks on the node of a rank.
    fn place(&self, rank: u32) -> u32 {
        (0..rank).filter(|other| self.is_near(rank, *other)).count() as u32
    }

    /// Returns the time of a message.
    pub(super) fn way(&self, one: u32, other: u32) -> u64 {
        if self.is_near(one, other) { self.costs.message } else { self.costs.wire.write }
    }

    /// Returns the value of a word before the first access.
    fn initial(&self, word: Word) -> u64 {
        let size = self.nodes.len() as u32;
        let hybrid = self.design == LockDesign::Hybrid;
        let coding = if hybrid { Coding::Ranks { size } } else { Coding::Signed };
        let in_cpu_mode = hybrid && self.policy.policy().preset() == LockMode::Cpu;
        match word {
            Word::Cpu if hybrid && !in_cpu_mode => Coding::Signed.word(Held::Elsewhere(0)),
            Word::Network if in_cpu_mode => coding.word(Held::Elsewhere(0)),
            Word::Network => coding.word(Held::Free),
            _ => 0,
        }
    }

    /// Returns a word, which is made at the first access: most words of large jobs have none.
    pub(super) fn line(&mut self, lock: Lock, word: Word) -> &mut WordLine {
        let initial = self.initial(word);
        let line = WordLine { word: initial, owner: u32::MAX, free: 0 };
        self.lines.entry((lock, word)).or_insert(line)
    }

    /// Returns the manager of a lock, which is made at the first request.
    fn desk(&mut self, lock: Lock) -> &mut Desk {
        let (size, policy) = (self.nodes.len(), self.policy);
        self.lock_managers.entry(lock).or_insert_with(|| Desk {
            manager: LockManager::new(vec![LockMember::default(); size]),
            current: None,
            asks: false,
            moved: 0,
            policy: policy.policy(),
        })
    }

    pub(super) fn change(&mut self, lock: Lock, word: Word, op: WordAccess) -> u64 {
        let there = self.line(lock, word);
        let atomic = LockWord::new(there.word);
        let found = atomic.access(op);
        there.word = atomic.access(WordAccess::Read);
        found
    }

    /// Reads a word of a rank's own memory.
    pub(crate) fn look(&self, lock: Lock, word: Word) -> u64 {
        self.lines.get(&(lock, word)).map_or_else(|| self.initial(word), |line| line.word)
    }

    /// Writes a word of a rank's own memory.
    pub(crate) fn set(&mut self, lock: Lock, word: Word, op: WordAccess) {
        self.change(lock, word, op);
    }

    /// Hands a request of a rank to its device.
    pub(super) fn leave(&mut self, rank: u32, at: u32, access: AskedAccess) {
        let node = self.nodes[rank as usize] as usize;
        let begin = self.now.max(self.devices[node]);
        self.devices[node] = begin + self.costs.wire.gap;
        let Wire { read, write, .. } = self.costs.wire;
        let way = if let WordAccess::Write(_) = access.op { write } else { read / 2 };
        self.at(begin + way, LockEvent::Arrive(self.nodes[at as usize], access));
    }

    fn handle(&mut self, event: LockEvent) {
        match event {
            LockEvent::Turn(_) => {}
            LockEvent::Arrive(node, access) => {
                let device = &mut self.devices[node as usize];
                let begin = self.now.max(*device);
                *device = begin + self.costs.wire.gap;
                self.at(begin, LockEvent::Perform(access));
            }
            LockEvent::Perform(access) => self.perform(access),
            LockEvent::Found(lock, found) => {
                let lock_manager = self.desk(lock);
                lock_manager.asks = false;
                lock_manager.current.as_mut().unwrap().1.handle(found);
                self.work(lock);
            }
            LockEvent::Come(lock, origin, request) => self.come(lock, origin, request),
            LockEvent::Serve(lock, origin, request) => {
                let lock_manager = self.desk(lock);
                lock_manager.manager.handle(origin, request).unwrap();
                if (request, self.design) == (LockRequest::Unlock, LockDesign::Hybrid) {
                    let release = Coding::Signed.release(LockType::Exclusive, origin);
                    self.change(lock, Word::Cpu, release);
                }
                self.work(lock);
            }
            LockEvent::Work(lock) => self.work(lock),
        }
    }

    fn perform(&mut self, AskedAccess { lock, word, op, asker }: AskedAccess) {
        let found = self.change(lock, word, op);
        let Wire { read, poll, .. } = self.costs.wire;
        let due = self.now + read - read / 2;
        match asker {
            Asker::Rank(rank) => {
                self.found[rank as usize] = found;
                self.at(due, LockEvent::Turn(rank));
            }
            Asker::Manager => self.at(due, LockEvent::Found(lock, found)),
            Asker::None => {}
        }
        let (place, poll) = match word {
            Word::Flag(place) | Word::Next(place) => (place, poll),
            // A rank that waits for its tag adds the time to its next poll itself.
            Word::Tag => (lock.target, 0),
            _ => return,
        };
        if core::mem::take(&mut self.parked[place as usize]) {
            self.at(self.now + poll, LockEvent::Turn(place));
        }
    }

    fn come(&mut self, lock: Lock, origin: u32, request: LockRequest) {
        let target = lock.target as usize;
        let has_thread = matches!(
            self.design,
            LockDesign::Thread | LockDesign::Event | LockDesign::ThreadPerWindow
        );
        if self.outside[target] && !has_thread {
            return self.missed[target].push(LockEvent::Come(lock, origin, request));
        }
        let free = self.managers[target].max(self.now);
        let begin = match self.design {
            // A thread that an event wakes takes the processor of one that computes.
            LockDesign::Event if free == self.now => free + self.costs.wake,
            LockDesign::Thread => self.costs.busy.next_turn(self.place(lock.target), free),
            // The threads of a rank's windows share one engine, so a request waits for the progress
            // lock. Its line moves from the thread of another window.
            LockDesign::ThreadPerWindow => {
                let last = self.last_windows[target].replace(lock.window);
                free + if last == Some(lock.window) { 0 } else { self.costs.line }
            }
            _ => free,
        };
        let done = begin + self.costs.serve;
        self.managers[target] = done;
        self.at(done, LockEvent::Serve(lock, origin, request));
    }

    /// Lets a manager grant the requests that it can.
    fn work(&mut self, lock: Lock) {
        let size = self.nodes.len() as u32;
        let _ = self.desk(lock);
        loop {
            let lock_manager = self.lock_managers.get_mut(&lock).unwrap();
            if lock_manager.asks {
                return;
            }
            if lock_manager.current.is_none() {
                let Some((origin, lock_type)) = lock_manager.manager.first() else { return };
                let moves =
                    lock_manager.policy.migrates(LockMode::Cpu).then_some(lock_manager.moved + 1);
                let migration = Migration::new(origin, lock_type, lock.target, size, moves);
                lock_manager.current = Some((origin, migration));
            }
            let (origin, migration) = lock_manager.current.unwrap();
            let answer = match migration.step() {
                _ if self.design != LockDesign::Hybrid => Answer::Granted(false),
                MigrationStep::Access(HybridWord::Cpu, op) => {
                    let found = self.change(lock, Word::Cpu, op);
                    let current = self
                        .lock_managers
                        .get_mut(&lock)
                        .and_then(|lock_manager| lock_manager.current.as_mut());
                    current.unwrap().1.handle(found);
                    continue;
                }
                MigrationStep::Access(HybridWord::Network, op) => {
                    lock_manager.asks = true;
                    let access =
                        AskedAccess { lock, word: Word::Network, op, asker: Asker::Manager };
                    return self.leave(lock.target, lock.target, access);
                }
                MigrationStep::Blocked(_) => {
                    lock_manager.current.as_mut().unwrap().1.again();
                    return self.at(self.now + self.costs.line, LockEvent::Work(lock));
                }
                MigrationStep::Granted(mode) => Answer::Granted(mode == LockMode::Network),
                MigrationStep::Elsewhere => Answer::Elsewhere,
                MigrationStep::Corrupt(found) => panic!("no member writes {found:#x}"),
            };
            lock_manager.current = None;
            lock_manager.moved += u64::from(answer == Answer::Granted(true));
            match answer {
                Answer::Granted(false) => lock_manager.manager.grant(origin),
                _ => lock_manager.manager.dismiss(origin),
            }
            self.answers[origin as usize] = Some(answer);
            let due = self.now + self.costs.wire.post + self.way(lock.target, origin);
            self.at(due, LockEvent::Turn(origin));
        }
    }
}
