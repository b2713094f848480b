//! Tests one-sided communication: more concurrent operations than the tables have room for,
//! datatypes, and more ranks than processors.

use std::path::Path;

use super::nodes::{DEVICES, all_well, far};
use super::{MPICH, compile, home, launch};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// Runs the tests under MPICH.
pub(super) fn run(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    let home = home(shell, MPICH.name, MPICH.packages)?;
    let places = (&*home, provider);
    let [gets, strided, crowded] =
        ["gets", "strided", "crowded"].map(|name| compile(shell, &MPICH, &home, name));
    let (gets, strided, crowded) = (gets?, strided?, crowded?);
    let job = |ranks: &str| launch(shell, &MPICH, places, ranks);
    let mut parts = Vec::new();
    for device in &DEVICES[1..] {
        let run = |job| all_well(far(job).env("STRAIT_HCA", device).arg(&gets), 1);
        parts.push((*device, job("-n 2").and_then(run)));
    }
    let messages = job("-n 2").and_then(|job| all_well(far(job).arg(&gets).arg("messages"), 1));
    parts.push(("messages on nodes", messages));
    let near = job("-n 2").and_then(|job| all_well(job.arg(&strided), 1));
    parts.push(("datatypes", near));
    let far = job("-n 2").and_then(|job| all_well(far(job).arg(&strided).arg("60"), 1));
    parts.push(("datatypes on nodes", far));
    let crowded = job("-n 4").and_then(|job| all_well(job.arg(&crowded).arg("40"), 1));
    parts.push(("more ranks than processors", crowded));
    stop::all(parts)
}
