//! The RDMA channel: a pipe of bytes to each peer, built on RDMA alone (`[RdmaChannel04]` §3.2).
//!
//! The paper's five functions are [`Link::init`] and [`Link::connect`], [`Link::put`],
//! [`Link::get`], and [`Link::finalize`]. `put` and `get` take the bytes of several parts and
//! return how many they took or delivered, from none to all. Nothing here waits. Bytes come out in
//! the order in which they went in.
//!
//! Each [`Design`] of the paper is a file: `basic`, `piggyback`, `pipeline`, `zero_copy`, and
//! `rendezvous_write`, with which the paper compares. They share these parts:
//!
//! - [`Landing`] and [`Counter`]: memory that the peer's device writes.
//! - `slot` and `credit`: the ring of all designs but the first.
//! - `large`: users' memory during a transfer.
//! - `poster`: posts requests and tracks their completion.
//! - [`LinkConfig`]: the layout of the lent memory.
//! - `wakeup`: wakes a sleeping peer.
//!
//! The embedder lends registered memory; nothing here allocates. Both sides use the same layout.
//!
//! Absent on purpose: messages and matching, which are above; time-outs; a thread.

mod address;
mod announcement;
mod basic;
mod config;
mod credit;
mod direct;
mod error;
mod landing;
mod large;
mod link;
mod piggyback;
mod pipeline;
mod poster;
mod rendezvous_write;
mod slot;
#[cfg(test)]
mod tests;
mod wakeup;
mod zero_copy;

pub use address::LinkAddress;
pub use config::{Design, LinkConfig, LinkMemory};
pub use error::{Cause, LinkError};
pub use landing::{Counter, Landing, LandingHead};
pub use link::Link;
pub use poster::Operations;
pub use wakeup::{WakeupSource, WakeupWords, WriteCounts};
