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
    /// The member holds the lock at the CPU word, exclusively or shared. One byte says which: a
    /// read of two that were written one by one would wait for all writes before it.
    CpuExclusive,
    CpuShared,
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
    /// Returns the standing of a member that holds a lock of this type at the CPU word.
    pub(super) const fn cpu(lock_type: LockType) -> Self {
        match lock_type {
            LockType::Exclusive => Self::CpuExclusive,
            LockType::Shared => Self::CpuShared,
        }
    }

    /// Returns whether the member has the lock.
    pub(super) const fn is_held(self) -> bool {
        matches!(
            self,
            Self::CpuExclusive
                | Self::CpuShared
                | Self::Network(_)
                | Self::Managed
                | Self::Queue(..)
        )
    }
}
