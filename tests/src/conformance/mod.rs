//! What every implementation of a trait is held to.

pub mod ring;
