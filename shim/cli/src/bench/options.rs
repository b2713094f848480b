//! Options that several benches have.

use core::ops::RangeInclusive;
use core::time::Duration;

use clap::{Args, ValueEnum};
use strait::boot::SegmentConfig;
use strait::{Transfer, Tuning, World};
use strait_core::shm::SHORT_MAX;

use crate::measure::sampling::Effort;

/// Maximum size of a message of a bench, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Maximum number of messages in flight in one direction.
pub(super) const WINDOW: usize = 64;

/// Range of the side of a tile, in words. A tile sends two rows in one direction, and the memory
/// must hold as many tiles as there are ranks.
const SIDES: RangeInclusive<usize> = 2..=4096;

#[derive(Args, Debug)]
pub(super) struct MessageOptions {
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
    /// Post each receive before it is matched, as with STRAIT_BYPASS=off
    #[arg(long)]
    no_bypass: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl MessageOptions {
    /// Returns the requested sizes, or else `default`.
    pub(super) fn sizes(&self, default: impl IntoIterator<Item = usize>) -> Vec<usize> {
        asked_or(&self.bytes, default)
    }

    /// Returns the requested transfers.
    pub(super) fn transfers(&self) -> Vec<Transfer> {
        let named = self.transfer.iter().flat_map(|transfers| match transfers {
            TransferSet::All => Transfer::ALL.to_vec(),
            TransferSet::One(transfer) => vec![*transfer],
        });
        named.collect()
    }

    /// Returns the shape of segments with the requested fastbox.
    pub(super) const fn segment(&self) -> SegmentConfig {
        self.fastbox.config(self.common.ranks)
    }

    /// Makes a rank use the requested fastbox, and the bypass unless it is not wanted.
    pub(super) fn prepare(&self, world: &World) {
        self.fastbox.tune(world);
        if self.no_bypass {
            world.retune(Tuning { bypass: false, ..world.tuning() });
        }
    }
}

/// Returns the requested sizes, or else `default`.
pub(super) fn asked_or(asked: &[usize], default: impl IntoIterator<Item = usize>) -> Vec<usize> {
    if asked.is_empty() { default.into_iter().collect() } else { asked.to_vec() }
}

#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Common {
    /// Number of ranks: rank i exchanges messages with rank i + N/2, all pairs at once
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = parse_ranks)]
    pub(super) ranks: u32,
    /// Number of virtual nodes on this machine, each of as many ranks: with 2, every pair spans
    /// both
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) nodes: u32,
    /// Print one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
    /// Maximum number of samples of each measurement
    #[arg(long, value_name = "N", default_value_t = 300)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
    /// Round trips or windows in one sample [default: as many as take 200 µs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    iterations: Option<u64>,
    /// Maximum time of each measurement [default: 1; of a lock 0.25]
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    seconds: Option<Duration>,
}

impl Common {
    /// Returns the effort of each measurement.
    pub(super) fn effort(self) -> Effort {
        self.effort_within(Duration::from_secs(1))
    }

    /// Returns the effort of each measurement, which takes at most `limit` unless the user gives
    /// another time.
    pub(super) fn effort_within(self, limit: Duration) -> Effort {
        let Self { samples, iterations, seconds, .. } = self;
        let limit = seconds.unwrap_or(limit);
        Effort { samples: samples as usize, rounds: iterations, limit }
    }
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

/// A set of transfers, named by one word.
#[derive(Clone, Copy, Debug)]
enum TransferSet {
    All,
    One(Transfer),
}

fn parse_transfer(text: &str) -> Result<TransferSet, String> {
    let named = Transfer::ALL.into_iter().find(|transfer| transfer.name() == text);
    match named {
        Some(transfer) => Ok(TransferSet::One(transfer)),
        None if text == "all" => Ok(TransferSet::All),
        None => Err(format!("expected all, {}", Transfer::ALL.map(Transfer::name).join(", "))),
    }
}

pub(super) fn parse_bytes(text: &str) -> Result<usize, String> {
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

pub(super) fn parse_side(text: &str) -> Result<usize, String> {
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
