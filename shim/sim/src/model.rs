//! What the devices of a fabric can do, and the times that they take.

use core::ops::Range;

use fastrand::Rng;
use strait_core::hca::{Atomics, Capabilities};

use super::wire::Wire;

/// The capabilities and times of the devices of a fabric. Times are in ticks of virtual time.
#[derive(Clone, Debug)]
pub struct Model {
    /// The capabilities of every device.
    pub capabilities: Capabilities,
    /// Number of regions that a rank can register.
    pub regions: usize,
    /// Time from one step of a connection to the next.
    pub step: Range<u64>,
    /// Additional time of a read or an atomic compared with a write.
    pub read: Range<u64>,
    /// Time from the end of a request to its completion.
    pub report: Range<u64>,
    /// Percentage of requests that are refused temporarily.
    pub refuse: u32,
    /// The fixed times, where they are not drawn.
    pub wire: Option<Wire>,
    /// Whether a promised order within a write is kept. Tests break it to show that it is needed.
    pub faithful: bool,
}

impl Model {
    /// Draws the capabilities and times from `seed`, too.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5e1f_0f00);
        let slowest = *rng.choice(&[2, 10, 200]).unwrap();
        Self {
            capabilities: Capabilities {
                inline: *rng.choice(&[0, 8, 64, 256]).unwrap(),
                pieces: rng.u32(1..5),
                read_pieces: 1,
                reads: rng.u32(1..5),
                depth: *rng.choice(&[2, 3, 8, 64, 1024]).unwrap(),
                receives: 16,
                message: 1 << 30,
                atomics: Atomics::Hca,
                immediate: true,
                acknowledged: true,
                ordered_bytes: rng.bool(),
            },
            regions: usize::MAX,
            step: 1..slowest,
            read: slowest..4 * slowest,
            report: 1..*rng.choice(&[2, 100]).unwrap(),
            refuse: *rng.choice(&[0, 0, 10, 50]).unwrap(),
            wire: None,
            faithful: true,
        }
    }

    /// Returns the cards of `[RdmaChannel04]`, on which the last word of a write lands last.
    #[must_use]
    pub fn of_2004() -> Self {
        Self::with(Wire::INFINIBAND_2004)
    }

    /// Returns the cards of `[SpecRndv09]`, with this many reads of a connection under way: the
    /// paper does not state it.
    #[must_use]
    pub fn of_2009(reads: u32) -> Self {
        let mut model = Self::with(Wire::CLUSTER_2009);
        model.capabilities.reads = reads;
        model
    }

    fn with(wire: Wire) -> Self {
        Self {
            capabilities: Capabilities {
                inline: 0,
                pieces: 4,
                read_pieces: 4,
                // The paper's figure 15 has reads behind writes for mid-sized messages: as if a
                // connection had one read under way.
                reads: 1,
                depth: 1024,
                receives: 16,
                message: 1 << 31,
                atomics: Atomics::Hca,
                immediate: true,
                acknowledged: true,
                ordered_bytes: true,
            },
            regions: usize::MAX,
            step: 0..1,
            read: 0..1,
            report: wire.acknowledge..wire.acknowledge + 1,
            refuse: 0,
            wire: Some(wire),
            faithful: true,
        }
    }
}
