//! Devices: implementations of [`strait_core::hca::Hca`], which of them is chosen, and waiting for their completions.

mod choice;
pub mod cq;
mod device;
pub mod soft;
#[cfg(feature = "verbs")]
pub mod verbs;

pub use choice::{Choice, NoChoice, Rail};
pub use device::{Demand, Device, NoDevice};
