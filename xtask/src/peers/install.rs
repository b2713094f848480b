//! Installs the peers below the target directory, and compiles the patterns for each.
//!
//! What is there already is not fetched again, so a second run needs no network.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::debian;
use super::library::Library;
use crate::shell::{Shell, Step};
use crate::stop::{Absence, Stop};
use crate::{install, mpi};

/// The name of our own library in the figures.
pub(super) const STRAIT: &str = "strait";

/// The folder of the program's source.
const SOURCE: &str = "benches/patterns";

/// A preloaded source that is no part of the program.
const NO_YIELD: &str = "no_yield.c";

/// The options of the launchers of Open MPI. The ranks bind themselves.
const OPEN_MPI: &str = "--oversubscribe --bind-to none";

/// What every Open MPI needs where root runs it.
const AS_ROOT: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// What selects the components of Open MPI: its own transport, or UCX. UCX refuses memory alone
/// unless it may use any device.
const OB1: [(&str, &str); 1] = [("OMPI_MCA_pml", "ob1")];
const UCX: [(&str, &str); 3] =
    [("OMPI_MCA_pml", "ucx"), ("OMPI_MCA_pml_ucx_tls", "any"), ("OMPI_MCA_pml_ucx_devices", "any")];

/// The names of the peers with Strait's front before them.
const FRONTED: [(&str, &str); 6] = [
    ("mpich5", "mpich5+front"),
    ("openmpi5-ucx", "openmpi5-ucx+front"),
    ("openmpi5-ob1", "openmpi5-ob1+front"),
    ("intel", "intel+front"),
    ("mpich4", "mpich4+front"),
    ("openmpi4", "openmpi4+front"),
];

/// One MPI, and the figures that it is the source of.
struct Source {
    names: &'static [&'static str],
    install: fn(&Shell) -> Result<Vec<Library>, Stop>,
}

const SOURCES: [Source; 5] = [
    Source { names: &["mpich5"], install: mpich },
    Source { names: &["openmpi5-ucx", "openmpi5-ob1"], install: open_mpi },
    Source { names: &["intel"], install: intel },
    Source { names: &["mpich4"], install: debian_mpich },
    Source { names: &["openmpi4"], install: debian_open_mpi },
];

/// Returns the names of all peers.
pub(super) fn names() -> Vec<&'static str> {
    SOURCES.iter().flat_map(|source| source.names).copied().collect()
}

/// Returns all names that figures can have.
pub(super) fn known() -> Vec<&'static str> {
    let fronted = FRONTED.iter().map(|(_, name)| *name);
    names().into_iter().chain(fronted).chain([STRAIT]).collect()
}

/// Returns the name of a peer with the front before it.
pub(super) fn fronted(peer: &str) -> Option<&'static str> {
    FRONTED.iter().find(|(name, _)| *name == peer).map(|(_, fronted)| *fronted)
}

/// Returns each peer, followed by the same one with the front of `strait` before it.
pub(super) fn with_fronts(peers: Vec<Library>, strait: &Path) -> Vec<Library> {
    let pair = |peer: Library| {
        let fronted = fronted(peer.name).map(|name| peer.with_front(name, strait));
        [Some(peer), fronted].into_iter().flatten()
    };
    peers.into_iter().flat_map(pair).collect()
}

/// Returns the peers of these names, or all if there are none, and a line for each that cannot be
/// measured here.
pub(super) fn peers(shell: &Shell, only: &[String]) -> (Vec<Library>, Vec<String>) {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    let is_asked = |name: &str| only.is_empty() || only.iter().any(|asked| asked == name);
    for source in SOURCES.iter().filter(|source| source.names.iter().any(|name| is_asked(name))) {
        match (source.install)(shell) {
            Ok(made) => found.extend(made.into_iter().filter(|made| is_asked(made.name))),
            Err(stop) => absent.push(format!("{}: {}", source.names.join(", "), reason(stop))),
        }
    }
    (found, absent)
}

fn reason(stop: Stop) -> String {
    match stop {
        Stop::Failed(why) => why,
        Stop::NotRun(Absence { what, .. }) => what,
    }
}

/// Returns Strait, as it is installed in `prefix` or as this tree installs it.
pub(super) fn strait(shell: &Shell, prefix: Option<&Path>) -> Result<Library, Stop> {
    let folder = folder(shell)?;
    let prefix = match prefix {
        Some(prefix) => prefix.to_path_buf(),
        None => {
            let prefix = folder.join(STRAIT);
            install::run(shell, &prefix, false)?;
            prefix
        }
    };
    let (program, library) = (folder.join("patterns-strait"), prefix.join("lib"));
    let compile = compiler(shell, "cc")?.arg("-DSTRAIT").arg("-I").arg(prefix.join("include"));
    let compile = compile.arg("-L").arg(&library).arg("-lstrait");
    link(compile, &program, &library)?;
    Ok(Library {
        name: STRAIT,
        launcher: prefix.join("bin/strait"),
        options: "run",
        program,
        environment: Vec::new(),
        preload: None,
        front: None,
    })
}

/// Returns the folder of what this command builds.
fn folder(shell: &Shell) -> Result<PathBuf, Stop> {
    let folder = shell.target().join("peers");
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    Ok(folder)
}

/// Returns a compiler's command with the sources of the program.
fn compiler(shell: &Shell, compiler: impl AsRef<OsStr>) -> Result<Step<'_>, Stop> {
    let folder = shell.root().join(SOURCE);
    let entries = fs::read_dir(&folder).map_err(|error| Stop::io(&folder, &error))?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.retain(|path| !path.ends_with(NO_YIELD));
    sources.sort();
    // The headers of some MPIs make the compiler warn.
    let step = shell.step(compiler, "-std=gnu11 -O2 -w");
    Ok(sources.iter().fold(step, Step::arg))
}

/// Links `program` with the libraries in `library`, where it finds them again when it runs.
fn link(compile: Step<'_>, program: &Path, library: &Path) -> Result<(), Stop> {
    let runpath = format!("-Wl,--disable-new-dtags,-rpath,{0},-rpath-link,{0}", library.display());
    compile.arg(runpath).arg("-lm").arg("-o").arg(program).output().map(drop)
}

fn environment(all: &[&[(&'static str, &str)]]) -> Vec<(&'static str, OsString)> {
    all.concat().into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn mpich(shell: &Shell) -> Result<Vec<Library>, Stop> {
    let home = mpi::home(shell, "mpich", mpi::MPICH.packages)?;
    let program = home.join("patterns");
    link(compiler(shell, home.join("bin/mpicc"))?, &program, &home.join("lib"))?;
    let preload = home.join("no_yield.so");
    let source = shell.root().join(SOURCE).join(NO_YIELD);
    shell.step("cc", "-O2 -shared -fPIC").arg(source).arg("-o").arg(&preload).output()?;
    Ok(vec![Library {
        name: "mpich5",
        launcher: home.join("bin/mpiexec"),
        options: "",
        program,
        environment: Vec::new(),
        preload: Some(preload),
        front: None,
    }])
}

fn open_mpi(shell: &Shell) -> Result<Vec<Library>, Stop> {
    let home = mpi::home(shell, "openmpi", mpi::OPEN_MPI)?;
    let program = home.join("patterns");
    link(compiler(shell, home.join("bin/mpicc"))?, &program, &home.join("lib"))?;
    let library = |name, transport| Library {
        name,
        launcher: home.join("bin/mpiexec"),
        options: OPEN_MPI,
        program: program.clone(),
        environment: environment(&[&AS_ROOT, transport]),
        preload: None,
        front: None,
    };
    Ok(vec![library("openmpi5-ucx", &UCX), library("openmpi5-ob1", &OB1)])
}

fn intel(shell: &Shell) -> Result<Vec<Library>, Stop> {
    let home = mpi::home(shell, "intel-devel", &["impi-rt", "impi-devel"])?;
    let (program, library) = (home.join("patterns"), home.join("lib"));
    let compile = compiler(shell, "cc")?.arg("-I").arg(home.join("include"));
    link(compile.arg("-L").arg(&library).arg("-lmpi"), &program, &library)?;
    // It does not look for its own library. The ranks bind themselves.
    let mut environment = environment(&[&[("I_MPI_PIN", "0")]]);
    environment.push(("I_MPI_ROOT", home.clone().into()));
    environment.push(("LD_LIBRARY_PATH", library.into()));
    let launcher = home.join("bin/mpiexec");
    Ok(vec![Library {
        name: "intel",
        launcher,
        options: "",
        program,
        environment,
        preload: None,
        front: None,
    }])
}

fn debian_mpich(shell: &Shell) -> Result<Vec<Library>, Stop> {
    let files = debian::files(shell)?;
    let program = files.root.join("patterns-mpich");
    let compile = compiler(shell, "cc")?.arg("-I").arg(files.include("mpich"));
    let compile = compile.arg(files.library.join("libmpich.so.12"));
    link(compile, &program, &files.library)?;
    let environment = vec![("LD_LIBRARY_PATH", files.library.clone().into())];
    let launcher = files.root.join("usr/bin/mpiexec.hydra");
    Ok(vec![Library {
        name: "mpich4",
        launcher,
        options: "",
        program,
        environment,
        preload: None,
        front: None,
    }])
}

fn debian_open_mpi(shell: &Shell) -> Result<Vec<Library>, Stop> {
    let files = debian::files(shell)?;
    let program = files.root.join("patterns-openmpi");
    let compile = compiler(shell, "cc")?.arg("-I").arg(files.library.join("openmpi/include"));
    // Its components are loaded when it starts.
    let compile =
        compile.arg(files.library.join("libmpi.so.40")).arg("-Wl,--allow-shlib-undefined");
    link(compile, &program, &files.library)?;
    let prefix = files.root.join("usr");
    let mut environment = environment(&[&AS_ROOT, &OB1]);
    let folders = ["", "openmpi/lib", "pmix2/lib"].map(|name| files.library.join(name));
    let found = std::env::join_paths(folders).map_err(|error| Stop::Failed(error.to_string()))?;
    environment.extend([
        ("OPAL_PREFIX", prefix.clone().into()),
        ("OPAL_LIBDIR", files.library.clone().into()),
        ("OPAL_DATADIR", prefix.join("share").into()),
        ("OPAL_PKGLIBDIR", files.library.join("openmpi/lib/openmpi3").into()),
        ("PMIX_PREFIX", prefix.clone().into()),
        ("LD_LIBRARY_PATH", found),
    ]);
    let launcher = prefix.join("bin/orterun");
    Ok(vec![Library {
        name: "openmpi4",
        launcher,
        options: OPEN_MPI,
        program,
        environment,
        preload: None,
        front: None,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_a_name_with_the_front() {
        let named: Vec<_> = FRONTED.iter().map(|(peer, _)| *peer).collect();
        assert_eq!(named, names());
        assert!(FRONTED.iter().all(|(peer, fronted)| *fronted == format!("{peer}+front")));
    }
}
