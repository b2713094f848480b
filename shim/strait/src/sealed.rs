//! Keeps the traits of this folder to the types of this crate.

pub trait Sealed {}
