//! How ranks start and find each other: the launcher, and the exchange by which a rank joins.
//!
//! The launcher makes the segment, starts the ranks with one end of a socket pair each, and answers:
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
//! The socket has no name and carries records, so nobody else can answer and no message comes in pieces. Nothing
//! of the exchange is on any path after the start.

mod greet;
mod job;
mod join;
mod label;
mod launch;
mod message;
mod outcome;
mod rank;

pub use job::Job;
pub use join::BootError;
pub(crate) use join::join;
pub use launch::{Launch, LaunchError};
pub use message::Refusal;
pub use outcome::{Outcome, RankExit};

pub use crate::segment::SegmentError;
pub(crate) use crate::segment::nonce;
pub use rustix::process::Signal;
pub use strait_core::layout::Config;

#[cfg(test)]
mod tests;
