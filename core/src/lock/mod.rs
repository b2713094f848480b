//! Locks on words that several processes reach.

mod revocable;

pub use revocable::Lock;
