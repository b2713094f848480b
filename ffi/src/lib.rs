//! The C interface: `libstrait.so`, `libstrait.a`. `include/strait.h` is its documentation; `docs/embedding.md` the guide.
//!
//! Each function of the header is one here. All of them go through [`entry::enter`], so that nothing unwinds into C, and find what
//! they work on in tables ([`handle`]), so that no handle that C may hold is followed before it is known to be good.
//!
//! What a caller in C promises (which pointers lead to what, which thread may call) stands in the header; "by the contract" means
//! that.
//!
//! Absent on purpose: threads, signal handlers, `atexit`, hooks, anything printed.

mod buffer;
mod entry;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handle;
mod instance;
mod knowledge;
mod large;
mod matched;
mod messages;
mod options;
mod packets;
mod pipe;
mod rdma_channel;
mod requests;
mod several;
mod store;
mod windows;
mod world;

#[cfg(test)]
mod tests;
