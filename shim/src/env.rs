//! Every environment variable of Strait, in one table; and those of PMI-1, which is how other launchers speak to us.
//!
//! Absent on purpose: reading the environment anywhere else, and variables that change what a message means.

mod unknown;

pub(crate) use unknown::warn_as;
pub use unknown::{Unknown, unknown};

use core::fmt;
use core::str::FromStr;
use std::ffi::{OsStr, OsString};

use strait_core::lmt::Transfer;
use strait_core::progress::Tuning;
use strait_core::ring::Design;
use strait_core::rndv::Rendezvous;
use strait_core::wire::FASTBOX_LENGTH_MAX;

use crate::hca::Choice;
use crate::hca::soft::{Mode, TimeModel};
use crate::{LockDesign, WindowDesign};

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// What it says, in one line.
    pub meaning: &'static str,
    /// What its value has to look like.
    pub expected: &'static str,
    /// What holds when it is not set, in words.
    pub default: &'static str,
}

/// The descriptor of the socket to the launcher.
pub(crate) const BOOT_FD: Variable = Variable {
    name: "STRAIT_BOOT_FD",
    meaning: "descriptor of the socket to the launcher",
    expected: "the number of an open descriptor, 3 or more",
    default: "set by `strait run`",
};

/// The rank of this process.
pub(crate) const RANK: Variable = Variable {
    name: "STRAIT_RANK",
    meaning: "rank of this process",
    expected: "a number from 0, less than STRAIT_SIZE",
    default: "set by `strait run`",
};

/// The number of ranks of the job.
pub(crate) const SIZE: Variable = Variable {
    name: "STRAIT_SIZE",
    meaning: "ranks in the job",
    expected: "a number of at least 1",
    default: "set by `strait run`",
};

/// The processors that the ranks of a node share.
pub(crate) const CPUS: Variable = Variable {
    name: "STRAIT_CPUS",
    meaning: "processors that the ranks of a node share: decides how long a waiting rank spins",
    expected: "a number of at least 1",
    default: "set by `strait run`; otherwise what this process may use",
};

/// The longest message that goes through a fastbox.
pub(crate) const FASTBOX_MAX: Variable = Variable {
    name: "STRAIT_FASTBOX_MAX",
    meaning: "longest message that goes through a fastbox, bytes; 0 shuts the fastboxes",
    expected: "a number of at most 4095",
    default: "2048",
};

/// The longest message that is copied through shared memory.
pub(crate) const EAGER_MAX: Variable = Variable {
    name: "STRAIT_EAGER_MAX",
    meaning: "longest message that is copied through cells on a node, bytes; longer ones are announced",
    expected: "a number of bytes",
    default: "12288",
};

/// The longest message that goes through the stream to another node.
pub(crate) const STREAM_MAX: Variable = Variable {
    name: "STRAIT_STREAM_MAX",
    meaning: "longest message that goes through the stream between nodes, bytes; longer ones are announced",
    expected: "a number of bytes",
    default: "16384",
};

/// The longest message that goes in parcels.
pub(crate) const PARCEL_MAX: Variable = Variable {
    name: "STRAIT_PARCEL_MAX",
    meaning: "longest message that goes in parcels while they are here, bytes; 0 goes without",
    expected: "a number of bytes",
    default: "65536",
};

/// What the unexpected messages of one peer may take.
pub(crate) const UNEXPECTED_MAX: Variable = Variable {
    name: "STRAIT_UNEXPECTED_MAX",
    meaning: "memory for messages of one peer that nobody waits for, bytes; beyond it the peer keeps them",
    expected: "a number of bytes",
    default: "4194304",
};

/// How longer messages travel.
pub(crate) const LMT: Variable = Variable {
    name: "STRAIT_LMT",
    meaning: "how messages above STRAIT_EAGER_MAX travel on a node",
    expected: "auto, cma_shared, cma, copy_ring or copy_ring_nt",
    default: "auto",
};

/// How they are negotiated.
pub(crate) const RENDEZVOUS: Variable = Variable {
    name: "STRAIT_RENDEZVOUS",
    meaning: "who begins with messages that are announced: the sender, or also a receiver that comes first",
    expected: "plain, speculative or adaptive",
    default: "adaptive",
};

/// The descriptor of the socket to a launcher that speaks PMI-1.
pub(crate) const PMI_FD: Variable = Variable {
    name: "PMI_FD",
    meaning: "descriptor of the socket over which the launcher speaks PMI-1",
    expected: "the number of an open descriptor, 3 or more",
    default: "set by launchers",
};

/// The rank of this process, as such a launcher says it.
pub(crate) const PMI_RANK: Variable = Variable {
    name: "PMI_RANK",
    meaning: "rank of this process",
    expected: "a number from 0, less than PMI_SIZE",
    default: "set by launchers",
};

/// The number of ranks of the job, as such a launcher says it.
pub(crate) const PMI_SIZE: Variable = Variable {
    name: "PMI_SIZE",
    meaning: "ranks in the job",
    expected: "a number of at least 1",
    default: "set by launchers",
};

/// The name of the job, as a launcher that speaks PMIx says it.
pub(crate) const PMIX_NAMESPACE: Variable = Variable {
    name: "PMIX_NAMESPACE",
    meaning: "name of the job",
    expected: "any text",
    default: "set by launchers",
};

/// Which processes find each other without a launcher's help.
pub(crate) const UNIVERSE: Variable = Variable {
    name: "STRAIT_UNIVERSE",
    meaning: "name that processes under another MPI share in order to find each other",
    expected: "any text",
    default: "the job's, where its launcher says it by PMI or PMIx; otherwise one of the user's",
};

/// As how many nodes the processes of a job act that is another MPI's.
pub(crate) const NODES: Variable = Variable {
    name: "STRAIT_NODES",
    meaning: "nodes as which the processes of another MPI's job on one host act, where PMI-1 says their ranks",
    expected: "a number of at least 1",
    default: "1",
};

/// The RDMA device between nodes.
pub(crate) const HCA: Variable = Variable {
    name: "STRAIT_HCA",
    meaning: "device between nodes: in software, whose data the poster moves or a thread; RDMA devices, which ranks take in turn",
    expected: "soft-inline, soft-engine, soft-iwarp, verbs, verbs:DEVICE[:PORT][,DEVICE[:PORT]…] or none",
    default: "soft-inline on one host, verbs on several; strait bench hca and ring measure the first two",
};

/// The global identifier of an RDMA device's port.
pub(crate) const HCA_GID: Variable = Variable {
    name: "STRAIT_HCA_GID",
    meaning: "entry of the port's table of global identifiers that an RDMA device uses",
    expected: "a number of at most 255",
    default: "the one that leads farthest",
};

/// The times of a software device with a thread.
pub(crate) const HCA_MODEL: Variable = Variable {
    name: "STRAIT_HCA_MODEL",
    meaning: "times of soft-engine: nanoseconds of a write and of a read without their bytes, bytes a second",
    expected: "three numbers with commas between, such as 5900,12400,870000000",
    default: "5900,12400,870000000, cards of 2004",
};

/// The design of the RDMA channel between nodes.
pub(crate) const RING: Variable = Variable {
    name: "STRAIT_RING",
    meaning: "design of the RDMA channel between nodes",
    expected: "basic, piggyback, pipeline, zero_copy or rendezvous_write",
    default: "zero_copy",
};

/// Who makes progress.
pub(crate) const PROGRESS: Variable = Variable {
    name: "STRAIT_PROGRESS",
    meaning: "who moves messages: the program's calls alone, or a thread as well, while the program computes",
    expected: "calls or thread",
    default: "calls",
};

/// Which accumulates between nodes the target's handler carries out.
pub(crate) const ACCUMULATE_MAX: Variable = Variable {
    name: "STRAIT_ACCUMULATE_MAX",
    meaning: "longest accumulate between nodes that its origin carries out under a lock, bytes; longer ones are the target's",
    expected: "a number",
    default: "8192",
};

/// Which blocks between nodes are packed.
pub(crate) const PACK_MAX: Variable = Variable {
    name: "STRAIT_PACK_MAX",
    meaning: "longest blocks of a put or get between nodes, of 8 blocks or more, that are packed for the target, bytes; 0 packs none",
    expected: "a number",
    default: "512",
};

/// The design of windows.
pub(crate) const WINDOW: Variable = Variable {
    name: "STRAIT_WINDOW",
    meaning: "how operations go on windows whose program does not choose: at once, or by messages when ranks synchronise",
    expected: "rdma or send_recv",
    default: "rdma",
};

/// The design of windows' locks.
pub(crate) const WINDOW_LOCK: Variable = Variable {
    name: "STRAIT_WINDOW_LOCK",
    meaning: "design of the locks of windows whose program chooses none",
    expected: "two_sided, thread, event, test_and_set, mcs or hybrid",
    default: "hybrid",
};

/// The table of all variables, as `strait info` prints it.
pub const VARIABLES: &[Variable] = &[
    BOOT_FD,
    RANK,
    SIZE,
    CPUS,
    FASTBOX_MAX,
    EAGER_MAX,
    STREAM_MAX,
    PARCEL_MAX,
    UNEXPECTED_MAX,
    LMT,
    RENDEZVOUS,
    HCA,
    HCA_GID,
    HCA_MODEL,
    RING,
    ACCUMULATE_MAX,
    PACK_MAX,
    PROGRESS,
    WINDOW,
    WINDOW_LOCK,
    UNIVERSE,
    NODES,
    PMI_FD,
    PMI_RANK,
    PMI_SIZE,
    PMIX_NAMESPACE,
];

/// The processors that the ranks of a node share. A rank cannot count them itself: it may be bound to one.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is unusable.
pub(crate) fn cpus() -> Result<usize, EnvError> {
    Ok(CPUS.read(|&cpus: &usize| cpus > 0)?.unwrap_or_else(crate::topology::allowed_cpu_count))
}

/// The numbers in force: the defaults, as far as the environment does not say otherwise.
///
/// # Errors
///
/// [`EnvError`] for the first variable whose value is unusable.
pub fn tuning() -> Result<Tuning, EnvError> {
    let default = Tuning::default();
    let fastbox_max = FASTBOX_MAX.read(|&bytes: &usize| bytes <= FASTBOX_LENGTH_MAX)?;
    let bytes = |variable: &Variable| variable.read(|_: &usize| true);
    let rendezvous = RENDEZVOUS.read(|name: &String| rendezvous(name).is_some())?;
    let transfer = LMT.read(|name: &String| transfer(name).is_some())?;
    Ok(Tuning {
        fastbox_max: fastbox_max.unwrap_or(default.fastbox_max),
        eager_max: bytes(&EAGER_MAX)?.unwrap_or(default.eager_max),
        stream_max: bytes(&STREAM_MAX)?.unwrap_or(default.stream_max),
        parcel_max: bytes(&PARCEL_MAX)?.unwrap_or(default.parcel_max),
        unexpected_max: bytes(&UNEXPECTED_MAX)?.unwrap_or(default.unexpected_max),
        transfer: transfer.and_then(|name| self::transfer(&name)).unwrap_or(default.transfer),
        rendezvous: rendezvous
            .and_then(|name| self::rendezvous(&name))
            .unwrap_or(default.rendezvous),
    })
}

/// The device between nodes that was asked for.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no device, or there are times that are none.
pub fn hca() -> Result<Option<Choice>, EnvError> {
    let model = HCA_MODEL.read(|_: &TimeModel| true)?.unwrap_or(TimeModel::INFINIBAND_2004);
    let choice = HCA.read(|_: &Choice| true)?;
    Ok(choice.map(|choice| match choice {
        Choice::Soft(Mode::Engine(_)) => Choice::Soft(Mode::Engine(model)),
        other => other,
    }))
}

/// The entry that was asked for of an RDMA device's table of global identifiers.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no index.
pub fn hca_gid() -> Result<Option<u8>, EnvError> {
    HCA_GID.read(|_: &u8| true)
}

/// The design of the RDMA channel between nodes.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no design.
pub fn ring() -> Result<Design, EnvError> {
    let design = |name: &str| Design::ALL.into_iter().find(|design| design.name() == name);
    let name = RING.read(|name: &String| design(name).is_some())?;
    Ok(name.and_then(|name| design(&name)).unwrap_or(Design::ZeroCopy))
}

/// The longest accumulate between nodes that its origin carries out by itself, bytes.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no number.
pub fn accumulate_max() -> Result<usize, EnvError> {
    Ok(ACCUMULATE_MAX.read(|_: &usize| true)?.unwrap_or(8192))
}

/// The longest blocks between nodes that are packed, bytes.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no number.
pub fn pack_max() -> Result<usize, EnvError> {
    Ok(PACK_MAX.read(|_: &usize| true)?.unwrap_or(512))
}

/// Whether a thread is to make progress.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is neither of the two.
pub fn progress_thread() -> Result<bool, EnvError> {
    let name = PROGRESS.read(|name: &String| ["calls", "thread"].contains(&name.as_str()))?;
    Ok(name.is_some_and(|name| name == "thread"))
}

/// The design of windows.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no design.
pub fn window() -> Result<WindowDesign, EnvError> {
    Ok(WINDOW.read(|_: &WindowDesign| true)?.unwrap_or_default())
}

/// The design of windows' locks.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no design.
pub fn window_lock() -> Result<LockDesign, EnvError> {
    Ok(WINDOW_LOCK.read(|_: &LockDesign| true)?.unwrap_or_default())
}

/// Reads every variable that has a limited set of values, so that a bad one is an error before anything is begun.
///
/// # Errors
///
/// [`EnvError`] for the first variable whose value is unusable.
pub fn check() -> Result<(), EnvError> {
    tuning()?;
    cpus()?;
    hca()?;
    hca_gid()?;
    ring()?;
    accumulate_max()?;
    pack_max()?;
    progress_thread()?;
    window()?;
    window_lock()?;
    nodes().map(drop)
}

/// The number of nodes as which the processes of another MPI's job on one host act.
///
/// # Errors
///
/// [`EnvError`] when the variable's value is no number, or 0.
pub(crate) fn nodes() -> Result<Option<u32>, EnvError> {
    NODES.read(|nodes: &u32| *nodes > 0)
}

fn rendezvous(name: &str) -> Option<Rendezvous> {
    Rendezvous::ALL.into_iter().find(|rendezvous| rendezvous.name() == name)
}

fn transfer(name: &str) -> Option<Transfer> {
    Transfer::ALL.into_iter().find(|transfer| transfer.name() == name)
}

impl Variable {
    /// The value in the environment, `None` when the variable is not set.
    ///
    /// # Errors
    ///
    /// [`EnvError`] when the value is not a `T` or `accept` refuses it.
    pub(crate) fn read<T: FromStr>(
        &self,
        accept: impl FnOnce(&T) -> bool,
    ) -> Result<Option<T>, EnvError> {
        std::env::var_os(self.name).map(|value| self.parse(&value, accept)).transpose()
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

/// An environment variable has a value that it cannot have.
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

#[cfg(test)]
mod tests;
