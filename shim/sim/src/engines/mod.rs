//! Whole engines in virtual time: matching, rendezvous and links as the library has them, one rank
//! on each node.
//!
//! A node consists of an [`Engine`](strait_core::engine::Engine) with a segment of its own, links
//! that are made at the first contact, and the program of its rank. A call of the program does what
//! the library's call does, in the same order: the initial progress call where an RTR or RTS may
//! have come, the operation, and the poll of the network. A rank that computes is outside the
//! library, so nothing but its card works for it.
//!
//! The time of a call is that of its polls, posts and copies. The engine's own instructions take no
//! time.
//!
//! - [`run`]: the applications of a paper on four nodes.
//! - [`jobs`]: jobs of up to 10^3 nodes.

mod applications;
mod channel;
pub mod jobs;
mod memory;
mod node;

pub use applications::{Application, ApplicationCosts, Machine, run};
