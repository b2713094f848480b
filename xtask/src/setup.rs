//! Installs the tools that the rungs need and this machine lacks.
//!
//! If every tool is present, it prints nothing and does not use the network. A tool that cannot be
//! installed is remembered, so that each rung that needs it reports itself as not run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::shell::{Shell, Step};
use crate::stop::{self, Absence, Stop};

/// The target without an operating system for which the core is built.
pub(crate) const BARE_TARGET: &str = "x86_64-unknown-none";

/// A tool outside the repository that a rung needs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Tool {
    /// `cargo fmt`.
    Rustfmt,
    /// `cargo clippy`.
    Clippy,
    /// The compiled `core` for [`BARE_TARGET`].
    BareTarget,
    /// The nightly toolchain with the library sources, for the sanitizers.
    Nightly,
    /// Miri, of the nightly toolchain.
    Miri,
    /// A C++ compiler, for libFuzzer and programs in C++.
    Cpp,
    /// pkg-config, for programs in C.
    PkgConfig,
    /// Valgrind, for callgrind and memcheck.
    Valgrind,
    /// MPICH's launcher, `mpiexec.hydra`.
    Hydra,
    /// The headers and the library of libfabric.
    Libfabric,
    /// `fi_info` and `fi_pingpong`.
    FabricPrograms,
    /// NetPIPE over Debian's Open MPI.
    NetPipe,
    /// The compiler for programs in Fortran.
    Gfortran,
    /// Debian's MPICH with its Fortran interfaces.
    MpichFortran,
    /// Debian's Open MPI with its Fortran interfaces.
    OpenMpiFortran,
    /// QEMU, which `cargo xtask vm` and `cargo xtask bare` run.
    Qemu,
    /// Make, for the driver of soft iWARP.
    Make,
    /// CMake, for the bindings of libibverbs.
    Cmake,
    /// Clang's library, for the bindings of libibverbs.
    Libclang,
}

const TOOLS: [Tool; 19] = [
    Tool::Rustfmt,
    Tool::Clippy,
    Tool::BareTarget,
    Tool::Nightly,
    Tool::Miri,
    Tool::Cpp,
    Tool::PkgConfig,
    Tool::Valgrind,
    Tool::Hydra,
    Tool::Libfabric,
    Tool::FabricPrograms,
    Tool::NetPipe,
    Tool::Gfortran,
    Tool::MpichFortran,
    Tool::OpenMpiFortran,
    Tool::Qemu,
    Tool::Make,
    Tool::Cmake,
    Tool::Libclang,
];

/// Runs `cargo xtask setup`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    stop::all(TOOLS.map(|tool| (tool.name(), need(shell, tool))).into())
}

/// Makes sure that `tool` is present, and installs it if need be.
pub(crate) fn need(shell: &Shell, tool: Tool) -> Result<(), Stop> {
    if let Some(absence) = shell.absent().get(&tool) {
        return Err(Stop::NotRun(absence.clone()));
    }
    if tool.is_present(shell) {
        return Ok(());
    }
    eprintln!("setup: installing {}", tool.name());
    let problem = match tool.install(shell) {
        Ok(()) if tool.is_present(shell) => return Ok(()),
        Ok(()) => "it was installed and still does not work".to_owned(),
        Err(problem) => problem,
    };
    let absence = absence(tool, &problem);
    eprintln!("setup: {absence}");
    shell.absent().insert(tool, absence.clone());
    Err(Stop::NotRun(absence))
}

/// Makes sure that this toolchain is present, and installs it if need be.
pub(crate) fn toolchain(shell: &Shell, version: &str) -> Result<(), Stop> {
    if shell.answers("rustup", &format!("run {version} rustc --version")) {
        return Ok(());
    }
    eprintln!("setup: installing Rust {version}");
    let arguments = format!("toolchain install {version} --profile minimal --no-self-update");
    attempt(shell.step("rustup", &arguments)).map_err(|problem| {
        let remedy = (!is_offline(&problem)).then(|| format!("run `rustup {arguments}`"));
        Stop::NotRun(Absence { what: format!("Rust {version} is missing: {problem}"), remedy })
    })
}

/// Returns cargo's arguments for features. With `verbs` the build reaches RDMA devices, and its
/// bindings need tools of their own.
pub(crate) fn features(shell: &Shell, verbs: bool) -> Result<&'static str, Stop> {
    if !verbs {
        return Ok("");
    }
    for tool in [Tool::Cmake, Tool::Libclang] {
        need(shell, tool)?;
    }
    Ok("--features verbs")
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Rustfmt => "rustfmt",
            Self::Clippy => "clippy",
            Self::BareTarget => "the x86_64-unknown-none target",
            Self::Nightly => "the nightly toolchain with rust-src",
            Self::Miri => "miri",
            Self::Cpp => "a C++ compiler",
            Self::PkgConfig => "pkg-config",
            Self::Valgrind => "valgrind",
            Self::Hydra => "mpiexec.hydra",
            Self::Libfabric => "libfabric-dev",
            Self::FabricPrograms => "libfabric-bin",
            Self::NetPipe => "netpipe-openmpi",
            Self::Gfortran => "gfortran",
            Self::MpichFortran => "libmpich-dev",
            Self::OpenMpiFortran => "libopenmpi-dev",
            Self::Qemu => "qemu",
            Self::Make => "make",
            Self::Cmake => "cmake",
            Self::Libclang => "libclang",
        }
    }

    fn is_present(self, shell: &Shell) -> bool {
        match self {
            Self::Rustfmt => shell.answers("cargo", "fmt --version"),
            Self::Clippy => shell.answers("cargo", "clippy --version"),
            Self::BareTarget => {
                sysroot(shell.step("rustc", "--print sysroot")).is_some_and(|root| {
                    root.join("lib/rustlib").join(BARE_TARGET).join("lib").is_dir()
                })
            }
            Self::Nightly => sysroot(shell.step("rustup", "run nightly rustc --print sysroot"))
                .is_some_and(|root| root.join("lib/rustlib/src/rust/library").is_dir()),
            Self::Miri => {
                Self::Nightly.is_present(shell)
                    && shell.answers("rustup", "run nightly cargo miri --version")
            }
            Self::Cpp => shell.answers("c++", "--version"),
            Self::PkgConfig => shell.answers("pkg-config", "--version"),
            Self::Valgrind => shell.answers("valgrind", "--version"),
            Self::Hydra => shell.answers("mpiexec.hydra", "--version"),
            Self::Libfabric => shell.answers("cc", "-E -include rdma/fabric.h -x c /dev/null"),
            Self::FabricPrograms => shell.answers("fi_info", "--version"),
            // Without its launcher NetPIPE does not answer.
            Self::NetPipe => shell.answers("which", "NPopenmpi mpirun.openmpi"),
            Self::Gfortran => shell.answers("gfortran", "--version"),
            Self::MpichFortran => compiles_mpi(shell, "mpich", "mpiexec.mpich"),
            Self::OpenMpiFortran => compiles_mpi(shell, "openmpi", "mpirun.openmpi"),
            Self::Qemu => shell.answers("qemu-system-x86_64", "--version"),
            Self::Make => shell.answers("make", "--version"),
            Self::Cmake => shell.answers("cmake", "--version"),
            Self::Libclang => {
                // `ls` fails also when only some of the paths exist, so each path is checked on its
                // own.
                let places = ["/usr/lib/llvm-*/lib/libclang.so*", "/usr/lib64/libclang.so*"];
                let is_there =
                    |place| shell.step("sh", "-c").arg(format!("ls {place}")).output().is_ok();
                std::env::var_os("LIBCLANG_PATH").is_some() || places.into_iter().any(is_there)
            }
        }
    }

    fn install(self, shell: &Shell) -> Result<(), String> {
        let rustup = |arguments: &str| attempt(shell.step("rustup", arguments));
        match self {
            Self::Rustfmt => rustup("component add rustfmt"),
            Self::Clippy => rustup("component add clippy"),
            Self::BareTarget => rustup(&format!("target add {BARE_TARGET}")),
            // One toolchain serves both, so the newest toolchain that has all components is chosen.
            Self::Nightly | Self::Miri => rustup("component add --toolchain nightly miri rust-src")
                .or_else(|_| {
                    let parts = "--component miri --component rust-src";
                    rustup(&format!("toolchain install nightly --profile minimal {parts}"))
                }),
            Self::Cpp => install_package(shell, "g++"),
            Self::PkgConfig => install_package(shell, "pkg-config"),
            Self::Valgrind => install_package(shell, "valgrind"),
            Self::Hydra => install_package(shell, "mpich"),
            Self::Libfabric => install_package(shell, "libfabric-dev"),
            Self::FabricPrograms => install_package(shell, "libfabric-bin"),
            Self::NetPipe => install_package(shell, "netpipe-openmpi"),
            Self::Gfortran => install_package(shell, "gfortran"),
            Self::MpichFortran => install_package(shell, "libmpich-dev mpich"),
            Self::OpenMpiFortran => install_package(shell, "libopenmpi-dev openmpi-bin"),
            Self::Qemu => install_package(shell, "qemu-system-x86"),
            Self::Make => install_package(shell, "make"),
            Self::Cmake => install_package(shell, "cmake"),
            Self::Libclang => install_package(shell, "libclang-dev"),
        }
    }

    /// Returns a command that the user can type where this program may not install.
    fn remedy(self) -> String {
        match self {
            Self::Rustfmt => "run `rustup component add rustfmt`".into(),
            Self::Clippy => "run `rustup component add clippy`".into(),
            Self::BareTarget => format!("run `rustup target add {BARE_TARGET}`"),
            Self::Nightly | Self::Miri => {
                "run `rustup toolchain install nightly --component miri rust-src`".into()
            }
            Self::Cpp => "install the package g++ as root".into(),
            Self::PkgConfig => "install the package pkg-config as root".into(),
            Self::Valgrind => "install the package valgrind as root".into(),
            Self::Hydra => "install the package mpich as root".into(),
            Self::Libfabric => "install the package libfabric-dev as root".into(),
            Self::FabricPrograms => "install the package libfabric-bin as root".into(),
            Self::NetPipe => "install the package netpipe-openmpi as root".into(),
            Self::Gfortran => "install the package gfortran as root".into(),
            Self::MpichFortran => "install the packages libmpich-dev and mpich as root".into(),
            Self::OpenMpiFortran => {
                "install the packages libopenmpi-dev and openmpi-bin as root".into()
            }
            Self::Qemu => "install the package qemu-system-x86 as root".into(),
            Self::Make => "install the package make as root".into(),
            Self::Cmake => "install the package cmake as root".into(),
            Self::Libclang => "install the package libclang-dev as root".into(),
        }
    }
}

/// Returns whether this MPI of Debian is here with its headers. Its launcher comes without them as
/// a dependency of other tools, and so do its compilers' names.
fn compiles_mpi(shell: &Shell, name: &str, launcher: &str) -> bool {
    shell.answers("which", &format!("mpif90.{name} {launcher}"))
        && shell.answers(&format!("mpicc.{name}"), "-E -include mpi.h -x c /dev/null")
}

fn install_package(shell: &Shell, package: &str) -> Result<(), String> {
    if !shell.answers("apt-get", "--version") {
        return Err("this is no Debian system".into());
    }
    if shell.step("id", "-u").output().is_ok_and(|id| id.stdout.trim_ascii() != b"0") {
        return Err("only root may install packages".into());
    }
    let install = || {
        // Another rung may be installing something at the same time.
        let wait = "-o DPkg::Lock::Timeout=600";
        let arguments = format!("install {wait} --yes --quiet --no-install-recommends {package}");
        attempt(shell.step("apt-get", &arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    // Fetches the package lists only if the present lists do not lead to the package.
    install().or_else(|_| {
        attempt(shell.step("apt-get", "update --quiet -o DPkg::Lock::Timeout=600"))?;
        install()
    })
}

fn attempt(step: Step<'_>) -> Result<(), String> {
    match step.output() {
        Ok(_) => Ok(()),
        Err(Stop::Failed(why)) => Err(why),
        Err(Stop::NotRun(absence)) => Err(absence.what),
    }
}

fn sysroot(step: Step<'_>) -> Option<PathBuf> {
    let output = step.output().ok()?;
    let root = str::from_utf8(&output.stdout).ok()?;
    Some(Path::new(root.trim_end()).to_path_buf())
}

fn absence(tool: Tool, problem: &str) -> Absence {
    let remedy = (!is_offline(problem)).then(|| tool.remedy());
    // Joins the lines, for the closing table.
    let problem = problem.lines().collect::<Vec<_>>().join(": ");
    Absence { what: format!("{} is missing: {problem}", tool.name()), remedy }
}

/// Returns whether an installer's error message means that the network cannot be reached.
pub(crate) fn is_offline(complaint: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "could not download",
        "error sending request",
        "dns error",
        "Temporary failure resolving",
        "Could not resolve",
        "Could not connect",
        "Connection timed out",
        "Network is unreachable",
        "Failed to fetch",
    ];
    SIGNS.iter().any(|sign| complaint.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_network_leaves_nothing_to_do() {
        let offline = "error: could not download file from 'https://…'";
        assert_eq!(absence(Tool::Miri, offline).remedy, None);
        let refused = absence(Tool::Valgrind, "only root may install packages");
        assert_eq!(refused.remedy.as_deref(), Some("install the package valgrind as root"));
        assert!(refused.what.contains("only root"), "{refused}");
    }

    #[test]
    fn an_absent_tool_is_not_tried_twice() {
        let shell = Shell::new(false);
        let known = absence(Tool::Miri, "known");
        shell.absent().insert(Tool::Miri, known.clone());
        assert_eq!(need(&shell, Tool::Miri), Err(Stop::NotRun(known)));
    }
}
