//! The lock manager of one part of a window (`[OneSided04]` §4.2, `[HybridLock09]` §3): a queue of requests, served in order.
//!
//! Requests are granted in the order of their coming; those that share the lock and follow each other are granted together. So
//! nobody is overtaken by those that could join who holds it. A grant never waits: who cannot have the lock yet stays in the
//! queue, and is granted when others give theirs back.

use core::fmt;

use super::LockType;

/// What a member asks of the manager.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Request {
    /// The lock.
    Lock(LockType),
    /// To take it back.
    Unlock,
}

/// A request that does not fit what the member has asked for before. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unexpected {
    /// The member's place.
    pub origin: u32,
    /// What it asked.
    pub request: Request,
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, request } = self;
        write!(f, "the member in place {origin} asks for {request:?} out of turn")
    }
}

impl core::error::Error for Unexpected {}

/// What the manager knows of one member.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Entry {
    state: Standing,
    /// The member behind it in the queue.
    next: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
enum Standing {
    #[default]
    Away,
    Waits(LockType),
    Holds(LockType),
}

/// The queue, over an entry for each member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Manager<E> {
    entries: E,
    /// First and last in the queue.
    ends: Option<(u32, u32)>,
    sharers: u32,
    exclusive: bool,
}

impl<E: AsRef<[Entry]> + AsMut<[Entry]>> Manager<E> {
    /// Nobody has the lock.
    pub fn new(entries: E) -> Self {
        Self { entries, ends: None, sharers: 0, exclusive: false }
    }

    /// Takes in a request of the member in place `origin`.
    ///
    /// # Errors
    ///
    /// [`Unexpected`].
    pub fn handle(&mut self, origin: u32, request: Request) -> Result<(), Unexpected> {
        let unexpected = Unexpected { origin, request };
        let entry = self.entries.as_mut().get_mut(origin as usize).ok_or(unexpected)?;
        match (entry.state, request) {
            (Standing::Away, Request::Lock(lock_type)) => {
                *entry = Entry { state: Standing::Waits(lock_type), next: None };
                self.join(origin);
            }
            (Standing::Holds(lock_type), Request::Unlock) => {
                entry.state = Standing::Away;
                self.give_back(lock_type);
            }
            _ => return Err(unexpected),
        }
        Ok(())
    }

    /// Who is first in the queue, if it could have the lock now.
    #[must_use]
    pub fn first(&self) -> Option<(u32, LockType)> {
        let (first, _) = self.ends?;
        let Standing::Waits(lock_type) = self.entries.as_ref()[first as usize].state else {
            return None;
        };
        let admits = match lock_type {
            LockType::Shared => !self.exclusive,
            LockType::Exclusive => !self.exclusive && self.sharers == 0,
        };
        admits.then_some((first, lock_type))
    }

    /// The first in the queue has the lock.
    pub fn grant(&mut self) {
        let Some((origin, lock_type)) = self.leave() else { return };
        self.entries.as_mut()[origin as usize].state = Standing::Holds(lock_type);
        match lock_type {
            LockType::Shared => self.sharers += 1,
            LockType::Exclusive => self.exclusive = true,
        }
    }

    /// The first in the queue is none of the manager's any more: it has the lock elsewhere, or looks for it there.
    pub fn dismiss(&mut self) {
        self.leave();
    }

    /// The member has died: it waits no more, and what it held is revoked. What that was.
    pub fn revoke(&mut self, origin: u32) -> Option<LockType> {
        let entry = self.entries.as_mut().get_mut(origin as usize)?;
        match core::mem::take(&mut entry.state) {
            Standing::Away => None,
            Standing::Waits(_) => {
                self.cut(origin);
                None
            }
            Standing::Holds(lock_type) => {
                self.give_back(lock_type);
                Some(lock_type)
            }
        }
    }

    /// What the member in place `origin` has of the manager.
    pub fn held(&self, origin: u32) -> Option<LockType> {
        match self.entries.as_ref().get(origin as usize)?.state {
            Standing::Holds(lock_type) => Some(lock_type),
            Standing::Away | Standing::Waits(_) => None,
        }
    }

    /// Whether nobody waits, and nobody has the lock of the manager.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.ends.is_none() && self.sharers == 0 && !self.exclusive
    }

    const fn give_back(&mut self, lock_type: LockType) {
        match lock_type {
            LockType::Shared => self.sharers -= 1,
            LockType::Exclusive => self.exclusive = false,
        }
    }

    fn join(&mut self, origin: u32) {
        self.ends = match self.ends {
            None => Some((origin, origin)),
            Some((first, last)) => {
                self.entries.as_mut()[last as usize].next = Some(origin);
                Some((first, origin))
            }
        };
    }

    /// Takes the first out of the queue.
    fn leave(&mut self) -> Option<(u32, LockType)> {
        let (first, last) = self.ends?;
        let entry = &mut self.entries.as_mut()[first as usize];
        let next = entry.next.take();
        self.ends = next.map(|next| (next, last));
        match core::mem::take(&mut entry.state) {
            Standing::Waits(lock_type) => Some((first, lock_type)),
            Standing::Away | Standing::Holds(_) => None,
        }
    }

    /// Takes a member out of the queue, wherever it stands.
    fn cut(&mut self, origin: u32) {
        let entries = self.entries.as_mut();
        let after = entries[origin as usize].next.take();
        let Some((first, last)) = self.ends else { return };
        if first == origin {
            self.ends = after.map(|after| (after, last));
            return;
        }
        let before = (0_u32..).zip(&mut *entries).find(|(_, entry)| entry.next == Some(origin));
        if let Some((before, entry)) = before {
            entry.next = after;
            self.ends = Some((first, if last == origin { before } else { last }));
        }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::LockType::{Exclusive, Shared};
    use super::*;

    fn manager() -> Manager<[Entry; 6]> {
        Manager::new([Entry::default(); 6])
    }

    fn served(manager: &mut Manager<[Entry; 6]>) -> Vec<u32> {
        let mut served = Vec::new();
        while let Some((origin, _)) = manager.first() {
            manager.grant();
            served.push(origin);
        }
        served
    }

    #[test]
    fn requests_are_served_in_order_and_sharers_together() {
        let mut manager = manager();
        let wants = [Shared, Shared, Exclusive, Shared, Shared];
        for (origin, lock_type) in (0..).zip(wants) {
            manager.handle(origin, Request::Lock(lock_type)).unwrap();
        }
        assert_eq!(served(&mut manager), [0, 1], "nobody overtakes who waits alone");
        manager.handle(1, Request::Unlock).unwrap();
        assert_eq!(served(&mut manager), []);
        manager.handle(0, Request::Unlock).unwrap();
        assert_eq!(served(&mut manager), [2]);
        manager.handle(2, Request::Unlock).unwrap();
        assert_eq!(served(&mut manager), [3, 4]);
        manager.handle(3, Request::Unlock).unwrap();
        manager.handle(4, Request::Unlock).unwrap();
        assert!(manager.is_idle());
    }

    #[test]
    fn the_dead_hold_nobody_up() {
        let mut manager = manager();
        for origin in 0..4 {
            manager.handle(origin, Request::Lock(Exclusive)).unwrap();
        }
        assert_eq!(served(&mut manager), [0]);
        assert_eq!(manager.revoke(2), None, "in the middle of the queue");
        assert_eq!(manager.revoke(3), None, "at its end");
        manager.handle(4, Request::Lock(Exclusive)).unwrap();
        assert_eq!(manager.revoke(0), Some(Exclusive));
        assert_eq!(served(&mut manager), [1]);
        assert_eq!(manager.revoke(1), Some(Exclusive));
        assert_eq!(served(&mut manager), [4]);
        assert_eq!(manager.revoke(5), None);
        manager.handle(4, Request::Unlock).unwrap();
        assert!(manager.is_idle());
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let mut manager = manager();
        let request = Request::Lock(Shared);
        assert_eq!(manager.handle(6, request), Err(Unexpected { origin: 6, request }));
        assert!(manager.handle(0, Request::Unlock).is_err());
        manager.handle(0, request).unwrap();
        assert!(manager.handle(0, request).is_err());
        assert_eq!(served(&mut manager), [0]);
        assert!(manager.handle(0, request).is_err());
    }
}
