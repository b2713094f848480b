//! `strait bench`: measurements of the transport, beside the bare hardware at the same moment.

mod bandwidth;
mod barrier;
mod both_ways;
pub(crate) mod cacheline;
mod computation;
mod crowd;
mod depth;
mod epoch;
mod halo;
mod hca;
mod in_turn;
pub(crate) mod lane;
pub(crate) mod latency;
mod lock;
mod memory;
mod one_copy;
mod rate;
mod rendezvous;
pub(crate) mod report;
mod ring;
pub(crate) mod sampling;
pub(crate) mod stage;
pub(crate) mod stats;
mod together;
mod window;

use core::error::Error;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

pub(crate) use bandwidth::of as bandwidth_of;
pub(crate) use memory::MemoryKind;
use report::Report;
use sampling::Effort;
use stage::BenchStage;
use strait::boot::SegmentConfig;
use strait::{Transfer, Tuning, World, env, topology};
use strait_core::ring::Design;
use strait_core::shm::SHORT_MAX;
use window::WindowVerb;

use crate::ranks;

/// Maximum size of a message of a bench, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Range of the side of a tile, in words. A tile sends two rows in one direction, and the memory
/// must hold as many tiles as there are ranks.
const SIDES: RangeInclusive<usize> = 2..=4096;

/// Measure the transport beside the bare hardware
///
/// Ranks are bound to processors. The time of a bare cache line is measured before, after and,
/// where there is a column `× line`, within every single sample.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(subcommand)]
    kind: BenchKind,
}

#[derive(Debug, Subcommand)]
enum BenchKind {
    /// Time of a message from call to call, one way: half a round trip
    Latency(MessageOptions),
    /// Bytes per second, in windows of up to 64 messages in one direction
    Bandwidth {
        #[command(flatten)]
        options: MessageOptions,
        /// Kind of memory of the buffers
        #[arg(long, value_enum, default_value_t)]
        memory: MemoryKind,
    },
    /// Short messages per second in one direction
    Rate(MessageOptions),
    /// Time of a barrier of all ranks, with each algorithm
    Barrier(Common),
    /// Tiles of a torus that exchange one to two rows and columns with their neighbours
    Halo(Tiles),
    /// One message matched while up to 10,000 receives or messages wait
    Depth(Common),
    /// The designs of the RDMA channel over the software HCA, beside its bare writes; two ranks
    Ring(MessageOptions),
    /// The bare RDMA device: writes, reads, sends and atomics until their completion, and
    /// consecutive writes
    Hca(MessageOptions),
    /// One-sided writes beside a bare compare-and-swap and `memcpy`; the target makes no call.
    /// Between nodes in epochs, beside the same by messages
    Put(OneSided),
    /// One-sided reads, with the same comparisons as `put`
    Get(OneSided),
    /// Accumulates, fetch-and-op and compare-and-swap, with the same comparisons as `put`
    Accumulate(OneSided),
    /// Fence, and post, start, complete and wait, between the ranks of a pair
    Sync(Common),
    /// Locks of windows in each design: overhead, delay, contention and migration; best with four
    /// ranks
    Lock(lock::Locks),
    #[command(flatten)]
    Rendezvous(rendezvous::RendezvousBench),
    /// The hardware's own limits: one cache line bounced, and messages through bare slots
    Cacheline(Common),
}

#[derive(Args, Debug)]
struct MessageOptions {
    /// Sizes of messages, such as 8,1K,64K,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// Path of messages that bypass the queue
    #[arg(long, value_enum, default_value_t = Fastbox::Ring)]
    fastbox: Fastbox,
    /// Transfers of messages above STRAIT_EAGER_MAX on a node: `all`, or names such as
    /// copy_ring,cma [default: STRAIT_LMT]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_transfer)]
    transfer: Vec<TransferSet>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct OneSided {
    /// Sizes of operations, such as 4K,64K,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// Memory of the window: allocated in the segment, or private
    #[arg(long, value_enum, default_value_t = MemoryKind::Segment)]
    memory: MemoryKind,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Tiles {
    /// Words of 8 bytes a side [default: the powers of two from 2 to 1024]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_side)]
    tiles: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Clone, Copy, Debug)]
struct Common {
    /// Number of ranks: rank i exchanges messages with rank i + N/2, all pairs at once
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = parse_ranks)]
    ranks: u32,
    /// Number of virtual nodes on this machine, each of as many ranks: with 2, every pair spans
    /// both
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Maximum number of samples of each measurement
    #[arg(long, value_name = "N", default_value_t = 300)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
    /// Round trips or windows in one sample [default: as many as take 200 µs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    iterations: Option<u64>,
    /// Maximum time of each measurement
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    seconds: Duration,
}

/// The paths beside the receive queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Fastbox {
    /// A ring of lines in each direction, and a baton for ranks that answer each other: the default
    Ring,
    /// One buffer of a line in each direction, reused when the receiver has emptied it, as in the
    /// Nemesis paper
    Paper,
}

impl Fastbox {
    const fn config(self, ranks: u32) -> SegmentConfig {
        match self {
            Self::Ring => SegmentConfig::new(ranks),
            Self::Paper => {
                SegmentConfig { fastbox_lines: 1, baton_lines: 0, ..SegmentConfig::new(ranks) }
            }
        }
    }

    /// Makes the ranks send fitting messages through the one buffer.
    fn tune(self, world: &World) {
        if self == Self::Paper {
            let tuning = world.tuning();
            world.retune(Tuning { fastbox_max: tuning.fastbox_max.min(SHORT_MAX), ..tuning });
        }
    }
}

impl Common {
    fn effort(self) -> Effort {
        let Self { samples, iterations, seconds, .. } = self;
        Effort { samples: samples as usize, rounds: iterations, limit: seconds }
    }
}

impl Bench {
    /// Starts the ranks, which then call [`Bench::run`].
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let needs_two = matches!(self.kind, BenchKind::Cacheline(_) | BenchKind::Rendezvous(_));
        if needs_two && topology::allowed_cpu_count() < 2 {
            return Err(cacheline::ONE_PROCESSOR.into());
        }
        let Common { ranks, nodes, .. } = self.kind.common();
        let config = self.kind.fastbox().config(ranks);
        let environment = match self.kind {
            BenchKind::Rendezvous(_) => rendezvous::environment(ranks),
            _ => Vec::new(),
        };
        ranks::start(config, nodes, environment, std::env::args_os().skip(1))
    }

    /// Runs the bench on each rank.
    pub(crate) fn run(&self, stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
        let common = self.kind.common();
        let effort = common.effort();
        let (sizes, transfers) = (self.kind.sizes(), self.kind.transfers());
        let steps = match self.kind {
            BenchKind::Latency(_) | BenchKind::Bandwidth { .. } => {
                sizes.len() * transfers.len().max(1)
            }
            BenchKind::Rate(_) => 2 * sizes.len(),
            BenchKind::Barrier(_) => barrier::STEPS,
            BenchKind::Halo(_) => halo::STEPS * sizes.len(),
            BenchKind::Depth(_) => depth::STEPS,
            BenchKind::Ring(_) => ring::steps(sizes.len())?,
            BenchKind::Hca(_) => hca::steps(sizes.len())?,
            BenchKind::Put(_) => window::steps(stage, WindowVerb::Put, sizes.len()),
            BenchKind::Get(_) => window::steps(stage, WindowVerb::Get, sizes.len()),
            BenchKind::Accumulate(_) => window::steps(stage, WindowVerb::Accumulate, sizes.len()),
            BenchKind::Sync(_) => window::sync_steps(stage),
            BenchKind::Lock(ref locks) => locks.steps(),
            BenchKind::Rendezvous(ref kind) => kind.steps(stage),
            BenchKind::Cacheline(_) => 4,
        };
        let mut report = Report::new(stage, common.json, steps);
        self.kind.fastbox().tune(stage.endpoint.world());
        let before = cacheline::probe(stage)?;
        match self.kind {
            BenchKind::Latency(_) => latency::run(stage, effort, &sizes, &transfers, &mut report)?,
            BenchKind::Bandwidth { memory, .. } => {
                bandwidth::run(stage, effort, &sizes, &transfers, memory, &mut report)?;
            }
            BenchKind::Rate(_) => rate::run(stage, effort, &sizes, &mut report)?,
            BenchKind::Barrier(_) => barrier::run(stage, effort, &mut report)?,
            BenchKind::Halo(_) => halo::run(stage, effort, &sizes, &mut report)?,
            BenchKind::Depth(_) => depth::run(stage, effort, &mut report)?,
            BenchKind::Ring(_) => ring::run(stage, effort, &sizes, &mut report)?,
            BenchKind::Hca(_) => hca::run(stage, effort, &sizes, &mut report)?,
            BenchKind::Put(OneSided { memory, .. }) => {
                window::run(stage, effort, WindowVerb::Put, &sizes, memory, &mut report)?;
            }
            BenchKind::Get(OneSided { memory, .. }) => {
                window::run(stage, effort, WindowVerb::Get, &sizes, memory, &mut report)?;
            }
            BenchKind::Accumulate(OneSided { memory, .. }) => {
                window::run(stage, effort, WindowVerb::Accumulate, &sizes, memory, &mut report)?;
            }
            BenchKind::Sync(_) => window::sync(stage, effort, &mut report)?,
            BenchKind::Lock(ref locks) => locks.run(stage, &mut report)?,
            BenchKind::Rendezvous(ref kind) => kind.run(stage, &mut report)?,
            BenchKind::Cacheline(_) => cacheline::run(stage, effort, &mut report)?,
        }
        let after = cacheline::probe(stage)?;
        Ok(report.finish(before, after)?)
    }
}

impl BenchKind {
    const fn common(&self) -> Common {
        match self {
            Self::Latency(options)
            | Self::Bandwidth { options, .. }
            | Self::Rate(options)
            | Self::Ring(options)
            | Self::Hca(options) => options.common,
            Self::Halo(tiles) => tiles.common,
            Self::Rendezvous(kind) => kind.messages().common,
            Self::Lock(locks) => locks.common,
            Self::Put(options) | Self::Get(options) | Self::Accumulate(options) => options.common,
            Self::Barrier(common)
            | Self::Depth(common)
            | Self::Sync(common)
            | Self::Cacheline(common) => *common,
        }
    }

    const fn fastbox(&self) -> Fastbox {
        match self {
            Self::Latency(options)
            | Self::Bandwidth { options, .. }
            | Self::Rate(options)
            | Self::Ring(options)
            | Self::Hca(options) => options.fastbox,
            _ => Fastbox::Ring,
        }
    }

    /// Returns the requested transfers.
    fn transfers(&self) -> Vec<Transfer> {
        let (Self::Latency(options) | Self::Bandwidth { options, .. }) = self else {
            return Vec::new();
        };
        let named = options.transfer.iter().flat_map(|transfers| match transfers {
            TransferSet::All => Transfer::ALL.to_vec(),
            TransferSet::One(transfer) => vec![*transfer],
        });
        named.collect()
    }

    /// Returns the requested sizes, or else the most instructive ones.
    fn sizes(&self) -> Vec<usize> {
        match self {
            Self::Latency(options)
            | Self::Bandwidth { options, .. }
            | Self::Rate(options)
            | Self::Ring(options)
            | Self::Hca(options)
                if !options.bytes.is_empty() =>
            {
                options.bytes.clone()
            }
            Self::Put(options) | Self::Get(options) | Self::Accumulate(options)
                if !options.bytes.is_empty() =>
            {
                options.bytes.clone()
            }
            Self::Halo(tiles) if !tiles.tiles.is_empty() => tiles.tiles.clone(),
            Self::Halo(_) => (1..=10).map(|power| 1 << power).collect(),
            Self::Latency(_) => [0].into_iter().chain((0..=16).map(|power| 1 << power)).collect(),
            Self::Bandwidth { .. } => (12..=22).map(|power| 1 << power).collect(),
            Self::Rate(_) => vec![8],
            Self::Ring(_) => vec![8, 1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20],
            Self::Hca(_) => vec![8, 1 << 10, 16 << 10, 256 << 10, 1 << 20],
            Self::Put(_) | Self::Get(_) => vec![64, 1 << 10, 8 << 10, 64 << 10, 1 << 20],
            Self::Accumulate(_) => vec![64, 1 << 10, 8 << 10, 64 << 10],
            Self::Barrier(_)
            | Self::Depth(_)
            | Self::Sync(_)
            | Self::Lock(_)
            | Self::Rendezvous(_)
            | Self::Cacheline(_) => Vec::new(),
        }
    }
}

/// A set of transfers, named by one word.
#[derive(Clone, Copy, Debug)]
enum TransferSet {
    All,
    One(Transfer),
}

/// Makes large messages use each of `transfers` in turn, on every rank. If there are none, they use
/// the transfer of the environment.
fn each(stage: &BenchStage<'_>, transfers: &[Transfer]) -> impl Iterator<Item = Option<Transfer>> {
    let (world, count) = (stage.endpoint.world(), transfers.len().max(1));
    (0..count).map(move |number| {
        let transfer = transfers.get(number).copied();
        if let Some(transfer) = transfer {
            world.retune(Tuning { transfer, ..world.tuning() });
        }
        transfer
    })
}

/// Returns the path of messages of `bytes` bytes.
pub(crate) fn way(stage: &BenchStage<'_>, bytes: usize) -> &'static str {
    let tuning = stage.endpoint.world().tuning();
    match bytes {
        _ if stage.crosses() => env::ring().map_or("", Design::name),
        _ if tuning.suits_parcels(bytes) => "parcels",
        _ if bytes <= tuning.fastbox_max && tuning.fastbox_max > 0 => "fastbox",
        _ if bytes > tuning.eager_max => tuning.transfer.name(),
        _ => "cells",
    }
}

fn parse_transfer(text: &str) -> Result<TransferSet, String> {
    let named = Transfer::ALL.into_iter().find(|transfer| transfer.name() == text);
    match named {
        Some(transfer) => Ok(TransferSet::One(transfer)),
        None if text == "all" => Ok(TransferSet::All),
        None => Err(format!("expected all, {}", Transfer::ALL.map(Transfer::name).join(", "))),
    }
}

fn parse_bytes(text: &str) -> Result<usize, String> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let shift = match unit {
        "" => Some(0),
        "K" | "k" => Some(10),
        "M" | "m" => Some(20),
        _ => None,
    };
    let bytes = number.parse().ok().zip(shift).and_then(|(number, shift)| {
        usize::checked_mul(number, 1 << shift).filter(|&bytes| bytes <= BYTES_MAX)
    });
    bytes.ok_or_else(|| "expected a number of bytes such as 8, 64K or 1M, at most 64M".into())
}

fn parse_side(text: &str) -> Result<usize, String> {
    let side = text.parse().ok().filter(|side| SIDES.contains(side));
    side.ok_or_else(|| {
        format!("expected a number of words from {} to {}", SIDES.start(), SIDES.end())
    })
}

fn parse_ranks(text: &str) -> Result<u32, String> {
    let ranks = text.parse().ok().filter(|ranks: &u32| *ranks >= 2 && ranks.is_multiple_of(2));
    ranks.ok_or_else(|| "expected an even number, at least 2: ranks communicate in pairs".into())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 3600.0);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds above 0, at most 3600".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(["0", "8", "64K", "1m"].map(parse_bytes), [0, 8, 65_536, 1 << 20].map(Ok));
        for bad in ["", "K", "8B", "-1", "1.5K", "1G", "65M", "99999999999999999999K"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ranks_come_in_pairs() {
        assert_eq!(["2", "8"].map(parse_ranks), [Ok(2), Ok(8)]);
        for bad in ["0", "1", "3", "x"] {
            assert!(parse_ranks(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "inf", "NaN", "1e9", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad:?}");
        }
    }
}
