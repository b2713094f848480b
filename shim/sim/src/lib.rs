//! Virtual time: Strait's state machines on simulated devices, nodes and processors.
//!
//! Nothing here depends on the machine or on its clock: a run is the same everywhere, to the
//! nanosecond. The tests use it to repeat schedules. `strait figures` uses it for what two
//! processors cannot show.
//!
//! - [`SimFabric`]: RDMA devices of any number of ranks, below.
//! - [`Mesh`]: ranks with links of the RDMA channel between them, over any device.
//! - [`ring`]: latency and bandwidth of the designs of the RDMA channel.
//! - [`barrier`]: barriers of nodes of several processes.
//! - [`scale`]: jobs of up to 10^4 nodes, with links that are made at the first contact.
//! - [`engines`]: whole engines: the applications of a paper, and jobs of up to 10^3 nodes.
//! - [`locks`]: the designs of window locks, with the scenarios of two papers.
//!
//! # The fabric
//!
//! It has any number of ranks, in one thread or in turns.
//!
//! [`SimDevice`] does what [`strait_core::hca`] promises, and nothing more. All behaviour that the
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
//! Nothing happens between two calls of [`SimFabric::advance`], so a run is a function of its seed,
//! and a test that prints the seed can be repeated.
//!
//! With a [`Wire`] time is not drawn: requests, copies and polls take its times, and
//! [`SimFabric::play`] gives ranks turns by the clocks of their processors. This compares designs
//! independently of the machine's clock.
//!
//! Threads and the clock of the machine are absent on purpose.

pub mod barrier;
mod block;
mod device;
mod driver;
mod end;
pub mod engines;
mod fabric;
mod links;
pub mod locks;
mod memory;
mod mesh;
mod model;
mod play;
mod request;
pub mod ring;
pub mod scale;
mod wire;

pub use block::Block;
pub use device::SimDevice;
pub use fabric::SimFabric;
pub use mesh::{Mesh, MeshNode, Rig};
pub use model::Model;
pub use play::Step;
pub use wire::Wire;
