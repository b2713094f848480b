//! Tests a function of a parallel program without a launcher: the ranks are threads of the test.
//!
//! The function takes an endpoint and does not make the world, so it does not see the difference.
//! `cargo test --example in_process` runs the tests.

use strait::{Endpoint, Error, Op, World};

/// Returns the mean of the numbers of all ranks.
fn mean(endpoint: &Endpoint<'_>, numbers: &[f64]) -> Result<f64, Error> {
    let mut sums = [numbers.iter().sum(), numbers.len() as f64];
    endpoint.allreduce(&mut sums, Op::Sum)?;
    Ok(sums[0] / sums[1])
}

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let mean = mean(&world.endpoint(), &[f64::from(world.rank())])?;
    if world.rank() == 0 {
        println!("the mean of the {} ranks is {mean}", world.size());
    }
    world.finalize()
}

#[cfg(test)]
mod tests {
    use strait::ErrorKind;

    use super::*;

    #[test]
    fn every_number_counts_once() {
        let means = World::run_in_process(3, |world| {
            let numbers = vec![1.0; world.rank() as usize];
            mean(&world.endpoint(), &numbers)
        });
        assert_eq!(means.unwrap(), [1.0; 3]);
    }

    #[test]
    fn a_rank_that_leaves_early_is_reported() {
        let kinds = World::run_in_process(2, |world| match world.rank() {
            0 => Ok(mean(&world.endpoint(), &[1.0]).map_err(|error| error.kind())),
            _ => Ok(Ok(0.0)),
        });
        assert_eq!(kinds.unwrap()[0], Err(ErrorKind::PeerLeft));
    }
}
