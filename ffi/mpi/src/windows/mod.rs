//! Windows (MPI-5.0 chapter 12).
//!
//! A window is ours if its communicator is and all members could make it. Then all its calls are
//! ours. Below it is a window of the host's over the same memory, the *carrier*. The program has
//! the carrier's handle, so the host serves names, groups, info, attributes and error handlers.
//! Each function here hands a window that is not in our table to the host.
//!
//! All members are on one node. So an operation is over when its call returns, and a request form
//! returns a request that is over.

mod accumulate;
mod atomic;
mod attach;
mod basic;
mod combine;
mod constructors;
mod epochs;
mod errors;
mod host;
mod locks;
mod ops;
mod passive;
mod pause;
mod query;
mod refusal;
mod table;
mod target;
mod transfer;

pub(crate) use basic::{Kind, by_kind};
pub(crate) use locks::{AccumulateLocks, CONTEXT as CONTEXT_OF_LOCKS};
pub(crate) use ops::{PredefinedOp, operation};
pub(crate) use pause::{Waiting, before_sleep, without_lock};
pub(crate) use table::WinTable;
