//! EP: pairs of Gaussian deviates, counted by their size. Only sums are exchanged.

use strait::Error;

use super::kernel::{KernelOutcome, NpbClass};
use super::peers::Peers;
use super::random::NpbRandom;

/// Pairs of a batch, as a power of two.
const BATCH: u32 = 16;

const SEED: u64 = 271_828_183;

/// Runs the kernel. The result is the sum of NPB's two sums.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let (log_pairs, expected) = match class {
        NpbClass::S => (24, [-3.247_834_652_034_74e3, -6.958_407_078_382_297e3]),
        NpbClass::W => (25, [-2.863_319_731_645_753e3, -6.320_053_679_109_499e3]),
    };
    let batches = 1_usize << (log_pairs - BATCH);
    // The sums of both coordinates, and the counts of pairs by size.
    let mut sums = [0.0; 12];
    for batch in peers.part(batches, peers.rank()) {
        let mut random = NpbRandom::new(SEED).skip((batch as u64) << (BATCH + 1));
        for _ in 0..1 << BATCH {
            let [x, y] = [random.next(), random.next()].map(|number| 2.0 * number - 1.0);
            let t = x * x + y * y;
            if t <= 1.0 {
                let factor = (-2.0 * t.ln() / t).sqrt();
                let (x, y) = (x * factor, y * factor);
                sums[0] += x;
                sums[1] += y;
                sums[2 + x.abs().max(y.abs()) as usize] += 1.0;
            }
        }
    }
    peers.sum(&mut sums)?;
    Ok(KernelOutcome::of_all(sums.into_iter().zip(expected), 1e-8))
}
