//! Which message goes to which receive (MPI-4.1 §3.2.4 and §3.5).
//!
//! Two queues: receives that wait for a message ([`Posted`]) and messages that wait for a receive ([`Unexpected`]).
//! Both answer in constant time whatever they hold, wildcards included. Nothing is ever searched: entries hang in
//! *bins*, one for each distinct pattern, each bin in the order of posting or arrival, and a hash map leads to the
//! bin. A receive hangs in the one bin of its own pattern, and an arrival compares the oldest of the at most four
//! bins that fit it. A message hangs in the four bins of the patterns that fit it, and a receive looks into one.
//!
//! The numbers that stand for receives and messages are the caller's own; matching does not look at them.
//! Absent on purpose: ranks and communicators as objects, payloads, any lock.

mod bins;
mod chains;
mod envelope;
mod posted;
mod steps;
#[cfg(test)]
mod tests;
mod unexpected;

pub(crate) use bins::fold;
pub use envelope::{ANY_SOURCE, ANY_TAG, Envelope, Pattern, TAG_MAX};
pub use posted::{Ahead, Posted};
pub use unexpected::{Found, Unexpected};
