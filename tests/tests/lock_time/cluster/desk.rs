//! The lock managers of a cluster.

use strait::LockDesign;
use strait_core::lock::{Entry, HybridWord, Manager, Migration, MigrationStep, Mode, Request};

use super::{Access, Answer, Asker, Event, Lock, State, Word};

/// One target's manager of one lock.
pub(super) struct Desk {
    pub(super) manager: Manager<Vec<Entry>>,
    pub(super) current: Option<(u32, Migration)>,
    /// It waits for its device.
    pub(super) asks: bool,
    pub(super) moved: u64,
}

impl State {
    pub(super) fn come(&mut self, lock: Lock, origin: u32, request: Request) {
        let target = lock.target as usize;
        let has_thread = matches!(self.design, LockDesign::Thread | LockDesign::Event);
        if self.outside[target] && !has_thread {
            return self.missed[target].push(Event::Come(lock, origin, request));
        }
        let idle = self.now >= self.managers[target];
        let begin = match self.design {
            LockDesign::Event if idle => self.now + self.costs.wake,
            _ => self.now,
        };
        let done = begin.max(self.managers[target]) + self.costs.serve;
        self.managers[target] = done;
        self.at(done, Event::Serve(lock, origin, request));
    }

    /// A manager grants what it can.
    pub(super) fn work(&mut self, lock: Lock) {
        let size = self.nodes.len() as u32;
        loop {
            let desk = self.desks.get_mut(&lock).unwrap();
            if desk.asks {
                return;
            }
            if desk.current.is_none() {
                let Some((origin, lock_type)) = desk.manager.first() else { return };
                let moves = Some(desk.moved + 1);
                let migration = Migration::new(origin, lock_type, lock.target, size, moves);
                desk.current = Some((origin, migration));
            }
            let (origin, migration) = desk.current.unwrap();
            let answer = match migration.step() {
                _ if self.design != LockDesign::Hybrid => Answer::Granted(false),
                MigrationStep::Access(HybridWord::Cpu, op) => {
                    let found = self.change(lock, Word::Cpu, op);
                    let current = self.desks.get_mut(&lock).and_then(|desk| desk.current.as_mut());
                    current.unwrap().1.handle(found);
                    continue;
                }
                MigrationStep::Access(HybridWord::Network, op) => {
                    desk.asks = true;
                    let access = Access { lock, word: Word::Network, op, asker: Asker::Manager };
                    return self.leave(lock.target, lock.target, access);
                }
                MigrationStep::Blocked(_) => {
                    desk.current.as_mut().unwrap().1.again();
                    return self.at(self.now + self.costs.line, Event::Work(lock));
                }
                MigrationStep::Granted(mode) => Answer::Granted(mode == Mode::Network),
                MigrationStep::Elsewhere => Answer::Elsewhere,
            };
            desk.current = None;
            desk.moved += u64::from(answer == Answer::Granted(true));
            match answer {
                Answer::Granted(false) => desk.manager.grant(),
                _ => desk.manager.dismiss(),
            }
            self.answers[origin as usize] = Some(answer);
            let due = self.now + self.costs.wire.post + self.way(lock.target, origin);
            self.at(due, Event::Turn(origin));
        }
    }
}
