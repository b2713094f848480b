//! Random programs of one-sided operations and synchronisations, and the judge of their results.
//!
//! A program has phases. In each, some ranks access some parts. Between phases every rank knows
//! that all operations are complete. The judge knows the contents of all parts before and after a
//! phase, and the results of every operation. It checks them against the outcomes that MPI permits
//! (MPI-4.1 §12.7), and knows nothing of the implementation.

mod model;
mod phase;
mod play;
pub mod simulated;

pub use model::{Did, is_possible};
pub use play::{run, run_mirrored};
