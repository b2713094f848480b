//! Private memory that the embedder lends to the engine.
//!
//! The core allocates nothing on its own. Requests, matching bins and unexpected payloads live in
//! memory that comes through [`Memory`], so the embedder decides where it lies and how much there
//! is.

mod block;
mod bump;
#[cfg(test)]
pub(crate) mod counted;
mod lender;
mod on_first_use;
mod pinned;
mod slab;
mod table;

pub(crate) use block::OwnedSlice;
pub use bump::BumpMemory;
pub use lender::{Memory, OutOfMemory};
pub(crate) use on_first_use::OnFirstUse;
pub use pinned::Pinned;
pub use slab::Slab;
pub use table::Table;
