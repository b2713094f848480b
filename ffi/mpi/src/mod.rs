//! The front: `MPI_` functions of ours before those of the program's MPI, the *host*.
//!
//! The library is loaded before the host. A program's call of a function that is defined here
//! reaches us, and all others reach the host. We call the host by its `PMPI_` names (MPI-5.0
//! §15.2). Messages of a communicator that we know are Strait's ([`comms`]). Messages of all others
//! are the host's.
//!
//! `abi` has what differs between the binary interfaces of hosts. This source is compiled once for
//! each of them.

mod agreement;
mod alloc_mem;
mod allocated;
mod attach;
mod base;
mod blocking;
mod boot;
mod buffered;
mod bypass;
mod collectives;
mod combine_packed;
mod comms;
mod complete;
mod constructors;
mod errors;
mod explain;
mod flat;
mod fortran;
mod gpu;
mod helper;
mod host;
mod join;
mod libraries;
mod lock;
mod messages;
mod names;
mod objects;
mod operation;
mod pack;
mod persistent;
mod persistent_request;
mod probe;
mod progress;
mod reach;
mod recv;
mod request_view;
mod requests;
mod send;
mod sendrecv;
mod shared;
mod short_messages;
mod shutdown;
mod state;
mod store;
mod topology;
mod type_attribute;
mod types;
mod windows;
