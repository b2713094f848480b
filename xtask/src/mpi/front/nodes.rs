//! Runs programs through the front on virtual nodes, which a software device connects.

use std::fs;
use std::path::Path;

use super::{Host, compile, count_of_two, intel, launch, mpich, open_mpi};
use crate::mpi::nodes::{DEVICES, far};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// What the front says at its start when all messages are Strait's.
pub(super) const SERVED: &str = "strait: messages are Strait's: ";

/// What it says when they are the host's.
pub(super) const NOT_SERVED: &str = "strait: all messages are the host's: ";

/// The programs, with the number of ranks. `nodes` also needs this number.
const PROGRAMS: [(&str, &str); 9] = [
    ("nodes", "4"),
    ("messages", "4"),
    ("types", "2"),
    ("communicators", "4"),
    ("collective_results", "3"),
    ("neighbours", "3"),
    ("host_waits", "3"),
    ("errors", "2"),
    ("threads", "2"),
];

/// Number of [`PROGRAMS`] that the hosts after the first one run, and each device.
const FEW: usize = 2;

/// Runs all programs.
pub(super) fn run(shell: &Shell) -> Result<(), Stop> {
    stop::all(vec![
        ("MPICH", mpich(shell).and_then(|host| programs(shell, &host, "mpich", &PROGRAMS))),
        ("Open MPI", open_mpi(shell).and_then(|host| few(shell, &host, "openmpi"))),
        ("Intel MPI", intel(shell).and_then(|host| few(shell, &host, "intel"))),
        ("devices", mpich(shell).and_then(|host| devices(shell, &host))),
        ("a death", mpich(shell).and_then(|host| death(shell, &host))),
        ("no network", mpich(shell).and_then(|host| without_network(shell, &host))),
        ("one rank alone", mpich(shell).and_then(|host| one_alone(shell, &host, "mpich"))),
        ("one of Open MPI", open_mpi(shell).and_then(|host| one_alone(shell, &host, "openmpi"))),
    ])
}

fn few(shell: &Shell, host: &Host, with: &str) -> Result<(), Stop> {
    programs(shell, host, with, &PROGRAMS[..FEW])
}

fn programs(
    shell: &Shell,
    host: &Host,
    with: &str,
    programs: &[(&'static str, &str)],
) -> Result<(), Stop> {
    let run = |name: &str, ranks: &str| {
        let program = compile(shell, host, name, with)?;
        let job = far(launch(shell, host, &format!("-n {ranks}"))).arg(program);
        explained(job, &format!("{SERVED}{ranks} ranks on 2 nodes"))
    };
    stop::all(programs.iter().map(|(name, ranks)| (*name, run(name, ranks))).collect())
}

/// Runs a job that must print "well". The front must explain in these words what carries its
/// messages.
pub(super) fn explained(job: Step<'_>, words: &str) -> Result<(), Stop> {
    let explanation = explanation(job)?;
    if explanation.contains(words) {
        return Ok(());
    }
    Err(Stop::Failed(format!("the front did not say {words:?}, but:\n{explanation}")))
}

/// Runs a job that must print "well", and returns what the front explains.
pub(super) fn explanation(job: Step<'_>) -> Result<String, Stop> {
    let said = job.env("STRAIT_MPI_VERBOSE", "1").output()?;
    let [out, explanation] =
        [said.stdout, said.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if out.trim() == "well" {
        return Ok(explanation);
    }
    let out = out.trim();
    Err(Stop::Failed(format!("the program printed {out:?}, not \"well\":\n{explanation}")))
}

/// Runs `nodes` with each software device.
fn devices(shell: &Shell, host: &Host) -> Result<(), Stop> {
    let program = compile(shell, host, "nodes", "mpich")?;
    let run = |device| {
        let job = far(launch(shell, host, "-n 4")).env("STRAIT_HCA", device).arg(&program);
        explained(job, SERVED)
    };
    stop::all(DEVICES.map(|device| (device, run(device))).into())
}

/// Kills a rank while others wait for it, one of them on another node. Each must get an error.
fn death(shell: &Shell, host: &Host) -> Result<(), Stop> {
    let program = compile(shell, host, "death", "mpich")?;
    let known = host.home.join("front-deaths-elsewhere");
    // Ranks 0 and 1 are on one node, and rank 2, which is killed, is on the other. Or each rank has
    // a node.
    ["2", "3"].into_iter().try_for_each(|nodes| died(shell, host, (&program, &known), nodes))
}

fn died(
    shell: &Shell,
    host: &Host,
    (program, known): (&Path, &Path),
    nodes: &str,
) -> Result<(), Stop> {
    let _ = fs::remove_file(known);
    let job = launch(shell, host, "-disable-auto-cleanup -n 3 setsid -w").arg(program).arg(known);
    // The launcher reports the death.
    let _ = job.env("STRAIT_NODES", nodes).output();
    let count = count_of_two(known);
    if count == 2 {
        return Ok(());
    }
    Err(Stop::Failed(format!("{count} of 2 ranks got an error after a death on another node")))
}

/// Runs a job on two nodes without a device between them, and with several: the host carries all.
fn without_network(shell: &Shell, host: &Host) -> Result<(), Stop> {
    let program = compile(shell, host, "messages", "mpich")?;
    let device = |device| {
        let job = far(launch(shell, host, "-n 3")).env("STRAIT_HCA", device).arg(&program);
        explained(job, NOT_SERVED)
    };
    let mixed = far(launch(shell, host, "-n 1 -env STRAIT_HCA soft-engine")).arg(&program);
    let mixed = ":,-n,2".split(',').fold(mixed, Step::arg).arg(&program);
    stop::all(vec![
        ("none", device("none")),
        ("not built", device("verbs")),
        ("mixed", explained(mixed, NOT_SERVED)),
    ])
}

/// Runs a job of which one rank alone cannot join: the host carries all.
fn one_alone(shell: &Shell, host: &Host, with: &str) -> Result<(), Stop> {
    let program = compile(shell, host, "cannot_join", with)?;
    let run = |nodes| {
        let job = launch(shell, host, "-n 4").env("STRAIT_NODES", nodes).arg(&program);
        explained(job, &format!("{NOT_SERVED}rank 3: "))
    };
    let mut parts =
        vec![("a node each", run("4")), ("one node", served_by_others(shell, host, &program))];
    // Open MPI's processes need more connections themselves.
    if with == "mpich" {
        let job = launch(shell, host, "-n 4").env("STRAIT_NODES", "4").arg(&program);
        parts
            .push(("unreached", explained(job.arg("unreached"), &format!("{NOT_SERVED}rank 3: "))));
    }
    stop::all(parts)
}

/// The rank that cannot make shared memory need not: the first rank of its node does.
fn served_by_others(shell: &Shell, host: &Host, program: &Path) -> Result<(), Stop> {
    let job = launch(shell, host, "-n 4").env("STRAIT_NODES", "1").arg(program);
    explained(job, SERVED)
}
