//! How ranks start and find each other: launchers, and the exchanges by which a rank joins.
//!
//! Our own launcher makes the segments, one for each node, starts the ranks with one end of a socket pair each, and answers:
//!
//! ```text
//! rank                                     launcher
//!  | HELLO   versions, rank, pid               |
//!  |------------------------------------------>|
//!  |        nonce, length, ranks, the memfd    |  WELCOME
//!  |<------------------------------------------|
//!  | maps, checks the nonce, says `Alive`      |
//! ```
//!
//! The socket has no name and carries records, so nobody else can answer and no message comes in pieces.
//!
//! Every launcher that we know, ours too, gives each rank a second socket and answers there as a key-value store
//! (`pmi`). Under a launcher that knows nothing of Strait the ranks do the rest themselves: the first rank of each node
//! makes the node's segment (`meet`) and hands it to the others as our launcher would (`share`). The same way any other
//! descriptor comes to all ranks of a job on one host.
//!
//! Nothing of all this is on any path after the start.

mod directory;
mod error;
mod greet;
mod job;
mod join;
mod label;
mod launch;
mod meet;
mod message;
mod outcome;
pub(crate) mod parsers;
mod pmi;
mod rank;
mod registry;
mod rendezvous;
mod share;
mod start;
mod store;
mod universe;

pub use directory::Contact;
pub(crate) use directory::{Directory, host};
pub use error::BootError;
pub use job::Job;
pub(crate) use join::{Membership, join, join_with};
pub use launch::{Launch, LaunchError};
pub use message::Refusal;
pub use outcome::{Outcome, RankExit};
pub use pmi::mapping::MappingError;
pub(crate) use share::{peer_process, share};
pub use start::{Launcher, Start};
pub(crate) use store::InProcess;
pub use store::{KeyValueStore, StoreError};
pub use universe::Universe;

pub use crate::segment::SegmentError;
pub(crate) use crate::segment::nonce;
pub use rustix::process::Signal;
pub use strait_core::layout::Config;

#[cfg(test)]
mod tests;
