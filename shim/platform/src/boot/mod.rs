//! The start of a job: launchers, and the exchanges by which a rank joins.
//!
//! Strait's launcher makes the segments, one for each node. It starts each rank with one end of a
//! socket pair, and answers:
//!
//! ```text
//! rank                                     launcher
//!  | HELLO   versions, rank, pid               |
//!  |------------------------------------------>|
//!  | nonce, length, ranks, nodes, the memfd    |  WELCOME
//!  |<------------------------------------------|
//!  | maps, checks the nonce, says `Alive`      |
//! ```
//!
//! The socket has no name and carries records, so no other process can answer, and no message comes
//! in pieces.
//!
//! Every known launcher, also Strait's, gives each rank a second socket, and serves a key-value
//! store there (`pmi`). Under a launcher that does not know Strait, the ranks do the rest. The
//! first rank of each node makes the node's segment (`meet`) and shares it with the others, as
//! Strait's launcher would (`share`). Other descriptors reach all ranks of a job on one host in the
//! same way.
//!
//! No code of this module runs on any path after the start.

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
#[doc(hidden)]
pub mod parsers;
mod pmi;
mod rank;
mod registry;
mod rendezvous;
mod share;
mod start;
mod store;
mod universe;

pub use directory::PeerAddress;
pub use directory::{Directory, host};
pub use error::BootError;
pub use job::Job;
pub use join::{Membership, join, join_with};
pub use launch::{Launch, LaunchError};
pub use message::JoinRefusal;
pub use outcome::{JobOutcome, RankExit};
pub use pmi::mapping::MappingError;
pub use share::{peer_process, share};
pub use start::{JobStart, Launcher};
pub use store::{InProcess, KeyValueStore, SharedStore, StoreError};
pub(crate) use universe::UNIVERSE_FILE;
pub use universe::{HEAP_BYTES, Universe};

pub use crate::segment::{SegmentError, nonce};

pub use rustix::process::Signal;
pub use strait_core::layout::SegmentConfig;

#[cfg(test)]
mod tests;
