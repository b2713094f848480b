//! A simulated fabric of RDMA devices: any number of ranks, in one thread or taking turns, over virtual time.
//!
//! [`Device`] does what [`strait_core::hca`] says and nothing that it does not say. Whatever is left open there is drawn
//! from the seed: how long anything takes, which connection is first, in which order the words of one write land, when
//! a piece is read between its posting and its completion, how often a request is refused for now. What a device must not
//! be asked to do is an assertion: above all to write from memory that changes before the request has completed.
//!
//! Nothing happens between two calls of [`Fabric::advance`], so a run is a function of its seed, and a test that prints
//! the seed can be played again.
//!
//! With a [`Wire`] time is not drawn: requests, copies and polls take what it says, and [`Fabric::play`] lets ranks take
//! turns by the clocks of their processors. So designs can be compared where the clock of the machine says nothing.
//!
//! Absent on purpose: threads, the clock of the machine.

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
