//! The RDMA channel: a pipe of bytes to each peer, made of RDMA alone (`[RdmaChannel04]` §3.2).
//!
//! The paper's five functions are [`Link::init`] and [`Link::connect`], [`Link::put`], [`Link::get`], and
//! [`Link::finalize`]. `put` and `get` take the bytes of several parts and say how many they took or delivered, from
//! none to all: nothing here waits. Bytes come out in the order in which they went in.
//!
//! Each [`Design`] of the paper is a file: `basic`, `piggyback`, `pipeline`, `zero_copy`, and `rendezvous_write`, which the
//! paper compares with. What they share: [`Landing`] and [`Counter`], the memory that the peer's device writes; `slot` and
//! `credit`, the ring of all but the first; `large`, users' memory under transfer; `poster`, which posts requests and remembers
//! how far they are; [`Config`], what lies where; `knock`, which wakes a peer that sleeps.
//!
//! The memory comes from the embedder, registered; nothing here allocates. Both sides use the same layout.
//! Absent on purpose: messages and matching, which are above; time-outs; a thread.

mod basic;
mod card;
mod config;
mod credit;
mod direct;
mod error;
mod knock;
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
mod zero_copy;

pub use card::Card;
pub use config::{Config, Design, Lent};
pub use error::{Cause, LinkError};
pub use knock::{Porch, Told, Vigil};
pub use landing::{Counter, Head, Landing};
pub use link::Link;
pub use poster::Operations;
