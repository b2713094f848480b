//! Locks on words that several processes access.
//!
//! [`RevocableLock`] guards sequences of a few system calls. The other locks are for windows
//! (`[OneSided04]` chapter 4, `[HybridLock09]`). They are shared or exclusive, on words that a
//! processor or a device accesses ([`RemoteWord`]). Each design is a value that returns the next
//! access to a word and processes the value found there. The embedder makes the accesses, waits,
//! and knows which members are alive.
//!
//! Only read-modify-write operations change a lock word. A member that releases a lock subtracts
//! what it added, and so does not undo concurrent changes of other members.

mod attempt;
mod backoff;
mod hybrid;
mod manager;
mod mcs;
mod mcs_release;
mod migration;
mod policy;
mod revocable;
mod word;
mod words;

pub use attempt::{Attempt, AttemptOutcome};
pub use backoff::LockBackoff;
pub use hybrid::{Hybrid, HybridStep, HybridWord};
pub use manager::{LockManager, LockMember, LockRequest, UnexpectedRequest};
pub use mcs::{Mcs, McsStep, McsWord};
pub use mcs_release::McsRelease;
pub use migration::{Migration, MigrationStep};
pub use policy::{
    FixedMode, Follow, History, Hysteresis, LockCosts, LockMode, MeasuredCost, Policy,
};
pub use revocable::RevocableLock;
pub use word::{Coding, LockState, LockType, LockWord, RemoteWord, WordAccess};
pub use words::LockWords;
