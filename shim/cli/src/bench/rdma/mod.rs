//! Benches of the transport between nodes below messages: the RDMA channel and the device.

mod hca;
mod ring;

use super::benchmark::{BenchGroup, entry};
use hca::HcaBench;
use ring::RingBench;

/// The benches of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "rdma",
    about: "the transport between nodes, below messages",
    benches: &[entry::<RingBench>("ring"), entry::<HcaBench>("hca")],
};
