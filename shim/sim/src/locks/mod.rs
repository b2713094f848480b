//! The designs of window locks in virtual time, with as many nodes and processors as the papers
//! have.
//!
//! The state machines of `strait_core::lock` run as they ship. Accesses, messages and waits take
//! the time of a model, [`Costs`].

mod busy;
pub(crate) mod cluster;
mod member;
mod scenarios;
pub(crate) mod state;

pub use busy::BusyThreads;
pub use scenarios::{
    Visits, apart, beside_threads, complexity, contention, crowd, delay, migration,
    migration_among, neighbours, nodes, overhead, pairs_on_nodes, ring, target_computes, tasks,
    visits, windows,
};
pub use state::Costs;
