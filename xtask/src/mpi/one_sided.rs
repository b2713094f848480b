//! Tests one-sided communication: more concurrent operations than the tables have room for, wrong
//! keys and addresses, datatypes, and more ranks than processors.

use std::path::Path;

use super::nodes::{DEVICES, all_well, far};
use super::{LIMIT, MPICH, compile, home, launch};
use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// Runs the tests under MPICH, and through libfabric itself.
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
    parts.push(("regions", regions(shell, provider)));
    stop::all(parts)
}

/// Tests memory regions through libfabric, between two processes that share memory and between two
/// that a device connects.
fn regions(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    setup::need(shell, Tool::Libfabric)?;
    let program = shell.target().join("mpi/regions");
    let compile = "-std=c99 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror ffi/ofi/tests/regions.c -o";
    shell.step("cc", compile).arg(&program).arg("-lfabric").output()?;
    let run = |how: &str, device| {
        let job = shell.step("timeout", &format!("-k 5 {LIMIT}")).arg(&program).arg(how);
        all_well(job.env("FI_PROVIDER_PATH", provider).env("STRAIT_HCA", device), 1)
    };
    let mut parts = vec![("near", run("near", DEVICES[0]))];
    parts.extend(DEVICES.map(|device| (device, run("far", device))));
    stop::all(parts)
}
