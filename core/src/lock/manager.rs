//! The lock manager of one part of a window (`[OneSided04]` §4.2, `[HybridLock09]` §3): a queue of
//! requests, served in order.
//!
//! The manager grants requests in the order of arrival. It grants consecutive shared requests
//! together. A request for a shared lock therefore does not overtake an earlier exclusive one, even
//! while other members share the lock. A grant never waits. A member that cannot have the lock yet
//! stays in the queue, and is granted the lock when others release it.
//!
//! A member that has other locks of the window overtakes with [`LockRequest::ShareAhead`]. Without
//! that, two members in `lock_all` could wait for each other for ever: each would wait behind an
//! exclusive request, which waits for the lock that the other member shares.

use core::fmt;

use super::LockType;

/// A request of a member to the manager.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LockRequest {
    /// Acquire the lock.
    Lock(LockType),
    /// Share the lock, ahead of the exclusive requests that wait. For members that have, or may
    /// have, locks of other members.
    ShareAhead,
    /// Release the lock.
    Unlock,
}

/// A request that does not fit the member's earlier requests. The manager changed nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnexpectedRequest {
    /// Place of the member.
    pub origin: u32,
    /// The request.
    pub request: LockRequest,
}

impl fmt::Display for UnexpectedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, request } = self;
        write!(f, "member {origin} sent a request that does not fit its earlier ones: {request:?}")
    }
}

impl core::error::Error for UnexpectedRequest {}

/// The manager's record of one member.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct LockMember {
    state: MemberState,
    /// The next member in the queue.
    next: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
enum MemberState {
    #[default]
    Away,
    Waits(LockType),
    Holds(LockType),
}

/// A queue of members, with an entry for each.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LockManager<E> {
    entries: E,
    /// First and last member in the queue.
    ends: Option<(u32, u32)>,
    sharers: u32,
    exclusive: bool,
}

impl<E: AsRef<[LockMember]> + AsMut<[LockMember]>> LockManager<E> {
    /// Creates a manager of a free lock with an empty queue.
    pub fn new(entries: E) -> Self {
        Self { entries, ends: None, sharers: 0, exclusive: false }
    }

    /// Processes a request of member `origin`.
    ///
    /// # Errors
    ///
    /// [`UnexpectedRequest`] if the member does not exist, or if the request does not fit its
    /// earlier ones.
    pub fn handle(&mut self, origin: u32, request: LockRequest) -> Result<(), UnexpectedRequest> {
        let unexpected = UnexpectedRequest { origin, request };
        let entry = self.entries.as_mut().get_mut(origin as usize).ok_or(unexpected)?;
        match (entry.state, request) {
            (MemberState::Away, LockRequest::Lock(lock_type)) => {
                *entry = LockMember { state: MemberState::Waits(lock_type), next: None };
                self.join(origin);
            }
            (MemberState::Away, LockRequest::ShareAhead) => {
                let next = self.ends.map(|(first, _)| first);
                *entry = LockMember { state: MemberState::Waits(LockType::Shared), next };
                self.ends = Some((origin, self.ends.map_or(origin, |(_, last)| last)));
            }
            (MemberState::Holds(lock_type), LockRequest::Unlock) => {
                entry.state = MemberState::Away;
                self.give_back(lock_type);
            }
            _ => return Err(unexpected),
        }
        Ok(())
    }

    /// Returns the first member in the queue, if it could have the lock now.
    #[must_use]
    pub fn first(&self) -> Option<(u32, LockType)> {
        let (first, _) = self.ends?;
        let MemberState::Waits(lock_type) = self.entries.as_ref()[first as usize].state else {
            return None;
        };
        let admits = match lock_type {
            LockType::Shared => !self.exclusive,
            LockType::Exclusive => !self.exclusive && self.sharers == 0,
        };
        admits.then_some((first, lock_type))
    }

    /// Grants the lock to a member in the queue. It was the first when the work on its request
    /// began.
    pub fn grant(&mut self, origin: u32) {
        let Some(lock_type) = self.leave(origin) else { return };
        self.entries.as_mut()[origin as usize].state = MemberState::Holds(lock_type);
        match lock_type {
            LockType::Shared => self.sharers += 1,
            LockType::Exclusive => self.exclusive = true,
        }
    }

    /// Removes a member from the queue without a grant. It has the lock elsewhere, or looks for it
    /// there.
    pub fn dismiss(&mut self, origin: u32) {
        self.leave(origin);
    }

    /// Removes a member that has died from the queue, and revokes its lock. Returns the type of the
    /// revoked lock.
    pub fn revoke(&mut self, origin: u32) -> Option<LockType> {
        let entry = self.entries.as_mut().get_mut(origin as usize)?;
        match core::mem::take(&mut entry.state) {
            MemberState::Away => None,
            MemberState::Waits(_) => {
                self.cut(origin);
                None
            }
            MemberState::Holds(lock_type) => {
                self.give_back(lock_type);
                Some(lock_type)
            }
        }
    }

    /// Returns the lock that the manager has granted to member `origin`, if any.
    pub fn held(&self, origin: u32) -> Option<LockType> {
        match self.entries.as_ref().get(origin as usize)?.state {
            MemberState::Holds(lock_type) => Some(lock_type),
            MemberState::Away | MemberState::Waits(_) => None,
        }
    }

    /// Returns true if no member waits and no member has a lock from the manager.
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

    /// Removes a member from the queue, and returns the lock that it waited for. Returns `None` if
    /// the member does not wait.
    fn leave(&mut self, origin: u32) -> Option<LockType> {
        let entry = self.entries.as_mut().get_mut(origin as usize)?;
        let MemberState::Waits(lock_type) = entry.state else { return None };
        entry.state = MemberState::Away;
        self.cut(origin);
        Some(lock_type)
    }

    /// Removes a member from any position in the queue.
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
    use std::vec;
    use std::vec::Vec;

    use super::LockType::{Exclusive, Shared};
    use super::*;

    fn manager() -> LockManager<[LockMember; 6]> {
        LockManager::new([LockMember::default(); 6])
    }

    fn served(manager: &mut LockManager<[LockMember; 6]>) -> Vec<u32> {
        let mut served = Vec::new();
        while let Some((origin, _)) = manager.first() {
            manager.grant(origin);
            served.push(origin);
        }
        served
    }

    #[test]
    fn requests_are_served_in_order_and_sharers_together() {
        let mut manager = manager();
        let wants = [Shared, Shared, Exclusive, Shared, Shared];
        for (origin, lock_type) in (0..).zip(wants) {
            manager.handle(origin, LockRequest::Lock(lock_type)).unwrap();
        }
        assert_eq!(served(&mut manager), [0, 1], "a shared request must not overtake");
        manager.handle(1, LockRequest::Unlock).unwrap();
        assert_eq!(served(&mut manager), []);
        manager.handle(0, LockRequest::Unlock).unwrap();
        assert_eq!(served(&mut manager), [2]);
        manager.handle(2, LockRequest::Unlock).unwrap();
        assert_eq!(served(&mut manager), [3, 4]);
        manager.handle(3, LockRequest::Unlock).unwrap();
        manager.handle(4, LockRequest::Unlock).unwrap();
        assert!(manager.is_idle());
    }

    #[test]
    fn a_member_with_other_locks_shares_ahead_of_exclusive_requests() {
        let mut manager = manager();
        manager.handle(0, LockRequest::Lock(Shared)).unwrap();
        manager.handle(1, LockRequest::Lock(Exclusive)).unwrap();
        manager.handle(2, LockRequest::Lock(Shared)).unwrap();
        assert_eq!(served(&mut manager), [0]);
        manager.handle(3, LockRequest::ShareAhead).unwrap();
        assert_eq!(served(&mut manager), [3]);
        for holder in [3, 0] {
            manager.handle(holder, LockRequest::Unlock).unwrap();
        }
        assert_eq!(served(&mut manager), [1]);
        manager.handle(3, LockRequest::ShareAhead).unwrap();
        assert_eq!(served(&mut manager), [], "no member shares an exclusive lock");
        manager.handle(1, LockRequest::Unlock).unwrap();
        assert_eq!(served(&mut manager), [3, 2]);
        manager.handle(2, LockRequest::Unlock).unwrap();
        manager.handle(3, LockRequest::Unlock).unwrap();
        manager.handle(4, LockRequest::ShareAhead).unwrap();
        assert_eq!((served(&mut manager), manager.held(4)), (vec![4], Some(Shared)));
    }

    #[test]
    fn a_member_behind_the_first_is_granted_or_dismissed_too() {
        let mut manager = manager();
        for origin in 0..3 {
            manager.handle(origin, LockRequest::Lock(Exclusive)).unwrap();
        }
        manager.grant(1);
        assert_eq!((manager.held(1), manager.first()), (Some(Exclusive), None));
        manager.dismiss(2);
        manager.dismiss(2);
        manager.handle(1, LockRequest::Unlock).unwrap();
        assert_eq!(served(&mut manager), [0]);
        manager.handle(0, LockRequest::Unlock).unwrap();
        assert!(manager.is_idle());
    }

    #[test]
    fn dead_members_do_not_block_the_queue() {
        let mut manager = manager();
        for origin in 0..4 {
            manager.handle(origin, LockRequest::Lock(Exclusive)).unwrap();
        }
        assert_eq!(served(&mut manager), [0]);
        assert_eq!(manager.revoke(2), None, "member in the middle of the queue");
        assert_eq!(manager.revoke(3), None, "member at the end of the queue");
        manager.handle(4, LockRequest::Lock(Exclusive)).unwrap();
        assert_eq!(manager.revoke(0), Some(Exclusive));
        assert_eq!(served(&mut manager), [1]);
        assert_eq!(manager.revoke(1), Some(Exclusive));
        assert_eq!(served(&mut manager), [4]);
        assert_eq!(manager.revoke(5), None);
        manager.handle(4, LockRequest::Unlock).unwrap();
        assert!(manager.is_idle());
    }

    #[test]
    fn a_request_that_does_not_fit_changes_nothing() {
        let mut manager = manager();
        let request = LockRequest::Lock(Shared);
        assert_eq!(manager.handle(6, request), Err(UnexpectedRequest { origin: 6, request }));
        assert!(manager.handle(0, LockRequest::Unlock).is_err());
        manager.handle(0, request).unwrap();
        assert!(manager.handle(0, request).is_err());
        assert_eq!(served(&mut manager), [0]);
        assert!(manager.handle(0, request).is_err());
    }
}
