//! What the software devices of a host share, as far as it is atomics: who may reach into which region, which receives
//! are posted, and a lock that outlives its holder.
//!
//! The devices are the `strait` crate's (`strait::hca::soft`), and so is what moves the data. Zeroed memory is the empty state
//! of every structure.

mod lock;
mod receive;
mod region;

pub use lock::Lock;
pub use receive::{Arrival, Lent, Receives, Slot, Use};
pub use region::{Claim, RegionEntry};
