//! How this program measures: the ranks of a job in pairs, samples of work beside the bare
//! hardware, and the report. The benches, the demo and `strait tune` are built on it.

pub(crate) mod computation;
pub(crate) mod device;
pub(crate) mod footprint;
pub(crate) mod in_turn;
pub(crate) mod lane;
pub(crate) mod line;
pub(crate) mod memory;
pub(crate) mod path;
pub(crate) mod report;
pub(crate) mod sampling;
pub(crate) mod stage;
pub(crate) mod stats;
pub(crate) mod together;
