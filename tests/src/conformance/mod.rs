//! What every implementation of a trait is held to.

pub mod hca;
pub mod ring;
