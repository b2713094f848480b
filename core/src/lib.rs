//! The part of Strait that is decided without asking the OS or the NIC.
//!
//! It holds the fixed-layout shared-memory structures, the lock-free algorithms on them, matching,
//! and the progress engine as a value that the embedder drives. `docs/papers.md` resolves the paper
//! keys, such as `[Nemesis07]`.
//!
//! Absent on purpose: `std`, `alloc`, clocks, threads, the environment, system calls.

#![cfg_attr(not(any(test, strait_loom)), no_std)]

pub mod buffer;
pub mod engine;
mod golden;
pub mod handles;
pub mod hca;
pub mod layout;
pub mod lmt;
pub mod lock;
pub mod matching;
pub mod memory;
pub mod reduce;
pub mod regcache;
pub mod ring;
pub mod rma;
pub mod rndv;
pub mod shm;
pub mod sync;
pub mod wire;
