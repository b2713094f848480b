//! The front for Open MPI.
//!
//! Its source is in `ffi/mpi/src`, which it shares with the fronts of the other binary interfaces.

#[path = "../../abi/openmpi.rs"]
mod abi;
#[path = "../../src/mod.rs"]
mod front;
#[path = "../../abi/pointers.rs"]
mod pointers;
