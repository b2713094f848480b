//! Devices: implementations of [`strait_core::hca::Hca`].

#[cfg(feature = "verbs")]
pub mod verbs;
