//! The options of these benches, and the environment in which their settings are comparable.

use std::ffi::OsString;

use clap::Args;
use strait::hca::soft::{SoftMode, TimeModel};
use strait::topology;

use crate::bench::options::{Common, asked_or, parse_bytes};

/// The factor by which a device is slower when its thread has no processor of its own.
const SLOWER: u32 = 8;

#[derive(Args, Debug)]
pub(super) struct RendezvousOptions {
    /// Sizes of messages, such as 32K,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    bytes: Vec<usize>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl RendezvousOptions {
    /// Returns the requested sizes, or else the paper's.
    pub(super) fn sizes(&self, paper: impl IntoIterator<Item = usize>) -> Vec<usize> {
        asked_or(&self.bytes, paper)
    }
}

/// Returns variables of the ranks' environment besides the launcher's, where the user sets none.
///
/// Between nodes, ranks use the device with a thread, which moves data while a rank computes. On a
/// node, the transfer is the default one, as in a program.
///
/// Where the device's threads share the processors of ranks, the device is slower. The share of a
/// message's time that its threads take from the processors is then smaller.
pub(in crate::bench) fn environment(ranks: u32) -> Vec<(OsString, OsString)> {
    let cards = TimeModel::INFINIBAND_2004;
    let shared = topology::allowed_cpu_count() < 2 * ranks as usize;
    let model = if shared { cards.slower(SLOWER) } else { cards };
    let wanted = [
        ("STRAIT_HCA", SoftMode::Engine(model).name().to_owned()),
        ("STRAIT_HCA_MODEL", model.text()),
    ];
    let absent = wanted.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    absent.map(|(name, value)| (name.into(), value.into())).collect()
}
