//! The structures of the segment one by one, with both ends in one thread. The benchmarks count the
//! instructions of an operation, before any cache line moves.
//!
//! Run `cargo bench -p strait-benches --bench shared_memory`. A name such as `fastbox` after `--`
//! selects one group. A cycle starts and ends with an empty structure. `strait bench` measures
//! traffic between processors.

mod cells;
mod lines;
mod synchronisation;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    cells::receive_queue,
    cells::free_queue,
    lines::fastbox,
    lines::baton,
    lines::copy_ring,
    lines::ring_with_flags,
    synchronisation::barrier,
    synchronisation::lock_words,
    synchronisation::robust_lock,
);
criterion_main!(benches);
