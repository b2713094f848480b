//! Runs a program in Fortran, by each of its interfaces to MPI, through the front. The hosts are
//! Debian's: Python's packages have no Fortran interface.

use std::fs;
use std::path::PathBuf;

use super::nodes::{SERVED, explained, explanation};
use super::{LIMIT, SOURCE};
use crate::mpi::nodes::far;
use crate::setup::{self, Tool};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// The interfaces, as the source names them.
const INTERFACES: [&str; 3] = ["MPIF", "MPI", "F08"];

/// The compiler and the launcher of one of Debian's MPIs.
struct Debian {
    name: &'static str,
    tool: Tool,
    compiler: &'static str,
    launcher: &'static str,
}

const MPIS: [Debian; 2] = [
    Debian {
        name: "mpich",
        tool: Tool::MpichFortran,
        compiler: "mpif90.mpich",
        launcher: "mpiexec.mpich",
    },
    Debian {
        name: "openmpi",
        tool: Tool::OpenMpiFortran,
        compiler: "mpif90.openmpi",
        launcher: "mpirun.openmpi --oversubscribe --bind-to none",
    },
];

/// Runs the program with each host and each interface.
pub(super) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Gfortran)?;
    stop::all(MPIS.iter().map(|mpi| (mpi.name, interfaces(shell, mpi))).collect())
}

fn interfaces(shell: &Shell, mpi: &Debian) -> Result<(), Stop> {
    setup::need(shell, mpi.tool)?;
    let run = |interface| {
        let program = compile(shell, mpi, interface)?;
        carried(launch(shell, mpi).arg(program))
    };
    let mut parts: Vec<_> = INTERFACES.map(|interface| (interface, run(interface))).into();
    let apart = || {
        let job = far(launch(shell, mpi)).arg(compile(shell, mpi, INTERFACES[2])?);
        explained(job, &format!("{SERVED}3 ranks on 2 nodes"))
    };
    parts.push(("nodes", apart()));
    stop::all(parts)
}

fn compile(shell: &Shell, mpi: &Debian, interface: &str) -> Result<PathBuf, Stop> {
    let folder = shell.target().join("mpi/fortran");
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    let program = folder.join(format!("{}-{interface}", mpi.name));
    // Calls of mpif.h with buffers of different types are no error.
    let options = "-O1 -cpp -w -ffree-line-length-none -fallow-argument-mismatch";
    let step = shell.step(mpi.compiler, options).arg(format!("-D{interface}")).arg("-J");
    let step = step.arg(&folder).arg("-o").arg(&program);
    step.arg(shell.root().join(SOURCE).join("fortran.F90")).output()?;
    Ok(program)
}

fn launch<'a>(shell: &'a Shell, mpi: &Debian) -> Step<'a> {
    let strait = shell.target().join("debug/strait");
    let step = shell.step("timeout", &format!("-k 5 {LIMIT}")).arg(strait).arg("mpi");
    let step = mpi.launcher.split_whitespace().fold(step, Step::arg).arg("-n").arg("3");
    let root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    let step = root.into_iter().fold(step, |step, name| step.env(name, "1"));
    step.env("XDG_CACHE_HOME", shell.target().join("mpi/cache"))
}

/// Checks that Strait carries the messages of a job: rank 0 receives 600 of them in a loop alone.
fn carried(job: Step<'_>) -> Result<(), Stop> {
    const LEAST: u64 = 600;
    let explanation = explanation(job)?;
    let packets = explanation.lines().find_map(|line| {
        let (count, _) = line.strip_prefix("strait: rank 0 exchanged ")?.split_once(' ')?;
        count.parse::<u64>().ok()
    });
    if packets.is_some_and(|packets| packets >= LEAST) {
        return Ok(());
    }
    let text = "Strait carried fewer packets of rank 0 than";
    Err(Stop::Failed(format!("{text} {LEAST}:\n{explanation}")))
}
