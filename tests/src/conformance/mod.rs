//! Suites that every implementation of a trait has to pass.

pub mod hca;
