//! Debian's MPICH and Open MPI as hosts, which are older than Python's packages.

use std::fs;
use std::path::PathBuf;

use super::Host;
use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::Stop;

pub(super) fn mpich(shell: &Shell) -> Result<Host, Stop> {
    setup::need(shell, Tool::MpichFortran)?;
    let compile = vec!["mpicc.mpich".to_owned()];
    let launcher = PathBuf::from("mpiexec.mpich");
    // Otherwise its own collective operations, with which ours are compared, truncate messages.
    let environment = &[("UCX_RNDV_THRESH", "inf")];
    Ok(Host { home: home(shell, "mpich")?, launcher, compile, options: "", environment })
}

pub(super) fn open_mpi(shell: &Shell) -> Result<Host, Stop> {
    setup::need(shell, Tool::OpenMpiFortran)?;
    let environment = &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
    Ok(Host {
        home: home(shell, "openmpi")?,
        launcher: PathBuf::from("mpirun.openmpi"),
        compile: vec!["mpicc.openmpi".to_owned()],
        options: "--oversubscribe --bind-to none",
        environment,
    })
}

/// Returns a folder for the programs. The MPI itself is the system's.
fn home(shell: &Shell, name: &str) -> Result<PathBuf, Stop> {
    let folder = shell.target().join(format!("mpi/debian-{name}"));
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    Ok(folder)
}
