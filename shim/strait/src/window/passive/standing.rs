//! A member's standing at a lock.

use strait_core::lock::LockType;

/// A member's standing at the lock of a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LockStanding {
    /// The member has no lock and wants none.
    None,
    /// `lock_all` was called, and there was no operation to the target yet.
    Lazy,
    /// The member wants the lock.
    Pursuing,
    /// The member holds the lock at the CPU word.
    Cpu(LockType),
    /// The member holds the lock at the network word.
    Network(LockType),
    /// The target's manager has granted the lock.
    Managed,
    /// The member holds the lock of a queue; false: the queue is broken, and the member took the
    /// lock without it.
    Queue(LockType, bool),
    /// The member promised that no other member wants the lock.
    Unchecked,
}

impl LockStanding {
    /// Returns whether the member has the lock.
    pub(super) const fn is_held(self) -> bool {
        matches!(self, Self::Cpu(_) | Self::Network(_) | Self::Managed | Self::Queue(..))
    }
}
