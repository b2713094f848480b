//! The path that a message takes.

use strait::{Transfer, Tuning, env};
use strait_core::ring::Design;

use super::stage::BenchStage;

/// Makes large messages use each of `transfers` in turn, on every rank. If there are none, they use
/// the transfer of the environment.
pub(crate) fn each(
    stage: &BenchStage<'_>,
    transfers: &[Transfer],
) -> impl Iterator<Item = Option<Transfer>> {
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
