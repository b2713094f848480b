//! Finding the MPI that a command uses.

use core::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::elf::{Elf, SONAME};

/// A binary interface, with the file of our library for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Interface {
    /// MPICH's, which Intel MPI shares.
    Mpich,
    /// That of MPI-5.0.
    Standard,
    OpenMpi,
}

impl Interface {
    /// Returns the interface of a library of this name.
    fn of(name: &str) -> Option<Self> {
        if name.starts_with("libmpi_abi.so") {
            Some(Self::Standard)
        } else if name.starts_with("libmpi.so.12") || name.starts_with("libmpich.so.12") {
            Some(Self::Mpich)
        } else if name.starts_with("libmpi.so.40") {
            Some(Self::OpenMpi)
        } else {
            None
        }
    }

    /// Returns the file name of our library.
    pub(super) const fn library(self) -> &'static str {
        match self {
            Self::Mpich => "libstrait_mpi_mpich.so",
            Self::Standard => "libstrait_mpi_standard.so",
            Self::OpenMpi => "libstrait_mpi_openmpi.so",
        }
    }
}

/// The MPI that a program uses.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) path: PathBuf,
    pub(super) soname: String,
    pub(super) interface: Interface,
}

impl Host {
    /// Describes the library in a file.
    pub(super) fn of_library(path: &Path) -> Result<Self, Box<dyn Error>> {
        let path = fs::canonicalize(path)
            .map_err(|error| format!("no MPI library in {}: {error}", path.display()))?;
        let soname = Elf::of_links(&path).and_then(|elf| elf.names(SONAME).pop());
        let soname = soname.ok_or_else(|| format!("{} is no library", path.display()))?;
        let interface = Interface::of(&soname).ok_or_else(|| {
            format!(
                "{} ({soname}) is an MPI that Strait does not know: it knows MPICH and Intel MPI \
                 (libmpi.so.12, libmpi_abi.so) and Open MPI (libmpi.so.40)",
                path.display()
            )
        })?;
        Ok(Self { path, soname, interface })
    }

    /// Finds the MPI of a command with the program at `program`. A program that loads MPI when
    /// it runs, such as Python, has the MPI of its launcher.
    pub(super) fn of_command(words: &[String], program: usize) -> Result<Self, Box<dyn Error>> {
        for word in &words[program..] {
            let Some(file) = find(word) else { continue };
            if let Some(library) = linked(&file)? {
                return Self::of_library(&library);
            }
        }
        let launcher = find(&words[0]).ok_or_else(|| format!("there is no {}", words[0]))?;
        beside(&launcher).ok_or_else(|| {
            format!(
                "no word of the command is a program that is linked with an MPI library, and none \
                 is near {}: name it with --library FILE",
                launcher.display()
            )
        })?
    }
}

/// Returns the file that a word of a command names, if it can be run.
pub(super) fn find(word: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;

    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(is_program);
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(word)).find(is_program)
}

/// Returns the MPI library that the dynamic linker finds for a program, if the program needs one.
fn linked(program: &Path) -> Result<Option<PathBuf>, Box<dyn Error>> {
    use std::os::unix::fs::PermissionsExt as _;

    let Some(elf) = Elf::of_links(program) else { return Ok(None) };
    if !elf.has_interpreter() {
        return Ok(None);
    }
    // The dynamic linker lists what it loads, and does not start the program.
    let listed = Command::new(program).env("LD_TRACE_LOADED_OBJECTS", "1").output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let library = listed.lines().find_map(|line| {
        let (name, place) = line.trim().split_once(" => ")?;
        Interface::of(name.rsplit('/').next()?)?;
        place.split(" (").next().filter(|path| path.starts_with('/')).map(PathBuf::from)
    });
    let is_privileged =
        fs::metadata(program).is_ok_and(|found| found.permissions().mode() & 0o6000 != 0);
    if library.is_some() && is_privileged {
        let text = "runs with the rights of another user or group, so the system loads no library \
                    before its own: run it without `strait mpi`";
        return Err(format!("{} {text}", program.display()).into());
    }
    Ok(library)
}

/// Returns the MPI that is installed with a launcher.
fn beside(launcher: &Path) -> Option<Result<Host, Box<dyn Error>>> {
    let launcher = fs::canonicalize(launcher).ok()?;
    let prefix = launcher.parent()?.parent()?;
    let name = launcher.file_name()?.to_string_lossy().into_owned();
    let is_open_mpi = ["orterun", "prterun", "mpirun.openmpi"].contains(&name.as_str());
    let files: &[&str] = if is_open_mpi {
        &["libmpi.so.40"]
    } else {
        &["libmpi.so.12", "libmpich.so.12", "libmpi.so.40"]
    };
    let folders =
        ["lib".to_owned(), "lib64".to_owned(), format!("lib/{}-linux-gnu", env::consts::ARCH)];
    let mut found = files.iter().flat_map(|file| folders.iter().map(move |folder| (folder, file)));
    found
        .find_map(|(folder, file)| {
            Some(prefix.join(folder).join(file)).filter(|path| path.exists())
        })
        .map(|path| Host::of_library(&path))
}
