//! The pages in which segment memory is backed.

/// Size of the pages in which segment memory is backed on demand, in bytes.
pub const PAGE: usize = 4096;
