//! Tests the provider through libfabric itself, without an MPI.

use std::path::{Path, PathBuf};

use super::LIMIT;
use super::nodes::{DEVICES, all_well};
use crate::setup::{self, Tool};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// Runs the tests.
pub(super) fn run(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    setup::need(shell, Tool::Libfabric)?;
    let parts = [
        ("regions", regions(shell, provider)),
        ("endpoints", endpoints(shell, provider, "")),
        ("endpoints of several threads", endpoints(shell, provider, "safe")),
        ("asks", asks(shell, provider)),
    ];
    stop::all(parts.into())
}

/// Tests memory regions, between two processes that share memory and between two that a device
/// connects.
fn regions(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    let program = compile(shell, "regions")?;
    let run = |how: &str, device| {
        all_well(job(shell, &program, provider).arg(how).env("STRAIT_HCA", device), 1)
    };
    let mut parts = vec![("near", run("near", DEVICES[0]))];
    parts.extend(DEVICES.map(|device| (device, run("far", device))));
    stop::all(parts)
}

/// Tests messages that arrive before their receives, and the causes of failures.
fn endpoints(shell: &Shell, provider: &Path, argument: &str) -> Result<(), Stop> {
    let job = job(shell, &compile(shell, "endpoints")?, provider);
    all_well(if argument.is_empty() { job } else { job.arg(argument) }, 1)
}

/// Tests receives that ask for their messages, in random programs, with every setting.
fn asks(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    let program = compile(shell, "asks")?;
    let run = |setting: &'static str, seed: u32| {
        let job = job(shell, &program, provider).env("STRAIT_RENDEZVOUS", setting);
        (setting, all_well(job.arg(seed.to_string()), 1))
    };
    let settings = ["adaptive", "speculative", "plain"];
    let parts = (1..=3).flat_map(|seed| settings.map(|setting| run(setting, seed)));
    stop::all(parts.collect())
}

fn compile(shell: &Shell, name: &str) -> Result<PathBuf, Stop> {
    let program = shell.target().join("mpi").join(name);
    let options = "-std=c99 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror";
    let source = shell.root().join(format!("ffi/ofi/tests/{name}.c"));
    shell.step("cc", options).arg(source).arg("-o").arg(&program).arg("-lfabric").output()?;
    Ok(program)
}

fn job<'a>(shell: &'a Shell, program: &Path, provider: &Path) -> Step<'a> {
    let job = shell.step("timeout", &format!("-k 5 {LIMIT}")).arg(program);
    job.env("FI_PROVIDER", "strait").env("FI_PROVIDER_PATH", provider)
}
