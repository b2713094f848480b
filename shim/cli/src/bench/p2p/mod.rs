//! Benches of messages and collective operations between ranks.

pub(crate) mod bandwidth;
mod barrier;
mod collective;
mod depth;
mod halo;
pub(crate) mod latency;
mod one_copy;
mod rate;
pub(super) mod rendezvous;
mod scale;

use super::benchmark::{BenchGroup, entry};
use bandwidth::BandwidthBench;
use barrier::BarrierBench;
use collective::CollectiveBench;
use depth::DepthBench;
use halo::HaloBench;
use latency::LatencyBench;
use rate::RateBench;
use rendezvous::{ExchangeBench, KernelsBench, OverheadBench, OverlapBench, ProgressBench};
use scale::ScaleBench;

/// The benches of this folder.
pub(super) const GROUP: BenchGroup = BenchGroup {
    name: "p2p",
    about: "messages and collective operations",
    benches: &[
        entry::<LatencyBench>("latency"),
        entry::<BandwidthBench>("bandwidth"),
        entry::<RateBench>("rate"),
        entry::<BarrierBench>("barrier"),
        entry::<CollectiveBench>("collective"),
        entry::<HaloBench>("halo"),
        entry::<DepthBench>("depth"),
        entry::<OverlapBench>("overlap"),
        entry::<ProgressBench>("progress"),
        entry::<ExchangeBench>("exchange"),
        entry::<KernelsBench>("kernels"),
        entry::<OverheadBench>("overhead"),
        entry::<ScaleBench>("scale"),
    ],
};
