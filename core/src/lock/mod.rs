//! Locks on words that several processes reach.
//!
//! [`Lock`] guards what a few system calls do. All else here is for windows (`[OneSided04]` chapter 4, `[HybridLock09]`): locks that
//! are shared or exclusive, on words that a processor reaches or a device ([`RemoteWord`]). Each design is a value that says which
//! access to which word comes next and takes what was found there; the embedder makes the accesses, waits, and knows who lives.
//!
//! A lock word changes by read-modify-write alone, and who gives a lock back subtracts what it added: so nobody undoes what
//! another did meanwhile.

mod attempt;
mod backoff;
mod hybrid;
mod manager;
mod mcs;
mod migration;
mod policy;
mod revocable;
mod word;
mod words;

pub use attempt::{Attempt, Outcome};
pub use backoff::Backoff;
pub use hybrid::{Hybrid, HybridStep, HybridWord};
pub use manager::{Entry, Manager, Request, Unexpected};
pub use mcs::{Mcs, McsRelease, McsStep, McsWord};
pub use migration::{Migration, MigrationStep};
pub use policy::{Follow, Hysteresis, Mode, Pinned, Policy};
pub use revocable::Lock;
pub use word::{Coding, LockType, LockWord, Op, RemoteWord, State};
pub use words::Words;
