//! The core's structures one by one, in one thread: the cost of an operation before any cache line
//! moves.
//!
//! Run `cargo bench -p strait-benches --bench structures`. `strait bench` measures traffic between
//! processors.

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use strait::World;
use strait_core::buffer::copy::copy_short;
use strait_core::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern, PostedQueue, UnexpectedQueue};
use strait_core::memory::Memory;

/// The system allocator, lent to the core.
#[derive(Clone, Copy)]
struct System;

// SAFETY: the global allocator guarantees what the trait demands.
unsafe impl Memory for System {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the trait's callers request no zero-sized layout.
        NonNull::new(unsafe { std::alloc::alloc(layout) })
    }

    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that the memory came from `allocate` with this layout
        // (contract of `Memory::release`).
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }
}

const DEPTHS: [u32; 3] = [1, 100, 10_000];

/// Posts one receive and matches it while `depth` others wait, a wildcard among them.
fn posted(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("posted: post + take");
    for depth in DEPTHS {
        let mut queue = PostedQueue::new(System);
        for tag in 0..depth {
            queue.post(Pattern { context: 1, source: 0, tag: tag + 1 }, tag).expect("memory");
        }
        queue.post(Pattern { context: 2, source: ANY_SOURCE, tag: ANY_TAG }, 0).expect("memory");
        let envelope = Envelope { context: 1, source: 0, tag: 0 };
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                queue.post(Pattern { context: 1, source: 0, tag: 0 }, 7).expect("memory");
                queue.take(black_box(&envelope))
            });
        });
    }
    group.finish();
}

/// Stores one message, finds it by a wildcard and removes it while `depth` others wait.
fn unexpected(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unexpected: insert + find + remove");
    for depth in DEPTHS {
        let mut queue = UnexpectedQueue::new(System);
        for tag in 0..depth {
            queue.insert(Envelope { context: 1, source: 0, tag }, tag).expect("memory");
        }
        let pattern = Pattern { context: 1, source: 1, tag: ANY_TAG };
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                queue.insert(Envelope { context: 1, source: 1, tag: 5 }, 7).expect("memory");
                let found = queue.find(black_box(&pattern)).expect("the message was just stored");
                queue.remove(found.handle)
            });
        });
    }
    group.finish();
}

/// Copies a short payload.
fn copies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy_short");
    let (from, mut to) = ([1_u8; 48], [0_u8; 48]);
    for length in [1, 8, 16, 48] {
        group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
            bencher.iter(|| {
                // SAFETY: both arrays have 48 bytes and are distinct.
                unsafe { copy_short(from.as_ptr(), to.as_mut_ptr(), black_box(length)) };
                black_box(&mut to);
            });
        });
    }
    group.finish();
}

/// Sends a message in each direction between two ranks of one thread.
fn messages(criterion: &mut Criterion) {
    let worlds = World::in_process(2).expect("shared memory");
    let [zero, one] = [worlds[0].endpoint(), worlds[1].endpoint()];
    let mut group = criterion.benchmark_group("send + recv + answer, one thread");
    for bytes in [8_usize, 48, 1024, 16 * 1024] {
        let (data, mut room) = (vec![1_u8; bytes], vec![0_u8; bytes]);
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| {
                zero.send(&data, 1, 1).expect("sent");
                one.recv(&mut room, 0, 1).expect("received");
                one.send(&room, 0, 2).expect("sent");
                zero.recv(&mut room, 1, 2).expect("received");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, posted, unexpected, copies, messages);
criterion_main!(benches);
