//! Runs unmodified MPICH on two hosts, on the provider and behind the front: the script and the
//! files of the guest.

use std::path::PathBuf;

use crate::mpi;
use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::Stop;

/// The script that the guest runs.
pub(super) const SCRIPT: &str = include_str!("hosts");

/// The parts of MPICH's package that a job needs: its launcher, and its library with the libraries
/// that it loads.
const MPICH: [(&str, &str); 8] = [
    ("mpiexec", "bin/mpiexec"),
    ("hydra_pmi_proxy", "bin/hydra_pmi_proxy"),
    ("libmpi.so.12", "lib/libmpi.so.12"),
    ("libfabric.so.1", "lib/mpich/libfabric.so.1"),
    ("libucp.so.0", "lib/mpich/libucp.so.0"),
    ("libuct.so.0", "lib/mpich/libuct.so.0"),
    ("libucs.so.0", "lib/mpich/libucs.so.0"),
    ("libucm.so.0", "lib/mpich/libucm.so.0"),
];

/// The programs that run behind the front: their names in the guest, and those of their sources.
const FRONT: [(&str, &str); 3] =
    [("front-nodes", "nodes"), ("front-results", "collective_results"), ("front-death", "death")];

/// Returns MPICH, programs that are linked with it, and one of libfabric's programs.
pub(super) fn programs(shell: &Shell) -> Result<Vec<(&'static str, PathBuf)>, Stop> {
    setup::need(shell, Tool::FabricPrograms)?;
    let pingpong = shell.step("which", "fi_pingpong").stdout()?;
    let (home, messages) = mpi::mpich(shell, "messages")?;
    let mut programs =
        vec![("fi_pingpong", PathBuf::from(pingpong.trim_end())), ("messages", messages)];
    for (name, program) in FRONT {
        programs.push((name, mpi::front::of_mpich(shell, program)?));
    }
    programs.extend(MPICH.map(|(name, place)| (name, home.join(place))));
    Ok(programs)
}
