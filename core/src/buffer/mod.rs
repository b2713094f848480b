//! Memory of the user: buffers of one or more parts, the direction of a transfer, and copies.
//!
//! Every protocol uses this module. It names nothing above [`crate::wire`].

pub mod copy;
mod cursor;
mod direction;
mod runs;

pub use cursor::{Cursor, Part};
pub use direction::Direction;
pub use runs::{Run, Runs};
