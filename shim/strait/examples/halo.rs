//! Smooths a line of numbers that is spread over the ranks. Each step exchanges the outermost
//! numbers with both neighbours by non-blocking calls, and computes the inner ones meanwhile.

use strait::{Error, Op, Scope, World, wait_all};

/// Number of cells of each rank, without the two halo cells.
const CELLS: usize = 1000;
const STEPS: usize = 50;
const TO_LEFT: strait::Tag = 1;
const TO_RIGHT: strait::Tag = 2;

/// Returns the mean of three neighbours.
fn mean(cells: &[f64]) -> f64 {
    (cells[0] + cells[1] + cells[2]) / 3.0
}

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    let (rank, size) = (world.rank(), world.size());
    let left = (rank > 0).then(|| rank - 1);
    let right = (rank + 1 < size).then_some(rank + 1);

    // The cells 1 to CELLS are this rank's. Rank 0 begins with a peak, which spreads.
    let mut now = vec![0.0; CELLS + 2];
    if rank == 0 {
        now[CELLS] = 1000.0;
    }
    for _ in 0..STEPS {
        let mut next = vec![0.0; CELLS + 2];
        let (mut from_left, mut from_right) = ([now[1]], [now[CELLS]]);
        endpoint.scope(|scope: &Scope<'_, '_>| {
            let mut requests = Vec::new();
            if let Some(left) = left {
                requests.push(scope.irecv(&mut from_left, left, TO_RIGHT)?);
                requests.push(scope.isend(&now[1..2], left, TO_LEFT)?);
            }
            if let Some(right) = right {
                requests.push(scope.irecv(&mut from_right, right, TO_LEFT)?);
                requests.push(scope.isend(&now[CELLS..=CELLS], right, TO_RIGHT)?);
            }
            // The inner cells need no neighbour.
            for cell in 2..CELLS {
                next[cell] = mean(&now[cell - 1..=cell + 1]);
            }
            wait_all(&mut requests)
        })?;
        // At the ends of the line, the outermost number stands in for the missing neighbour.
        (now[0], now[CELLS + 1]) = (from_left[0], from_right[0]);
        next[1] = mean(&now[0..=2]);
        next[CELLS] = mean(&now[CELLS - 1..=CELLS + 1]);
        now = next;
    }

    let mut sum = [now[1..=CELLS].iter().sum::<f64>()];
    endpoint.allreduce(&mut sum, Op::Sum)?;
    if rank == 0 {
        println!("after {STEPS} steps on {size} ranks, the sum is still {:.3}", sum[0]);
    }
    world.finalize()
}
