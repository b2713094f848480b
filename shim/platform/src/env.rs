//! The environment variables that tell a process its rank in a job. Some are Strait's; others
//! belong to PMI-1, which other launchers use. The crate `strait` has the table of all variables.

use core::fmt;
use core::str::FromStr;
use std::ffi::{OsStr, OsString};

/// An environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// Its meaning, in one line.
    pub meaning: &'static str,
    /// The form of a valid value.
    pub expected: &'static str,
    /// The behaviour when it is not set.
    pub default: &'static str,
}

/// An environment variable has an invalid value.
#[derive(Clone, Debug)]
pub struct EnvError {
    /// The variable.
    pub variable: Variable,
    /// The value found.
    pub value: OsString,
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Variable { name, expected, .. } = self.variable;
        write!(f, "environment variable {name} is {:?}; expected {expected}", self.value)
    }
}

impl core::error::Error for EnvError {}

impl Variable {
    /// Returns the value in the environment, `None` when the variable is not set.
    ///
    /// # Errors
    ///
    /// [`EnvError`] when the value is not a `T` or `accept` refuses it.
    pub fn read<T: FromStr>(&self, accept: impl FnOnce(&T) -> bool) -> Result<Option<T>, EnvError> {
        std::env::var_os(self.name).map(|value| self.parse(&value, accept)).transpose()
    }

    /// Returns whether the variable is set, to whatever value.
    #[must_use]
    pub fn is_set(&self) -> bool {
        std::env::var_os(self.name).is_some()
    }

    fn parse<T: FromStr>(
        &self,
        value: &OsStr,
        accept: impl FnOnce(&T) -> bool,
    ) -> Result<T, EnvError> {
        let parsed = value.to_str().and_then(|text| text.parse().ok());
        parsed
            .filter(accept)
            .ok_or_else(|| EnvError { variable: *self, value: value.to_os_string() })
    }
}

/// The descriptor of the socket to the launcher.
pub const BOOT_FD: Variable = Variable {
    name: "STRAIT_BOOT_FD",
    meaning: "descriptor of the socket to the launcher",
    expected: "the number of an open descriptor, 3 or more",
    default: "set by `strait run`",
};

/// The rank of this process.
pub const RANK: Variable = Variable {
    name: "STRAIT_RANK",
    meaning: "rank of this process",
    expected: "a number from 0, less than STRAIT_SIZE",
    default: "set by `strait run`",
};

/// The number of ranks of the job.
pub const SIZE: Variable = Variable {
    name: "STRAIT_SIZE",
    meaning: "ranks in the job",
    expected: "a number of at least 1",
    default: "set by `strait run`",
};

/// The processors that the ranks of a node share.
pub const CPUS: Variable = Variable {
    name: "STRAIT_CPUS",
    meaning: "processors that the ranks of a node share: decides how long a waiting rank spins",
    expected: "a number of at least 1",
    default: "set by `strait run`; otherwise the number that this process may use, under \
              `strait mpi` that the ranks of the node may use together",
};

/// The descriptor of the socket to a launcher that speaks PMI-1.
pub const PMI_FD: Variable = Variable {
    name: "PMI_FD",
    meaning: "descriptor of the socket over which the launcher speaks PMI-1",
    expected: "the number of an open descriptor, 3 or more",
    default: "set by launchers",
};

/// The rank of this process, from a launcher that speaks PMI-1.
pub const PMI_RANK: Variable = Variable {
    name: "PMI_RANK",
    meaning: "rank of this process",
    expected: "a number from 0, less than PMI_SIZE",
    default: "set by launchers",
};

/// The number of ranks of the job, from a launcher that speaks PMI-1.
pub const PMI_SIZE: Variable = Variable {
    name: "PMI_SIZE",
    meaning: "ranks in the job",
    expected: "a number of at least 1",
    default: "set by launchers",
};

/// The name of the job, from a launcher that speaks PMIx.
pub const PMIX_NAMESPACE: Variable = Variable {
    name: "PMIX_NAMESPACE",
    meaning: "name of the job",
    expected: "any text",
    default: "set by launchers",
};

/// The name by which processes find each other without a launcher's help.
pub const UNIVERSE: Variable = Variable {
    name: "STRAIT_UNIVERSE",
    meaning: "name that processes under another MPI share in order to find each other",
    expected: "any text",
    default: "the job's, where its launcher names it by PMI or PMIx; otherwise one per user",
};

/// The number of virtual nodes into which the processes of another MPI's job divide.
pub const NODES: Variable = Variable {
    name: "STRAIT_NODES",
    meaning: "virtual nodes of another MPI's job on one host, for strait mpi or PMI-1",
    expected: "a number of at least 1",
    default: "1",
};

/// Whether the front for other MPIs explains what it carries, and what it leaves to the host.
pub const MPI_VERBOSE: Variable = Variable {
    name: "STRAIT_MPI_VERBOSE",
    meaning: "under strait mpi: say what carries the messages, and what the host keeps",
    expected: "any text",
    default: "not set: say nothing; set by strait mpi --explain",
};

/// Returns the number of processors that the ranks of a node share. A rank cannot count them
/// itself, because it may be bound to one processor.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is unusable.
pub fn cpus() -> Result<usize, EnvError> {
    Ok(cpus_asked()?.unwrap_or_else(crate::topology::allowed_cpu_count))
}

/// Returns the number of processors that `STRAIT_CPUS` gives the ranks of a node.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is unusable.
pub fn cpus_asked() -> Result<Option<usize>, EnvError> {
    CPUS.read(|&cpus: &usize| cpus > 0)
}

/// Returns the rank that a launcher has given this process, and the number of ranks, if it says
/// them: by PMI-1, or as Open MPI's launchers do.
pub(crate) fn place_by_launcher() -> Option<(u32, u32)> {
    let names = [(PMI_RANK.name, PMI_SIZE.name), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")];
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    names.into_iter().find_map(|(rank, size)| number(rank).zip(number(size)))
}

/// Returns the number of virtual nodes into which another MPI's job on one host divides.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is not a number, or is 0.
pub fn nodes() -> Result<Option<u32>, EnvError> {
    NODES.read(|nodes: &u32| *nodes > 0)
}

#[cfg(test)]
mod tests;
