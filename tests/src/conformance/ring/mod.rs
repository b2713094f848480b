//! The RDMA channel over any device: with every design, bytes come out as they went in.
//!
//! [`Mesh`](strait_sim::Mesh) connects some ranks of a [`Rig`](strait_sim::Rig) in one thread. The
//! scenarios are [`streams`], [`faults`] and [`knocks`].

pub mod drained;
pub mod faults;
pub mod knocks;
pub mod streams;
