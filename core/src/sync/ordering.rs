//! The memory orderings, which loom takes from `core` too.

pub use core::sync::atomic::Ordering;
