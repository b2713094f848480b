//! Conformance suites that every implementation of a trait must pass.

pub mod hca;
pub mod ring;
