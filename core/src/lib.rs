//! The heart of Strait: everything of an MPI transport that can be decided without asking the OS or the NIC.
//!
//! Fixed-layout shared-memory structures, the lock-free algorithms on them, matching, and the progress engine as
//! a value that the embedder drives. The paper keys used throughout (`[Nemesis07]` and so on) are resolved in
//! `docs/papers.md`.
//!
//! Absent on purpose: `std`, `alloc`, clocks, threads, the environment, system calls.

#![cfg_attr(not(any(test, strait_loom)), no_std)]

pub mod hca;
pub mod layout;
pub mod lmt;
pub mod lock;
pub mod matching;
pub mod memory;
pub mod progress;
pub mod reduce;
pub mod regcache;
pub mod ring;
pub mod rma;
pub mod rndv;
pub mod shm;
pub mod sync;
pub mod wire;
