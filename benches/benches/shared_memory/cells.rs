//! Cells and their queues ([Nemesis07] §2).

use core::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use strait_core::layout::{CellIndex, Corrupt};
use strait_core::shm::{Cell, CellArena, FreeQueue, RecvQueue};
use strait_core::sync::AtomicU32;

/// Numbers of cells in flight in one cycle.
const DEPTHS: [usize; 3] = [1, 8, 64];

/// Cells in private memory, numbered from one.
struct Cells(Vec<Cell>);

impl Cells {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| Cell::empty()).collect())
    }

    fn indices(&self) -> Vec<CellIndex> {
        let parsed = (1..=self.0.len() as u32).map(|raw| self.parse(raw).expect("in range"));
        parsed.flatten().collect()
    }
}

impl CellArena for Cells {
    fn parse(&self, raw: u32) -> Result<Option<CellIndex>, Corrupt> {
        CellIndex::parse(raw, self.0.len() as u32)
    }

    fn next(&self, index: CellIndex) -> &AtomicU32 {
        &self.0[index.raw() as usize - 1].next
    }
}

/// Enqueues some cells and dequeues them.
pub(super) fn receive_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("receive queue: enqueue all, dequeue all");
    for depth in DEPTHS {
        let (cells, queue) = (Cells::new(depth), RecvQueue::empty());
        let indices = cells.indices();
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                for index in &indices {
                    queue.enqueue(&cells, black_box(*index)).expect("the queue is intact");
                }
                while let Some(cell) = queue.dequeue(&cells).expect("the queue is intact") {
                    black_box(cell);
                }
            });
        });
    }
    group.finish();
}

/// Returns some cells, and takes the whole chain.
pub(super) fn free_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("free queue: push all, take all");
    for depth in DEPTHS {
        let (cells, queue) = (Cells::new(depth), FreeQueue::empty());
        let indices = cells.indices();
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                indices.iter().for_each(|index| queue.push(&cells, black_box(*index)));
                let mut next = queue.take(&cells).expect("the queue is intact");
                while let Some(cell) = next {
                    next = FreeQueue::next(&cells, cell).expect("the queue is intact");
                }
            });
        });
    }
    group.finish();
}
