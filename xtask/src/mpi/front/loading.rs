//! Programs that load libraries when they run: their MPI, or that of a GPU.

use std::path::PathBuf;

use super::nodes::{NOT_SERVED, SERVED, explained};
use super::{Host, SOURCE, compile, intel, launch, launch_by, mpich, open_mpi, standard};
use crate::shell::Shell;
use crate::stop::{self, Stop};

/// Runs a program that loads its MPI by path, with each host and with another MPI than the host.
pub(super) fn mpi(shell: &Shell) -> Result<(), Stop> {
    let served = |host: Result<Host, Stop>, with: &str, library: &str| {
        let host = host?;
        let library = host.home.join("lib").join(library);
        let program = compile_unlinked(shell, &host, with)?;
        explained(launch(shell, &host, "-n 2").arg(program).arg(library), SERVED)
    };
    stop::all(vec![
        ("MPICH", served(mpich(shell), "mpich", "libmpi.so.12")),
        ("MPI-5 ABI", abi(shell)),
        ("Open MPI", served(open_mpi(shell), "openmpi", "libmpi.so.40")),
        ("Intel MPI", served(intel(shell), "intel", "libmpi.so.12")),
        ("another MPI", other(shell)),
    ])
}

/// The launcher's MPI has two libraries. The user names that of the program.
fn abi(shell: &Shell) -> Result<(), Stop> {
    let host = standard(shell)?;
    let library = host.home.join("lib/libmpi_abi.so.1");
    let program = compile_unlinked(shell, &host, "standard")?;
    let options = ["--library", &library.display().to_string()];
    let job = launch_by(shell, &host, &options, "-n 2");
    explained(job.arg(program).arg(&library), SERVED)
}

/// The program loads another library than that of its launcher's MPI: it is told which, and runs.
fn other(shell: &Shell) -> Result<(), Stop> {
    let host = standard(shell)?;
    let library = host.home.join("lib/libmpi_abi.so.1");
    let program = compile_unlinked(shell, &host, "standard")?;
    let job = launch(shell, &host, "-n 2").arg(program).arg(&library);
    explained(job, &format!("{NOT_SERVED}the program has loaded {}", library.display()))
}

/// Compiles the program that is not linked with MPI.
fn compile_unlinked(shell: &Shell, host: &Host, with: &str) -> Result<PathBuf, Stop> {
    let program = host.home.join(format!("front-{with}-loaded"));
    let include = match with {
        "standard" => shell.target().join("mpi/standard-include"),
        _ => host.home.join("include"),
    };
    let step = shell.step("cc", "-std=gnu11 -O1 -w -o").arg(&program);
    let step = step.arg(format!("-I{}", include.display()));
    step.arg(shell.root().join(SOURCE).join("loaded.c")).arg("-ldl").output()?;
    Ok(program)
}

/// Runs programs of which one rank uses a GPU.
pub(super) fn gpu(shell: &Shell) -> Result<(), Stop> {
    let host = mpich(shell)?;
    let program = compile(shell, &host, "gpu", "mpich")?;
    let library = stand_in(shell, &host)?;
    let job = |when: &str| launch(shell, &host, "-n 2").arg(&program).arg(when).arg(&library);
    stop::all(vec![
        ("none", explained(launch(shell, &host, "-n 2").arg(&program), SERVED)),
        (
            "before",
            explained(job("before"), &format!("{NOT_SERVED}rank 1: the program uses a GPU")),
        ),
        ("later", explained(job("later"), "the host keeps a communicator of 2 ranks")),
        ("code", code_for_gpu(shell, &host)),
    ])
}

/// Makes a library that is named like that of a GPU.
fn stand_in(shell: &Shell, host: &Host) -> Result<PathBuf, Stop> {
    let library = host.home.join("libcuda.so.1");
    let options = "-shared -Wl,-soname,libcuda.so.1 -x c /dev/null -o";
    shell.step("cc", options).arg(&library).output()?;
    Ok(library)
}

/// Runs a program that has code for a GPU and has loaded no library of one.
fn code_for_gpu(shell: &Shell, host: &Host) -> Result<(), Stop> {
    let program = host.home.join("front-mpich-gpu-code");
    let step = shell.step(host.home.join("bin/mpicc"), "-O1 -w -DCODE_FOR_GPU -o").arg(&program);
    step.arg(shell.root().join(SOURCE).join("gpu.c")).arg("-ldl").output()?;
    explained(launch(shell, host, "-n 2").arg(program), "it has code for one (.nv_fatbin)")
}
