//! Random programs of one-sided operations and synchronisations, and the judge of what they left.
//!
//! A program goes on in phases. In each, some ranks reach some parts; between phases everybody knows that all is done. The judge
//! has the contents of all parts before and after a phase, and what every operation gave back; it knows what MPI lets
//! come of that (MPI-4.1 §12.7), and nothing of how it came.

mod model;
mod phase;
mod play;
pub mod simulated;

pub use model::{Did, is_possible};
pub use play::{run, run_mirrored};
