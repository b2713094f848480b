//! The RDMA channel over any device: with every design, bytes come out as they went in.
//!
//! [`Mesh`] connects some ranks of a [`Rig`] in one thread. The scenarios are [`streams`],
//! [`faults`] and [`knocks`].

mod block;
pub mod drained;
pub mod faults;
pub mod knocks;
mod mesh;
pub mod streams;

pub use block::Block;
pub use mesh::{Mesh, Node, Rig};
