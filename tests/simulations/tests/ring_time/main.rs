//! The designs of the RDMA channel on the cards of the paper, in virtual time (`[RdmaChannel04]`
//! §4, §5).
//!
//! Nothing here depends on the machine: a run is the same everywhere, to the nanosecond. With
//! `--nocapture` it prints the figures that `docs/decisions/ring.md` quotes.

mod pair;
mod raw;

use pair::Pair;
use raw::Raw;
use strait_core::ring::{Design, LinkConfig};
use strait_tests::sim::{Fabric, Model, Step};

/// The next operation of a rank, with the length of its message in bytes.
#[derive(Clone, Copy, Debug)]
enum Op {
    Put(usize),
    Get(usize),
}

/// Two ranks with their lists of operations and their positions.
trait Play {
    /// Continues `op` as far as possible now. Returns `None` if it made no progress, and
    /// `Some(true)` if it is complete.
    fn go_on(&mut self, rank: u32, op: Op, next: Option<Op>) -> Option<bool>;

    /// Takes completions, and after the last operation does the remaining work. Returns `None` if
    /// it made no progress, and `Some(true)` if all work is complete.
    fn settle(&mut self, rank: u32) -> Option<bool>;

    /// Plays both ranks' operations and returns their time in nanoseconds.
    fn play(&mut self, fabric: &Fabric, ops: [&[Op]; 2]) -> u64 {
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
fn latency(play: &mut impl Play, fabric: &Fabric, bytes: usize) -> f64 {
    let rounds = if bytes < 4096 { 100 } else { 2 };
    let lead = [Op::Put(bytes), Op::Get(bytes)].repeat(rounds);
    let follow = [Op::Get(bytes), Op::Put(bytes)].repeat(rounds);
    play.play(fabric, [&lead, &follow]) as f64 / (2 * rounds) as f64
}

/// Returns the bandwidth in megabytes per second, with windows of messages in one direction, each
/// window answered by a byte.
fn bandwidth(play: &mut impl Play, fabric: &Fabric, bytes: usize) -> f64 {
    let window = ((4 << 20) / bytes).clamp(1, 64);
    let mut lead = vec![Op::Put(bytes); window];
    lead.push(Op::Get(1));
    let mut follow = vec![Op::Get(bytes); window];
    follow.push(Op::Put(1));
    let time = play.play(fabric, [&lead, &follow]);
    (window * bytes) as f64 * 1e3 / time as f64
}

/// Figures for messages of one length.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Time in microseconds.
    latency: f64,
    /// Rate in megabytes per second.
    bandwidth: f64,
}

impl Figures {
    fn of(play: &mut impl Play, fabric: &Fabric, bytes: usize, what: &str) -> Self {
        let latency = latency(play, fabric, bytes) / 1e3;
        let bandwidth = bandwidth(play, fabric, bytes);
        println!("{bytes:>8} B  {what:<28} {latency:>9.2} µs  {bandwidth:>6.1} MB/s");
        Self { latency, bandwidth }
    }

    fn of_raw(bytes: usize) -> Self {
        let fabric = Fabric::new(1, 2, Model::of_2004());
        Self::of(&mut Raw::new(&fabric, bytes), &fabric, bytes, "raw")
    }

    fn of_config(config: LinkConfig, bytes: usize, ordered_bytes: bool) -> Self {
        let mut model = Model::of_2004();
        model.capabilities.ordered_bytes = ordered_bytes;
        let fabric = Fabric::new(1, 2, model);
        let flag = if ordered_bytes { "" } else { ", flag apart" };
        let what = format!("{} by {} KiB{flag}", config.design.name(), config.chunk >> 10);
        Self::of(&mut Pair::new(fabric.clone(), config), &fabric, bytes, &what)
    }

    /// Returns the figures of each design, in the paper's order.
    fn of_designs(bytes: usize, ordered_bytes: bool) -> [Self; 5] {
        Design::ALL.map(|design| Self::of_config(LinkConfig::new(design), bytes, ordered_bytes))
    }
}

#[test]
fn the_bare_device_is_the_papers() {
    let (small, large) = (Figures::of_raw(8), Figures::of_raw(1 << 20));
    assert!((5.8..6.0).contains(&small.latency), "5.9 µs in the paper: {small:?}");
    assert!((865.0..=870.0).contains(&large.bandwidth), "870 MB/s in the paper: {large:?}");
}

/// Checks `[RdmaChannel04]` §4.2.1, §4.3, §5.
#[test]
fn small_messages_cost_what_their_requests_cost() {
    let raw = Figures::of_raw(8);
    let [basic, others @ ..] = Figures::of_designs(8, true);
    for design in others {
        assert!(design.latency * 1.1 < basic.latency, "one write is faster than two");
        assert!(design.bandwidth > 1.5 * basic.bandwidth, "and takes less of both processors");
        assert!(design.latency < 1.05 * raw.latency, "one write is all there is");
    }
    let [_, others @ ..] = Figures::of_designs(8, false);
    for design in others {
        assert!(design.latency < basic.latency, "a flag apart does not wait for an answer either");
        assert!(design.latency < 1.3 * raw.latency, "it waits for its turn at the device alone");
    }
}

/// Checks `[RdmaChannel04]` §4.2.1, §4.4, §5, figures 5, 8, 11.
#[test]
fn large_messages_go_as_fast_as_their_copies_overlap() {
    const MESSAGE: usize = 1 << 20;
    let raw = Figures::of_raw(MESSAGE);
    for ordered_bytes in [true, false] {
        let [basic, piggyback, pipeline, zero_copy, rendezvous] =
            Figures::of_designs(MESSAGE, ordered_bytes);
        assert!((200.0..300.0).contains(&basic.bandwidth), "230 MB/s in the paper");
        assert!(piggyback.bandwidth > 2.0 * basic.bandwidth);
        assert!(pipeline.bandwidth > 1.15 * piggyback.bandwidth, "more than 500 in the paper");
        assert!(pipeline.latency * 1.5 < piggyback.latency, "piggyback copies all of it first");
        for direct in [zero_copy, rendezvous] {
            assert!(direct.bandwidth > 1.05 * pipeline.bandwidth, "no processor copies faster");
            assert!(direct.bandwidth > 0.9 * raw.bandwidth, "857 of 870 MB/s in the paper");
        }
    }
}

/// Checks `[RdmaChannel04]` figure 9: the same ring in chunks of 1 to 64 KiB.
#[test]
fn small_chunks_cost_requests_and_large_ones_overlap() {
    const RING: u32 = 128 << 10;
    let of = |chunk| LinkConfig { chunk, slots: RING / chunk, ..LinkConfig::new(Design::Pipeline) };
    let sweep =
        [1, 2, 4, 8, 16, 32, 64].map(|kib| Figures::of_config(of(kib << 10), 1 << 20, true));
    let [smallest, two, four, eight, sixteen, thirty_two, largest] = sweep;
    let best = sweep.iter().map(|figures| figures.bandwidth).fold(0.0, f64::max);
    assert!(smallest.bandwidth < 0.75 * best, "a request for each KiB");
    assert!(largest.bandwidth < 0.75 * best, "two chunks: one is copied while one travels");
    assert!(sixteen.bandwidth > 0.99 * best, "16 KiB, the paper's choice");
    let slower = |one: Figures, other: Figures| one.latency > other.latency;
    assert!(slower(smallest, two) && slower(two, four) && slower(four, eight));
    assert!(slower(eight, sixteen) && slower(thirty_two, sixteen) && slower(largest, thirty_two));
}
