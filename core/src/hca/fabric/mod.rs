//! What the software devices of a host share, as far as it is atomics: who may reach into which region, and which receives
//! are posted.
//!
//! The devices are the `strait` crate's (`strait::hca::soft`), and so is what moves the data. Zeroed memory is the empty state
//! of every structure.

mod receive;
mod region;

pub use receive::{Arrival, Lent, Receives, Slot, Use};
pub use region::{Claim, RegionEntry};
