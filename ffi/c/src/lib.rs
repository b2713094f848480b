//! The C interface: `libstrait.so`, `libstrait.a`.
//!
//! `include/strait.h` is its documentation, `docs/embedding.md` the guide.
//!
//! Each function of the header is one here. All of them go through [`entry::enter`], so that
//! nothing unwinds into C. They look handles up in tables ([`worlds`], [`entries`]) before they use
//! them.
//!
//! The header states the promises of a caller in C (where pointers lead, which thread may call).
//! The types of [`border`] carry these promises, so that the functions are safe Rust.
//!
//! Absent on purpose: threads, signal handlers, `atexit`, hooks, anything printed.

mod border;
mod collective;
mod contexts;
mod entries;
mod entry;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod groups;
mod handle;
mod handlers;
mod instance;
mod knowledge;
mod large;
mod matched;
mod messages;
mod nonblocking;
mod options;
mod packets;
mod pending;
mod rdma_channel;
mod reductions;
mod requests;
mod several;
mod store;
mod transfer_method;
mod windows;
mod world;
mod worlds;

#[cfg(test)]
mod tests;
