//! `strait mpi-env`: the environment in which another MPI sends its messages through Strait.

use core::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::{Args, ValueEnum};

use crate::output::say;

/// The file name of the provider, by which libfabric recognises it.
const PROVIDER: &str = "libstrait-fi.so";

/// Print the environment that makes another MPI use Strait, as shell commands: eval "$(strait
/// mpi-env mpich)"
#[derive(Debug, Args)]
pub(crate) struct MpiEnv {
    /// The MPI library.
    #[arg(required_unless_present = "front")]
    mpi: Option<MpiName>,
    /// Print what puts the front before this program, or MPI library, instead.
    #[arg(long, value_name = "FILE", conflicts_with = "mpi")]
    front: Option<String>,
    /// The directory of libstrait-fi.so; by default that of this program, or lib beside it.
    #[arg(long)]
    provider: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MpiName {
    /// MPICH 4.1 or newer, built with libfabric.
    Mpich,
    /// Open MPI 4 or newer.
    Openmpi,
    /// Intel MPI.
    Intel,
}

impl MpiName {
    /// Returns the variables that direct its messages to libfabric.
    const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Otherwise ranks of one node use MPICH's own shared memory.
            Self::Mpich => &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")],
            Self::Openmpi => &[("OMPI_MCA_pml", "cm"), ("OMPI_MCA_mtl", "ofi")],
            Self::Intel => &[("I_MPI_FABRICS", "ofi")],
        }
    }
}

impl MpiEnv {
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        if let Some(file) = &self.front {
            let front = crate::mpi::front_of(file)?.display().to_string();
            say(&format!("export LD_PRELOAD={}", quoted(&front)))?;
            return Ok(ExitCode::SUCCESS);
        }
        let directory = match &self.provider {
            Some(directory) => checked(directory)?,
            None => beside(&env::current_exe()?)?,
        };
        let path = directory.display().to_string();
        let common = [("FI_PROVIDER", "strait"), ("FI_PROVIDER_PATH", path.as_str())];
        for (name, value) in self.mpi.map_or(&[][..], MpiName::variables).iter().chain(&common) {
            say(&format!("export {name}={}", quoted(value)))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the directory as an absolute path, if the provider is in it.
fn checked(directory: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let found = directory.join(PROVIDER).is_file();
    let missing = || format!("there is no {PROVIDER} in {}", directory.display());
    if found { Ok(fs::canonicalize(directory)?) } else { Err(missing().into()) }
}

/// Returns the directory of the provider beside the program.
fn beside(program: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let here = program.parent().unwrap_or(program);
    let places = [here.to_path_buf(), here.join("../lib")];
    places.iter().find_map(|place| checked(place).ok()).ok_or_else(|| {
        format!(
            "{PROVIDER} is neither in {0} nor in {0}/../lib: build it with `cargo xtask provider`, \
             or give its directory with --provider",
            here.display()
        )
        .into()
    })
}

/// Quotes a word for the shell, whatever it contains.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:".contains(&byte);
    if word.bytes().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_directories_are_quoted() {
        assert_eq!(quoted("/opt/strait-1.0/lib"), "/opt/strait-1.0/lib");
        assert_eq!(quoted("/my home/it's"), r"'/my home/it'\''s'");
    }

    #[test]
    fn the_provider_is_found_beside_the_program_or_missed_by_name() {
        let prefix = tempfile::tempdir().unwrap();
        let (bin, lib) = (prefix.path().join("bin"), prefix.path().join("lib"));
        [&bin, &lib].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let missing = beside(&bin.join("strait")).unwrap_err().to_string();
        assert!(missing.contains(PROVIDER) && missing.contains("--provider"), "{missing}");
        fs::write(lib.join(PROVIDER), "").unwrap();
        assert_eq!(beside(&bin.join("strait")).unwrap(), fs::canonicalize(&lib).unwrap());
        assert!(checked(&bin).is_err());
    }
}
