//! A simulated fabric of RDMA devices: any number of ranks, in one thread or in turns, over virtual
//! time.
//!
//! [`Device`] does what [`strait_core::hca`] promises, and nothing more. All behaviour that the
//! trait leaves open is drawn from the seed:
//!
//! - the time of each operation, and the order in which connections proceed;
//! - the order in which the words of one write land;
//! - the time at which a piece is read between its posting and its completion;
//! - the requests that are refused temporarily.
//!
//! Forbidden use of a device fails an assertion, above all a write from memory that changes before
//! the request has completed.
//!
//! Nothing happens between two calls of [`Fabric::advance`], so a run is a function of its seed,
//! and a test that prints the seed can be repeated.
//!
//! With a [`Wire`] time is not drawn: requests, copies and polls take its times, and
//! [`Fabric::play`] gives ranks turns by the clocks of their processors. This compares designs
//! independently of the machine's clock.
//!
//! Threads and the clock of the machine are absent on purpose.

mod device;
mod end;
mod fabric;
mod memory;
mod play;
mod request;
mod wire;

pub use device::Device;
pub use fabric::{Fabric, Model};
pub use play::Step;
pub use wire::Wire;
