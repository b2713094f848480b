//! The front for MPICH and Intel MPI.
//!
//! Its source is in `ffi/mpi/src`, which it shares with the fronts of the other binary interfaces.

#[path = "../../abi/mpich.rs"]
mod abi;
#[path = "../../src/mod.rs"]
mod front;
