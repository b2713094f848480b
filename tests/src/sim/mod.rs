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
//! Absent on purpose: threads, clocks, a model of bandwidth.

mod device;
mod end;
mod fabric;
mod memory;
mod request;

pub use device::Device;
pub use fabric::{Fabric, Model};
