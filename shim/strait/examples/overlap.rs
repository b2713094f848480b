//! Computes while a large message moves. A progress thread answers the peer meanwhile, so that the
//! program makes no calls.

use strait::{Error, Progress, World};

/// Number of values: 32 MiB.
const VALUES: usize = 4 << 20;
const DATA: strait::Tag = 1;

/// Computes for a while, without calls of the library.
fn compute() -> f64 {
    (1..2_000_000_u32).map(|number| 1.0 / f64::from(number).powi(2)).sum()
}

fn main() -> Result<(), Error> {
    // `STRAIT_PROGRESS=thread` asks for the same without a change of the program.
    let world = World::builder().progress(Progress::Thread).init()?;
    let endpoint = world.endpoint();
    match world.rank() {
        0 => {
            let values = vec![1.5; VALUES];
            let computed = endpoint.scope(|scope| {
                let request = scope.isend(&values, 1, DATA)?;
                let computed = compute();
                request.wait().map(|_| computed)
            })?;
            println!("rank 0 sent {VALUES} values and computed {computed:.4}");
        }
        1 => {
            let mut values = vec![0.0; VALUES];
            let computed = endpoint.scope(|scope| {
                let request = scope.irecv(&mut values, 0, DATA)?;
                let computed = compute();
                request.wait().map(|_| computed)
            })?;
            let is_whole = values.iter().all(|value| *value == 1.5);
            println!("rank 1 computed {computed:.4}; all values arrived: {is_whole}");
        }
        _ => {}
    }
    world.finalize()
}
