//! Devices: the implementations of [`strait_core::hca::Hca`], the choice between them, and waits
//! for their completions.

mod choice;
pub mod cq;
mod device;
pub mod soft;
#[cfg(feature = "verbs")]
pub mod verbs;

pub use choice::{DeviceChoice, NoChoice, Rail};
pub use device::{Demand, Device, NoDevice};
