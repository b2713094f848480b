//! The atomics that the software devices of a host share: access to regions, posted receives, and
//! ends of connections.
//!
//! The devices (`strait::hca::soft`) are in the `strait` crate, and so is the code that moves data.
//! Zeroed memory is the empty state of every structure.

mod connection;
mod receive;
mod region;

pub use connection::{ConnectionEnd, EndId, EndState};
pub use receive::{ReceiveBuffer, ReceiveResult, ReceiveSlot, Receives, Use};
pub use region::{RegionClaim, RegionEntry};
