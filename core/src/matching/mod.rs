//! Decides which message goes to which receive (MPI-4.1 §3.2.4 and §3.5; libfabric's
//! `fi_tagged(3)`).
//!
//! There are two queues: receives that wait for a message ([`PostedQueue`]) and messages that wait
//! for a receive ([`UnexpectedQueue`]). Both are generic over the [`Selector`] of a receive. The
//! entries of a queue are linked into *bins*, each in the order of posting or arrival.
//!
//! | Selector          | A receive names                             | Bins                 |
//! |-------------------|---------------------------------------------|----------------------|
//! | [`Pattern`]       | context, source, 31-bit tag, with wildcards | one for each pattern |
//! | [`MaskedPattern`] | source, 64-bit tag, mask of bits to ignore  | one                  |
//!
//! With [`Pattern`] both queues answer in constant time, wildcards included. A receive is in the
//! bin of its own pattern, and an arrival compares the oldest entries of the at most four bins that
//! match it. A message is in the bin of its own envelope and, once a receive with a wildcard has
//! looked, in those of the three patterns with wildcards that match it. A receive looks into one of
//! them. A hash map leads to the bin.
//!
//! An entry is filed late. The youngest entries, up to 32, are in a list beside the bins, which a
//! search visits from the front. It compares one word of each, which envelope and pattern have in
//! common. Most entries leave from there, and never see the hash map. The first receives, while all
//! have one pattern, are in no list either: a window of receives costs no look-up at all.
//!
//! With [`MaskedPattern`] a search visits the entries that are older than the one it finds. A mask
//! may have any bits, so no fixed set of bins covers a message. The oldest entry nearly always
//! matches.
//!
//! The queues store a value of the caller's for each entry and never look at it. This module has no
//! communicators, no payloads and no locks.

mod bins;
mod chains;
mod envelope;
mod first_receives;
mod masked;
mod posted;
mod selector;
mod steps;
#[cfg(test)]
mod tests;
mod unexpected;
mod unfiled;

pub(crate) use bins::fold;
pub use envelope::{ANY_SOURCE, ANY_TAG, Envelope, Pattern, TAG_MAX};
pub(crate) use first_receives::EMPTY_HANDLE;
pub use masked::{MaskedEnvelope, MaskedPattern};
pub use posted::{Ahead, PostedQueue};
pub use selector::Selector;
pub use unexpected::{Found, UnexpectedQueue};
