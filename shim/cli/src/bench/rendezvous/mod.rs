//! The benches of the rendezvous ([SpecRndv09] §4). Each measures every [setting](setting::ALL) in
//! turn, in one run.

mod bare;
mod device;
mod exchange;
mod kernels;
mod message;
mod overhead;
mod overlap;
mod progress;
mod rtrs;
mod setting;
mod work;

use core::error::Error;
use std::ffi::OsString;

use clap::{Args, Subcommand};
use strait::hca::soft::{SoftMode, TimeModel};
use strait::{Transfer, topology};

use super::report::Report;
use super::stage::BenchStage;
use super::{Common, parse_bytes};

/// The factor by which a device is slower when its thread has no processor of its own.
const SLOWER: u32 = 8;

#[derive(Debug, Subcommand)]
pub(super) enum RendezvousBench {
    /// Computation that is hidden behind one large message, by the end that computes and the end
    /// that comes first
    Overlap(MessageArgs),
    /// Time of one large message while one of its ends computes for increasing times
    Progress(MessageArgs),
    /// Iterations that produce data, exchange them and consume the received data
    Exchange(exchange::ExchangeOptions),
    /// Communication patterns of CG, BT, LU and RADIX, and their time in waits
    Kernels(MessageArgs),
    /// Cost of the rendezvous for messages that gain nothing by it
    Overhead(MessageArgs),
}

#[derive(Args, Debug)]
pub(super) struct MessageArgs {
    /// Sizes of messages, such as 32K,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    bytes: Vec<usize>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl RendezvousBench {
    pub(super) const fn messages(&self) -> &MessageArgs {
        match self {
            Self::Overlap(messages)
            | Self::Progress(messages)
            | Self::Kernels(messages)
            | Self::Overhead(messages) => messages,
            Self::Exchange(options) => &options.messages,
        }
    }

    /// Returns the requested sizes, or else the paper's.
    fn sizes(&self) -> Vec<usize> {
        match self {
            _ if !self.messages().bytes.is_empty() => self.messages().bytes.clone(),
            Self::Overlap(_) => (15..=22).map(|power| 1 << power).collect(),
            Self::Progress(_) => vec![1 << 20],
            Self::Exchange(_) | Self::Kernels(_) => vec![128 << 10],
            Self::Overhead(_) => vec![8, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 1 << 20],
        }
    }

    /// Number of measurements.
    pub(super) fn steps(&self, stage: &BenchStage<'_>) -> usize {
        let sizes = self.sizes();
        match self {
            Self::Overlap(_) => overlap::STEPS * sizes.len(),
            Self::Progress(_) => progress::STEPS * sizes.len(),
            Self::Exchange(options) => options.steps() * sizes.len(),
            Self::Kernels(_) => kernels::STEPS * sizes.len(),
            Self::Overhead(_) => overhead::steps(stage, &sizes),
        }
    }

    /// Runs the bench on each rank.
    pub(super) fn run(
        &self,
        stage: &BenchStage<'_>,
        report: &mut Report,
    ) -> Result<(), Box<dyn Error>> {
        let (effort, sizes) = (self.messages().common.effort(), &self.sizes());
        match self {
            Self::Overlap(_) => overlap::run(stage, effort, sizes, report),
            Self::Progress(_) => progress::run(stage, effort, sizes, report),
            Self::Exchange(options) => exchange::run(stage, effort, sizes, options, report),
            Self::Kernels(_) => kernels::run(stage, effort, sizes, report),
            Self::Overhead(_) => overhead::run(stage, effort, sizes, report),
        }
    }
}

/// Returns variables of the ranks' environment besides the launcher's, where the user sets none.
///
/// Between nodes, ranks use the device with a thread, which moves data while a rank computes. On a
/// node, all large messages use one transfer that either end can drive alone while the other
/// computes. A transfer chosen by recent speed would depend on the measurement of another setting.
///
/// Where the device's threads share the processors of ranks, the device is slower. The share of a
/// message's time that its threads take from the processors is then smaller.
pub(super) fn environment(ranks: u32) -> Vec<(OsString, OsString)> {
    let cards = TimeModel::INFINIBAND_2004;
    let shared = topology::allowed_cpu_count() < 2 * ranks as usize;
    let model = if shared { cards.slower(SLOWER) } else { cards };
    let wanted = [
        ("STRAIT_HCA", SoftMode::Engine(model).name().to_owned()),
        ("STRAIT_HCA_MODEL", model.text()),
        ("STRAIT_LMT", Transfer::CmaShared.name().to_owned()),
    ];
    let absent = wanted.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    absent.map(|(name, value)| (name.into(), value.into())).collect()
}
