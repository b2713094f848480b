//! The atomics that the software devices of a host share: access to regions, and posted receives.
//!
//! The devices (`strait::hca::soft`) are in the `strait` crate, and so is the code that moves data.
//! Zeroed memory is the empty state of every structure.

mod receive;
mod region;

pub use receive::{ReceiveBuffer, ReceiveResult, ReceiveSlot, Receives, Use};
pub use region::{RegionClaim, RegionEntry};
