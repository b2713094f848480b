//! Latency and bandwidth of the designs of the RDMA channel on the cards of `[RdmaChannel04]`, and
//! of the bare cards.

mod crowd;
mod pair;
mod raw;
mod reads;

use strait_core::ring::{Design, LinkConfig};

use super::{Model, SimFabric, Step};
use pair::RingPair;
use raw::RawPair;

pub use crowd::{crowd_by_messages, crowd_by_writes};
pub use reads::{BareRequest, bare_bandwidth};

/// The next operation of a rank, with the length of its message in bytes.
#[derive(Clone, Copy, Debug)]
enum RingWork {
    Put(usize),
    Get(usize),
}

/// Two ranks with their lists of operations and their positions.
trait Play {
    /// Continues `op` as far as possible now. Returns `None` if it made no progress, and
    /// `Some(true)` if it is complete.
    fn go_on(&mut self, rank: u32, op: RingWork, next: Option<RingWork>) -> Option<bool>;

    /// Takes completions, and after the last operation does the remaining work. Returns `None` if
    /// it made no progress, and `Some(true)` if all work is complete.
    fn settle(&mut self, rank: u32) -> Option<bool>;

    /// Plays both ranks' operations and returns their time in nanoseconds.
    fn play(&mut self, fabric: &SimFabric, ops: [&[RingWork]; 2]) -> u64 {
        let mut at = [0; 2];
        fabric.play(|rank| {
            let (ops, at) = (ops[rank as usize], &mut at[rank as usize]);
            let Some(op) = ops.get(*at) else {
                return match self.settle(rank) {
                    Some(true) => Step::Finished,
                    Some(false) => Step::Moved,
                    None => Step::Waits,
                };
            };
            match self.go_on(rank, *op, ops.get(*at + 1).copied()) {
                Some(done) => {
                    *at += usize::from(done);
                    Step::Moved
                }
                None => Step::Waits,
            }
        })
    }
}

/// Returns the one-way time of a message of `bytes` in nanoseconds: half of a round trip.
fn latency(play: &mut impl Play, fabric: &SimFabric, bytes: usize) -> f64 {
    let rounds = if bytes < 4096 { 100 } else { 2 };
    let lead = [RingWork::Put(bytes), RingWork::Get(bytes)].repeat(rounds);
    let follow = [RingWork::Get(bytes), RingWork::Put(bytes)].repeat(rounds);
    play.play(fabric, [&lead, &follow]) as f64 / (2 * rounds) as f64
}

/// Returns the bandwidth in megabytes per second, with windows of messages in one direction, each
/// window answered by a byte.
fn bandwidth(play: &mut impl Play, fabric: &SimFabric, bytes: usize) -> f64 {
    let window = ((4 << 20) / bytes).clamp(1, 64);
    let mut lead = vec![RingWork::Put(bytes); window];
    lead.push(RingWork::Get(1));
    let mut follow = vec![RingWork::Get(bytes); window];
    follow.push(RingWork::Put(1));
    let time = play.play(fabric, [&lead, &follow]);
    (window * bytes) as f64 * 1e3 / time as f64
}

/// Figures of messages of one length.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Time of a message one way, in microseconds.
    pub latency_us: f64,
    /// Megabytes per second.
    pub bandwidth_mb_s: f64,
}

impl Rates {
    fn of(play: &mut impl Play, fabric: &SimFabric, bytes: usize) -> Self {
        let latency_us = latency(play, fabric, bytes) / 1e3;
        Self { latency_us, bandwidth_mb_s: bandwidth(play, fabric, bytes) }
    }

    /// Plays bare RDMA writes of `bytes` bytes.
    #[must_use]
    pub fn of_bare_writes(bytes: usize) -> Self {
        let fabric = SimFabric::new(1, 2, Model::of_2004());
        Self::of(&mut RawPair::new(&fabric, bytes), &fabric, bytes)
    }

    /// Plays a link with this configuration. `ordered_bytes`: whether the cards write the bytes of
    /// a request in ascending order.
    #[must_use]
    pub fn of_link(config: LinkConfig, bytes: usize, ordered_bytes: bool) -> Self {
        let mut model = Model::of_2004();
        model.capabilities.ordered_bytes = ordered_bytes;
        Self::of_model(model, config, bytes)
    }

    /// Plays a link between cards of this model.
    #[must_use]
    pub fn of_model(model: Model, config: LinkConfig, bytes: usize) -> Self {
        let fabric = SimFabric::new(1, 2, model);
        Self::of(&mut RingPair::new(fabric.clone(), config), &fabric, bytes)
    }

    /// Plays each design, in the order of the paper.
    #[must_use]
    pub fn of_designs(bytes: usize, ordered_bytes: bool) -> [Self; 5] {
        let of = |design| Self::of_link(LinkConfig::new(design), bytes, ordered_bytes);
        Design::ALL.map(of)
    }
}
