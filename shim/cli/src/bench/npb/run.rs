//! One run of a kernel.

use core::error::Error;
use std::time::Instant;

use strait::{Endpoint, Op};

use super::kernel::{KernelOutcome, NpbClass, NpbKernel};
use super::peers::{Peers, Traffic};
use super::{bt, cg, ep, is, lu, mg, radix};
use crate::measure::stage::BenchStage;

/// Runs a kernel with all ranks. Every rank returns the same outcome.
pub(super) fn outcome(
    kernel: NpbKernel,
    peers: &Peers<'_>,
    class: NpbClass,
) -> Result<KernelOutcome, strait::Error> {
    match kernel {
        NpbKernel::Is => is::run(peers, class),
        NpbKernel::Cg => cg::run(peers, class),
        NpbKernel::Mg => mg::run(peers, class),
        NpbKernel::Ep => ep::run(peers, class),
        NpbKernel::Lu => lu::run(peers, class),
        NpbKernel::Bt => bt::run(peers, class),
        NpbKernel::Radix => radix::run(peers, class),
    }
}

/// The numbers of a run, which are the same on every rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelRun {
    /// The time of the slowest rank.
    pub(super) time_ns: f64,
    /// The average time of a rank in calls that wait.
    pub(super) waited_ns: f64,
    /// Messages of all ranks, without those of collective operations.
    pub(super) messages: f64,
}

impl KernelRun {
    /// Runs a kernel with messages of this endpoint.
    ///
    /// # Errors
    ///
    /// A failed call, or a wrong result.
    pub(super) fn measure(
        stage: &BenchStage<'_>,
        endpoint: Endpoint<'_>,
        kernel: NpbKernel,
        class: NpbClass,
    ) -> Result<(Self, KernelOutcome), Box<dyn Error>> {
        let peers = Peers::new(endpoint);
        stage.barrier()?;
        let start = Instant::now();
        let outcome = outcome(kernel, &peers, class)?;
        let mut slowest = [start.elapsed().as_nanos() as f64];
        let Traffic { messages, waited_ns } = peers.traffic();
        let mut sums = [waited_ns, messages as f64];
        stage.endpoint.allreduce(&mut slowest, Op::Max)?;
        stage.endpoint.allreduce(&mut sums, Op::Sum)?;
        if !outcome.is_verified() {
            return Err(format!("{kernel}.{class}: {outcome}").into());
        }
        let [waited_ns, messages] = sums;
        let waited_ns = waited_ns / f64::from(stage.ranks());
        Ok((Self { time_ns: slowest[0], waited_ns, messages }, outcome))
    }
}

#[cfg(test)]
mod tests {
    use strait::World;

    use super::*;

    /// Runs a kernel with each of these numbers of ranks.
    fn verify(kernel: NpbKernel, ranks: &[u32]) {
        for &ranks in ranks {
            let outcomes = World::run_in_process(ranks, |world| {
                outcome(kernel, &Peers::new(world.endpoint()), NpbClass::S)
            });
            for outcome in outcomes.unwrap() {
                assert!(outcome.is_verified(), "{kernel}, {ranks} ranks: {outcome}");
            }
        }
    }

    #[test]
    fn lu_is_verified_with_any_number_of_ranks() {
        verify(NpbKernel::Lu, &[1, 3, 7]);
    }

    #[test]
    fn bt_is_verified_with_any_number_of_ranks() {
        verify(NpbKernel::Bt, &[3, 7]);
    }

    #[test]
    fn radix_is_verified_with_any_number_of_ranks() {
        verify(NpbKernel::Radix, &[1, 3]);
    }
}
