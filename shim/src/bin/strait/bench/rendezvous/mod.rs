//! The benches of the rendezvous ([SpecRndv09] §4): each measures every [setting](setting::ALL) in turn, in one run.

mod computation;
pub(super) mod exchange;
pub(super) mod kernels;
mod message;
pub(super) mod overhead;
pub(super) mod overlap;
pub(super) mod progress;
mod setting;
mod work;

use std::ffi::OsString;

use strait::hca::soft::{Mode, TimeModel};

/// What the ranks get in their environment besides the launcher's: between nodes the device with a thread, which moves data
/// while a rank computes, unless the user wants another.
pub(super) fn environment() -> Vec<(OsString, OsString)> {
    const DEVICE: &str = "STRAIT_HCA";
    let engine = Mode::Engine(TimeModel::INFINIBAND_2004).name();
    match std::env::var_os(DEVICE) {
        Some(_) => Vec::new(),
        None => vec![(DEVICE.into(), engine.into())],
    }
}
