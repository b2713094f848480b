//! The table of all environment variables of Strait and of PMI-1, through which other launchers
//! speak to a process. `strait_platform::env` reads and describes the variables that place a
//! process in its job.
//!
//! Absent on purpose: reads of the environment anywhere else, and variables that change the meaning
//! of a message.

mod unknown;

pub use unknown::{Unknown, unknown};

use std::path::PathBuf;

use strait_core::engine::Tuning;
use strait_core::lmt::{RemoteTransfer, Transfer};
use strait_core::ring::Design;
use strait_core::rndv::Rendezvous;
use strait_core::wire::{FASTBOX_LENGTH_MAX, StreamHead};
use strait_hca::DeviceChoice;
use strait_hca::soft::{SoftMode, TimeModel};
use strait_platform::env::{
    BOOT_FD, CPUS, NODES, PMI_FD, PMI_RANK, PMI_SIZE, PMIX_NAMESPACE, RANK, SIZE, UNIVERSE,
};
pub use strait_platform::env::{EnvError, MPI_VERBOSE, Variable, nodes};
pub(crate) use strait_platform::env::{cpus, cpus_asked};
use strait_platform::record::RecordMode;

use crate::WindowDesign;
use crate::lock_policy::LockSetting;

/// Parts of more bytes move directly between user buffers, where the design can do so, unless
/// `STRAIT_RING_COPY_MAX` says otherwise.
pub(crate) const RING_COPY_DEFAULT: u32 = 32 * 1024 - 1;

/// The least value of `STRAIT_RING_COPY_MAX`. The last head in a stream must not wait for a reader
/// that closes, so heads are always copied.
const RING_COPY_LEAST: u32 = StreamHead::LENGTH as u32;

/// The longest message that goes through a fastbox, in bytes.
pub(crate) const FASTBOX_MAX: Variable = Variable {
    name: "STRAIT_FASTBOX_MAX",
    meaning: "longest message in a fastbox, bytes; 0 turns fastboxes off",
    expected: "a number of at most 4095",
    default: "2048",
};

/// The longest message that is copied through cells, in bytes.
pub(crate) const EAGER_MAX: Variable = Variable {
    name: "STRAIT_EAGER_MAX",
    meaning: "longest message that is copied through cells on a node, bytes; longer ones are \
              announced",
    expected: "a number of bytes",
    default: "12288",
};

/// The longest message that goes through the stream to another node, in bytes.
pub(crate) const STREAM_MAX: Variable = Variable {
    name: "STRAIT_STREAM_MAX",
    meaning: "longest message in the stream between nodes, bytes; longer ones are announced",
    expected: "a number of bytes",
    default: "16384",
};

/// The longest message that goes in parcels, in bytes.
pub(crate) const PARCEL_MAX: Variable = Variable {
    name: "STRAIT_PARCEL_MAX",
    meaning: "longest message in parcels, while the rank has enough, bytes; 0 turns parcels off",
    expected: "a number of bytes",
    default: "524288; 65536 where a node has more ranks than processors, and on Intel's \
              processors with fast short strings",
};

/// The memory for the unexpected messages of one peer, in bytes.
pub(crate) const UNEXPECTED_MAX: Variable = Variable {
    name: "STRAIT_UNEXPECTED_MAX",
    meaning: "memory for unexpected messages of one peer, bytes; beyond it the peer keeps them",
    expected: "a number of bytes",
    default: "4194304",
};

/// Whether receives may go round the queue of posted receives.
pub(crate) const BYPASS: Variable = Variable {
    name: "STRAIT_BYPASS",
    meaning: "receives that find their message go round the queue of posted receives",
    expected: "on or off",
    default: "on",
};

/// The transfer of large messages on a node.
pub(crate) const LMT: Variable = Variable {
    name: "STRAIT_LMT",
    meaning: "transfer of messages above STRAIT_EAGER_MAX on a node",
    expected: "auto, cma_shared, cma, copy_ring or copy_ring_nt",
    default: "auto",
};

/// The way of announced messages between nodes.
pub(crate) const NET_LMT: Variable = Variable {
    name: "STRAIT_NET_LMT",
    meaning: "way of announced messages between nodes: the receiver reads, the sender writes, or \
              the cheaper one lately",
    expected: "auto, read or write",
    default: "auto",
};

/// The side that begins a large message.
pub(crate) const RENDEZVOUS: Variable = Variable {
    name: "STRAIT_RENDEZVOUS",
    meaning: "side that begins a large message: the sender, or also a receiver that comes first",
    expected: "plain, speculative or adaptive",
    default: "adaptive",
};

/// The profile of an earlier run, by which large messages are negotiated.
pub(crate) const RENDEZVOUS_PROFILE: Variable = Variable {
    name: "STRAIT_RENDEZVOUS_PROFILE",
    meaning: "profile of an earlier run: its envelopes ask for large messages from the first one \
              on, or never",
    expected: "a directory",
    default: "no profile",
};

/// The profile that this run records.
pub(crate) const RENDEZVOUS_PROFILE_OUT: Variable = Variable {
    name: "STRAIT_RENDEZVOUS_PROFILE_OUT",
    meaning: "directory into which each rank writes the profile of this run when it leaves the job",
    expected: "a directory, which need not exist",
    default: "none is written",
};

/// The RDMA device between nodes.
pub(crate) const HCA: Variable = Variable {
    name: "STRAIT_HCA",
    meaning: "device between nodes. soft-inline: the posting thread copies; soft-engine: a device \
              thread copies; soft-iwarp: an iWARP device in software; verbs: RDMA devices, \
              assigned to ranks in turn; soft-inline+verbs: the first between nodes of a host, \
              the second between hosts",
    expected: "soft-inline, soft-engine, soft-iwarp, verbs, verbs:DEVICE[:PORT][,DEVICE[:PORT]…], \
               soft-inline+verbs or none",
    default: "soft-inline on one host, verbs on several; strait bench hca and ring measure the \
              first two",
};

/// The number of hosts that a job on one host acts as.
pub(crate) const HCA_HOSTS: Variable = Variable {
    name: "STRAIT_HCA_HOSTS",
    meaning: "number of hosts as which the nodes of one host act for soft-inline+verbs, in blocks \
              of nodes; rank 0 decides",
    expected: "a number from 1",
    default: "1",
};

/// The global identifier of an RDMA device's port.
pub(crate) const HCA_GID: Variable = Variable {
    name: "STRAIT_HCA_GID",
    meaning: "entry of the port's table of global identifiers that an RDMA device uses",
    expected: "a number of at most 255",
    default: "the entry with the widest scope",
};

/// The times of the software device with a thread (`soft-engine`).
pub(crate) const HCA_MODEL: Variable = Variable {
    name: "STRAIT_HCA_MODEL",
    meaning: "times of soft-engine: nanoseconds of a write and of a read without their bytes, \
              bytes per second",
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

/// The longest part that goes through the ring of the RDMA channel, in bytes.
pub(crate) const RING_COPY_MAX: Variable = Variable {
    name: "STRAIT_RING_COPY_MAX",
    meaning: "longest part of a buffer that is copied through the ring of the RDMA channel, bytes; \
              zero_copy and rendezvous_write move longer ones between the users' buffers",
    expected: "a number from 48 to 1073741824",
    default: "32767",
};

/// What makes progress: calls alone, or also a thread.
pub(crate) const PROGRESS: Variable = Variable {
    name: "STRAIT_PROGRESS",
    meaning: "what makes progress: calls alone, or also a thread while the program computes",
    expected: "calls or thread",
    default: "calls",
};

/// The longest accumulate between nodes that its origin carries out, in bytes.
pub(crate) const ACCUMULATE_MAX: Variable = Variable {
    name: "STRAIT_ACCUMULATE_MAX",
    meaning: "longest accumulate between nodes that its origin carries out under a lock, bytes; \
              longer ones go to the target's handler",
    expected: "a number",
    default: "8192",
};

/// The longest blocks between nodes that are packed, in bytes.
pub(crate) const PACK_MAX: Variable = Variable {
    name: "STRAIT_PACK_MAX",
    meaning: "longest blocks of a put or get between nodes, of 8 blocks or more, that are packed \
              for the target, bytes; 0 packs none",
    expected: "a number",
    default: "512",
};

/// The design of windows for which the program chooses none.
pub(crate) const WINDOW: Variable = Variable {
    name: "STRAIT_WINDOW",
    meaning: "design of windows for which the program chooses none: RDMA at once, or messages when \
              ranks synchronise",
    expected: "rdma or send_recv",
    default: "rdma",
};

/// The design of the locks of windows for which the program chooses none, and their policy.
pub(crate) const WINDOW_LOCK: Variable = Variable {
    name: "STRAIT_WINDOW_LOCK",
    meaning: "design of the locks of windows for which the program chooses none, and the policy by \
              which hybrid ones migrate",
    expected: "two_sided, thread, event, test_and_set, mcs, hybrid or thread_per_window, or hybrid \
               and a policy: hybrid:follow, hybrid:hysteresis:N, hybrid:history:N:M, \
               hybrid:cost:SUITING:OTHER:MIGRATION, hybrid:cpu, hybrid:network",
    default: "hybrid",
};

/// What a rank records for observers.
pub(crate) const RECORD: Variable = Variable {
    name: "STRAIT_RECORD",
    meaning: "what a rank leaves for strait why, top and trace: nothing, its long waits, or also \
              its last 256 events",
    expected: "off, waits or events",
    default: "waits",
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
    BYPASS,
    LMT,
    NET_LMT,
    RENDEZVOUS,
    RENDEZVOUS_PROFILE,
    RENDEZVOUS_PROFILE_OUT,
    HCA,
    HCA_HOSTS,
    HCA_GID,
    HCA_MODEL,
    RING,
    RING_COPY_MAX,
    ACCUMULATE_MAX,
    PACK_MAX,
    PROGRESS,
    WINDOW,
    WINDOW_LOCK,
    RECORD,
    UNIVERSE,
    NODES,
    MPI_VERBOSE,
    PMI_FD,
    PMI_RANK,
    PMI_SIZE,
    PMIX_NAMESPACE,
];

/// Returns whether `strait run` started this process.
pub(crate) fn has_own_launcher() -> bool {
    BOOT_FD.is_set()
}

/// Returns the tuning in force: the defaults, where the environment sets no other value.
///
/// # Errors
///
/// [`EnvError`] for the first variable with an unusable value.
pub fn tuning() -> Result<Tuning, EnvError> {
    tuning_over(Tuning::default())
}

/// Returns the tuning in force: `default`, where the environment sets no other value.
pub(crate) fn tuning_over(default: Tuning) -> Result<Tuning, EnvError> {
    let fastbox_max = FASTBOX_MAX.read(|&bytes: &usize| bytes <= FASTBOX_LENGTH_MAX)?;
    let bytes = |variable: &Variable| variable.read(|_: &usize| true);
    let bypass = BYPASS.read(|name: &String| ["on", "off"].contains(&name.as_str()))?;
    let transfer = one_of(&LMT, &Transfer::ALL, Transfer::name)?;
    let remote_transfer = one_of(&NET_LMT, &RemoteTransfer::ALL, RemoteTransfer::name)?;
    let rendezvous = one_of(&RENDEZVOUS, &Rendezvous::ALL, Rendezvous::name)?;
    Ok(Tuning {
        fastbox_max: fastbox_max.unwrap_or(default.fastbox_max),
        eager_max: bytes(&EAGER_MAX)?.unwrap_or(default.eager_max),
        stream_max: bytes(&STREAM_MAX)?.unwrap_or(default.stream_max),
        parcel_max: bytes(&PARCEL_MAX)?.unwrap_or(default.parcel_max),
        unexpected_max: bytes(&UNEXPECTED_MAX)?.unwrap_or(default.unexpected_max),
        bypass: bypass.map_or(default.bypass, |name| name == "on"),
        transfer: transfer.unwrap_or(default.transfer),
        kernel_copies_first: default.kernel_copies_first,
        remote_transfer: remote_transfer.unwrap_or(default.remote_transfer),
        rendezvous: rendezvous.unwrap_or(default.rendezvous),
    })
}

/// Returns the directory with the profile of an earlier run, if there is one.
pub(crate) fn rendezvous_profile() -> Result<Option<PathBuf>, EnvError> {
    RENDEZVOUS_PROFILE.read(|path: &PathBuf| path.is_dir())
}

/// Returns the directory for the profile of this run, if it is recorded.
pub(crate) fn rendezvous_profile_out() -> Result<Option<PathBuf>, EnvError> {
    RENDEZVOUS_PROFILE_OUT.read(|path: &PathBuf| !path.as_os_str().is_empty() && !path.is_file())
}

/// Returns the device between nodes that the environment names, if it names one.
///
/// # Errors
///
/// [`EnvError`] when the value of `STRAIT_HCA` is no device, or the value of `STRAIT_HCA_MODEL` is
/// no list of times.
pub fn hca() -> Result<Option<DeviceChoice>, EnvError> {
    let model = HCA_MODEL.read(|_: &TimeModel| true)?.unwrap_or(TimeModel::INFINIBAND_2004);
    let choice = HCA.read(|_: &DeviceChoice| true)?;
    let timed = |mode| match mode {
        SoftMode::Engine(_) => SoftMode::Engine(model),
        other => other,
    };
    Ok(choice.map(|choice| match choice {
        DeviceChoice::Soft(mode) => DeviceChoice::Soft(timed(mode)),
        DeviceChoice::SoftAnd(near, far) => {
            let far = match *far {
                DeviceChoice::Soft(mode) => DeviceChoice::Soft(timed(mode)),
                other => other,
            };
            DeviceChoice::SoftAnd(timed(near), Box::new(far))
        }
        other => other,
    }))
}

/// Returns the number of hosts as which the nodes of one host act.
pub(crate) fn hca_hosts() -> Result<u32, EnvError> {
    Ok(HCA_HOSTS.read(|hosts: &u32| *hosts > 0)?.unwrap_or(1))
}

/// Returns the chosen entry of the table of global identifiers of an RDMA port, if one is chosen.
///
/// # Errors
///
/// [`EnvError`] when the value is no index.
pub fn hca_gid() -> Result<Option<u8>, EnvError> {
    HCA_GID.read(|_: &u8| true)
}

/// Returns the design of the RDMA channel between nodes.
///
/// # Errors
///
/// [`EnvError`] when the value is no design.
pub fn ring() -> Result<Design, EnvError> {
    Ok(ring_asked()?.unwrap_or(Design::ZeroCopy))
}

/// Returns the design of the RDMA channel that the environment names, if it names one.
pub(crate) fn ring_asked() -> Result<Option<Design>, EnvError> {
    let design = |name: &str| Design::ALL.into_iter().find(|design| design.name() == name);
    let name = RING.read(|name: &String| design(name).is_some())?;
    Ok(name.and_then(|name| design(&name)))
}

/// Returns the longest part that goes through the ring of the RDMA channel, in bytes.
///
/// # Errors
///
/// [`EnvError`] when the value is out of range.
pub fn ring_copy_max() -> Result<u32, EnvError> {
    let is_possible = |bytes: &u32| (RING_COPY_LEAST..=1 << 30).contains(bytes);
    Ok(RING_COPY_MAX.read(is_possible)?.unwrap_or(RING_COPY_DEFAULT))
}

/// Returns the longest accumulate between nodes that its origin carries out, in bytes.
///
/// # Errors
///
/// [`EnvError`] when the value is no number.
pub fn accumulate_max() -> Result<usize, EnvError> {
    Ok(ACCUMULATE_MAX.read(|_: &usize| true)?.unwrap_or(8192))
}

/// Returns the longest blocks between nodes that are packed, in bytes.
///
/// # Errors
///
/// [`EnvError`] when the value is no number.
pub fn pack_max() -> Result<usize, EnvError> {
    Ok(PACK_MAX.read(|_: &usize| true)?.unwrap_or(512))
}

/// Returns whether the environment asks for a thread that also makes progress, if it says.
pub(crate) fn progress_asked() -> Result<Option<bool>, EnvError> {
    let name = PROGRESS.read(|name: &String| ["calls", "thread"].contains(&name.as_str()))?;
    Ok(name.map(|name| name == "thread"))
}

/// Returns what the environment asks ranks to record, if it says.
pub(crate) fn record_asked() -> Result<Option<RecordMode>, EnvError> {
    let mode = |name: &str| RecordMode::ALL.into_iter().find(|mode| mode.name() == name);
    let name = RECORD.read(|name: &String| mode(name).is_some())?;
    Ok(name.and_then(|name| mode(&name)))
}

/// Returns the design of windows for which the program chooses none.
///
/// # Errors
///
/// [`EnvError`] when the value is no design.
pub fn window() -> Result<WindowDesign, EnvError> {
    Ok(WINDOW.read(|_: &WindowDesign| true)?.unwrap_or_default())
}

/// Returns the design and the policy of the locks of windows for which the program chooses none.
///
/// # Errors
///
/// [`EnvError`] when the value is no design, or has no valid policy.
pub fn window_lock() -> Result<LockSetting, EnvError> {
    Ok(WINDOW_LOCK.read(|_: &LockSetting| true)?.unwrap_or_default())
}

/// Reads every variable with a limited set of values, so that a bad value is an error before
/// anything begins.
///
/// # Errors
///
/// [`EnvError`] for the first variable with an unusable value.
pub fn check() -> Result<(), EnvError> {
    tuning()?;
    rendezvous_profile()?;
    rendezvous_profile_out()?;
    cpus()?;
    hca()?;
    hca_gid()?;
    ring()?;
    ring_copy_max()?;
    accumulate_max()?;
    pack_max()?;
    progress_asked()?;
    window()?;
    window_lock()?;
    record_asked()?;
    nodes().map(drop)
}

/// Reads a variable that names one of `all`.
fn one_of<T: Copy>(
    variable: &Variable,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Option<T>, EnvError> {
    let find = |wanted: &String| all.iter().copied().find(|one| name(*one) == wanted);
    let chosen = variable.read(|wanted: &String| find(wanted).is_some())?;
    Ok(chosen.and_then(|wanted| find(&wanted)))
}

#[cfg(test)]
mod tests;
