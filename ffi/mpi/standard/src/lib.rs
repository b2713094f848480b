//! The front for MPIs with the interface of MPI-5.0.
//!
//! Its source is in `ffi/mpi/src`, which it shares with the fronts of the other binary interfaces.

#[path = "../../abi/standard.rs"]
mod abi;
#[path = "../../src/mod.rs"]
mod front;
#[path = "../../abi/pointers.rs"]
mod pointers;
