//! The structures of the segment one by one, both ends in one thread: the instructions of an operation, before any cache
//! line moves.
//!
//! `cargo bench -p strait-benches --bench shared_memory`, with a name such as `fastbox` behind `--` for one group. A cycle
//! begins and ends with an empty structure. `strait bench` measures what moves between processors.

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
