//! Strait's use of the operating system: within a node, and to start a job.
//!
//! [`segment`] makes the memory that the ranks of a node share, and [`boot`] gives it to them.
//! [`liveness`] tells which ranks are alive. [`backoff`] spins and yields in a wait, [`sleep`] puts
//! the rank to sleep, and [`wakeup_socket`] wakes it. [`cma`] copies between processes. [`record`]
//! tells observers what a rank waits for, and [`observe`] reads it.
//!
//! This crate is a part of the crate `strait`, which re-exports what programs need. Its own
//! interface may change with every version.

pub mod backoff;
pub mod boot;
pub mod clock;
pub mod cma;
pub mod env;
pub mod events;
pub mod liveness;
pub mod lock;
mod nodes;
pub mod observe;
pub mod record;
pub mod segment;
pub mod sleep;
pub mod topology;
pub mod wakeup_socket;

pub use nodes::{Nodes, Rank};
