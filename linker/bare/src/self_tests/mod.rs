//! The self-tests. Both processors run each of them at once and return the flaw that they found.

mod barrier;
mod copy_ring;
mod engine;
mod landing;
mod lines;
mod lock;
mod queues;

use crate::place::{Flaw, Party};

/// The name of a self-test, and what each processor does.
pub(crate) type SelfTest = (&'static str, fn(&Party) -> Result<(), Flaw>);

/// All self-tests.
pub(crate) const SELF_TESTS: [SelfTest; 9] = [
    ("receive queue", queues::receive_queue),
    ("free queue", queues::free_queue),
    ("fastbox", lines::fastbox),
    ("baton", lines::baton),
    ("barrier", barrier::barrier),
    ("copy ring", copy_ring::copy_ring),
    ("flags and credits of the RDMA channel", landing::landing),
    ("lock", lock::lock),
    ("engine", engine::engine),
];
