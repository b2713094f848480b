//! Names of requests that an embedder may keep for ever.

use super::RequestId;

/// A request and its generation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ticket {
    /// Number of the request among those under way.
    pub index: u32,
    /// One of [`Ticket::GENERATIONS`] numbers, which the next request with this index does not
    /// have.
    pub generation: u32,
}

impl Ticket {
    /// Number of generations.
    pub const GENERATIONS: u32 = 1 << 20;
}

/// What a ticket leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ticketed {
    /// A request.
    Request(RequestId),
    /// A request that the embedder has marked as in use ([`super::Engine::lend`]).
    Lent,
    /// Nothing: the request has ended, or never was.
    Nothing,
}

/// The mark of a request in use, beside its generation. So a comparison with a ticket fails.
pub(super) const LENT: u32 = 1 << 31;
