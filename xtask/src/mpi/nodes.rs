//! Runs processes that share no memory: on several (virtual) nodes, and in jobs that were started
//! separately.

use std::fs::{self, File};
use std::path::Path;

use super::{MPICH, Mpi, death, home, launch};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// Makes the ranks act as if they were on two nodes.
const TWO_NODES: (&str, &str) = ("STRAIT_NODES", "2");

/// The software devices.
pub(super) const DEVICES: [&str; 3] = ["soft-inline", "soft-engine", "soft-iwarp"];

/// The tests of mpi4py that take little time.
const PYTHON_TESTS: [&str; 3] = ["-itest_p2p_obj", "-itest_p2p_buf_matched", "-itest_rma_nb"];

/// Runs the tests under MPICH.
pub(super) fn run(shell: &Shell, provider: &Path) -> Result<(), Stop> {
    let home = home(shell, MPICH.name, MPICH.packages)?;
    let places = (&*home, provider);
    let messages = super::compile(shell, &MPICH, &home, "messages")?;
    let meet = super::compile(shell, &MPICH, &home, "meet")?;
    let mut parts = Vec::new();
    for device in DEVICES {
        let job = launch(shell, &MPICH, places, "-n 3")?.env("STRAIT_HCA", device);
        parts.push((device, all_well(far(job).arg(&messages), 1)));
    }
    parts.push(("a death elsewhere", death(shell, &MPICH, places, &[TWO_NODES])));
    let spawn = |step: Step<'_>| all_well(step.arg(&meet).arg("spawn"), 2);
    parts.push(("spawn", launch(shell, &MPICH, places, "-n 2").and_then(spawn)));
    let spawned = launch(shell, &MPICH, places, "-n 2").map(far).and_then(spawn);
    parts.push(("spawn on nodes", spawned));
    parts.push(("accept and connect", apart(shell, &MPICH, places, &meet)));
    let tests = super::python_tests(shell, provider, &PYTHON_TESTS).map(far);
    parts.push(("mpi4py", tests.and_then(|tests| tests.output().map(drop))));
    stop::all(parts)
}

/// Places the ranks of a job on two nodes.
pub(super) fn far(job: Step<'_>) -> Step<'_> {
    job.env(TWO_NODES.0, TWO_NODES.1)
}

/// Runs two jobs that find each other.
fn apart(shell: &Shell, mpi: &Mpi, places: (&Path, &Path), meet: &Path) -> Result<(), Stop> {
    let (port, log) = (meet.with_extension("port"), meet.with_extension("log"));
    let _ = fs::remove_file(&port);
    let failed = |error| Stop::io(&log, &error);
    let accept = launch(shell, mpi, places, "-n 2")?.arg(meet).arg("accept").arg(&port);
    let mut accepts = File::create(&log).and_then(|log| accept.spawn_into(log)).map_err(failed)?;
    let connect = launch(shell, mpi, places, "-n 3")?.arg(meet).arg("connect").arg(&port);
    let connected = all_well(connect, 1);
    // The time limit of the program bounds this wait.
    let status = accepts.wait().map_err(failed)?;
    connected?;
    let said = fs::read_to_string(&log).map_err(failed)?;
    if status.success() && said.contains("all well") {
        return Ok(());
    }
    Err(Stop::Failed(format!("the job that accepts: {status}\n{}", said.trim_end())))
}

/// Runs a program and checks that it prints "all well" `times` times.
pub(super) fn all_well(job: Step<'_>, times: usize) -> Result<(), Stop> {
    let said = job.output()?;
    let well = String::from_utf8_lossy(&said.stdout).matches("all well").count();
    if well == times {
        return Ok(());
    }
    Err(Stop::Failed(format!("the program printed \"all well\" {well} times, not {times}")))
}
