//! Debian's MPICH and Open MPI, unpacked below the target directory.
//!
//! Nothing is installed in the system: that would change what other commands find there, and needs
//! root.

use std::fs;
use std::path::{Path, PathBuf};

use crate::setup::is_offline;
use crate::shell::{Shell, Step};
use crate::stop::{Absence, Stop};

/// The packages of both, which are fetched even if the system has them.
const PACKAGES: [&str; 8] = [
    "mpich",
    "libmpich12",
    "libmpich-dev",
    "hwloc-nox",
    "openmpi-bin",
    "openmpi-common",
    "libopenmpi3",
    "libopenmpi-dev",
];

/// The unpacked files.
pub(super) struct Files {
    /// The folder that stands for the root of the file system.
    pub(super) root: PathBuf,
    /// The folder of the libraries below it.
    pub(super) library: PathBuf,
}

impl Files {
    /// Returns the folder of the headers of `name`.
    pub(super) fn include(&self, name: &str) -> PathBuf {
        self.root.join("usr/include").join(triple()).join(name)
    }
}

/// Returns Debian's name of this processor's folder of libraries.
fn triple() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Returns the unpacked packages, which the first call fetches.
pub(super) fn files(shell: &Shell) -> Result<Files, Stop> {
    let root = shell.target().join("peers/debian");
    let complete = root.join("complete");
    if !complete.is_file() {
        eprintln!("peers: fetching Debian's MPICH and Open MPI");
        fetch(shell, &root).map_err(absence)?;
        fs::write(&complete, "").map_err(|error| Stop::io(&complete, &error))?;
    }
    let library = root.join("usr/lib").join(triple());
    Ok(Files { root, library })
}

fn fetch(shell: &Shell, root: &Path) -> Result<(), Stop> {
    let archives = root.join("archives");
    fs::create_dir_all(&archives).map_err(|error| Stop::io(&archives, &error))?;
    let plan = "install --simulate --no-install-recommends";
    let planned = PACKAGES.iter().fold(shell.step("apt-get", plan), Step::arg).stdout()?;
    let mut wanted = installs(&planned);
    wanted.extend(PACKAGES);
    wanted.sort_unstable();
    wanted.dedup();
    // `apt-get download` writes to the current folder.
    let script = "cd \"$0\" && apt-get download --quiet \"$@\"";
    let download = shell.step("sh", "-c").arg(script).arg(&archives);
    wanted.iter().fold(download, Step::arg).output()?;
    let unpack = "for archive in \"$0\"/*.deb; do dpkg -x \"$archive\" \"$1\" || exit; done";
    shell.step("sh", "-c").arg(unpack).arg(&archives).arg(root).output().map(drop)
}

/// Returns the packages that a simulated installation would add.
fn installs(plan: &str) -> Vec<&str> {
    plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next()).collect()
}

/// Reports the packages as missing.
fn absence(stop: Stop) -> Stop {
    let Stop::Failed(problem) = stop else { return stop };
    let remedy = (!is_offline(&problem)).then(|| "run `apt-get update` as root".to_owned());
    let last = problem.lines().last().unwrap_or_default();
    Stop::NotRun(Absence { what: format!("Debian's packages are missing: {last}"), remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_names_what_is_new() {
        let plan = "NOTE: This is only a simulation!\n\
                    Inst libmpich12 (4.0.2-3+b1 Debian:12.9/stable [amd64])\n\
                    Inst mpich (4.0.2-3+b1 Debian:12.9/stable [amd64]) []\n\
                    Conf libmpich12 (4.0.2-3+b1 Debian:12.9/stable [amd64])\n";
        assert_eq!(installs(plan), ["libmpich12", "mpich"]);
    }
}
