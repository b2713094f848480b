//! Devices: implementations of [`strait_core::hca::Hca`], and waiting for their completions.

pub mod cq;
pub mod soft;
#[cfg(feature = "verbs")]
pub mod verbs;
