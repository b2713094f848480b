//! Failures to make, map or extend a segment.

use core::fmt;

use rustix::io::Errno;
use strait_core::layout::{AttachError, PlanError, SegmentConfig};

/// The reason why a segment could not be made, mapped or extended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SegmentError {
    /// The requested shape is invalid.
    Plan(PlanError),
    /// Less memory is free than the segment needs.
    NoMemory {
        /// The requested shape.
        config: SegmentConfig,
        /// Bytes needed.
        need: u64,
        /// Bytes that are free, where the system says.
        available: Option<u64>,
        /// The kernel's error; `None` when the kernel was not asked.
        error: Option<Errno>,
    },
    /// A rank's heap has no contiguous free range of this size.
    HeapFull {
        /// Bytes requested.
        need: u64,
        /// Bytes that are free, in one piece or several.
        free: u64,
        /// Bytes of the heap.
        heap: u64,
    },
    /// The heap has room, but no memory can be reserved for it.
    NoHeapMemory {
        /// Bytes requested.
        need: u64,
        /// Bytes that are free, where the system says.
        available: Option<u64>,
        /// The kernel's error; `None` when the kernel was not asked.
        error: Option<Errno>,
    },
    /// The file could be shortened while it is mapped, which would kill its readers.
    NotSealed,
    /// The file is not the segment of this job.
    Attach(AttachError),
    /// The kernel refused a step.
    Os {
        /// The step.
        step: &'static str,
        /// The kernel's error.
        error: Errno,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::NoMemory { error: Some(error), .. }
            | Self::NoHeapMemory { error: Some(error), .. }
                if is_refusal(*error) =>
            {
                refused(f, "reserving shared memory", "fallocate", *error)
            }
            Self::NoMemory { config, need, available, error } => {
                short(f, *need, *available, *error)?;
                write!(
                    f,
                    "; {} ranks have {} cells of {} bytes each: use fewer or smaller cells, fewer \
                     ranks, or raise the memory limit of the container",
                    config.ranks, config.cells_per_rank, config.cell_payload
                )
            }
            Self::HeapFull { need, free, heap } => write!(
                f,
                "no room for {} in this rank's heap of {}, of which {} are free: allocate less, or \
                 start the job with larger heaps (strait run --heap-bytes)",
                Mebibytes(*need),
                Mebibytes(*heap),
                Mebibytes(*free)
            ),
            Self::NoHeapMemory { need, available, error } => {
                short(f, *need, *available, *error)?;
                f.write_str(
                    " for this rank's heap: allocate less, or raise the memory limit of the \
                     container",
                )
            }
            Self::NotSealed => f.write_str(
                "the file from the launcher is not sealed against shrinking: it is not a Strait \
                 segment",
            ),
            Self::Attach(error) => error.fmt(f),
            Self::Os { step, error } if *step == MEMFD && is_refusal(*error) => {
                refused(f, step, "memfd_create", *error)
            }
            Self::Os { step, error } => {
                write!(f, "the shared segment failed at {step}: {error}")?;
                match *error {
                    Errno::NOMEM => f.write_str(
                        ": a limit of addresses (ulimit -v) or of mappings (vm.max_map_count) \
                         is too low; raise it, or start the job with smaller heaps \
                         (strait run --heap-bytes)",
                    ),
                    Errno::MFILE => {
                        f.write_str(": raise the limit of open descriptors (ulimit -n)")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The step that makes the file of a segment.
pub(super) const MEMFD: &str = "making an anonymous file";

/// Returns whether the system forbids a call, as opposed to lacking a resource.
const fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::ACCESS | Errno::NOSYS)
}

fn refused(f: &mut fmt::Formatter<'_>, step: &str, call: &str, error: Errno) -> fmt::Result {
    write!(
        f,
        "the system refuses {step} ({call}: {error}): most likely a seccomp filter or a security \
         module of the container; allow the call {call}, or run outside of the container"
    )
}

/// Writes the bytes needed, the bytes available, and the kernel's error.
fn short(
    f: &mut fmt::Formatter<'_>,
    need: u64,
    available: Option<u64>,
    error: Option<Errno>,
) -> fmt::Result {
    write!(f, "shared memory is short: {} needed", Mebibytes(need))?;
    if let Some(available) = available {
        write!(f, ", {} available", Mebibytes(available))?;
    }
    if let Some(error) = error {
        write!(f, " ({error})")?;
    }
    Ok(())
}

impl core::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Plan(error) => Some(error),
            Self::Attach(error) => Some(error),
            Self::NoMemory { error: Some(error), .. }
            | Self::NoHeapMemory { error: Some(error), .. }
            | Self::Os { error, .. } => Some(error),
            Self::NoMemory { error: None, .. }
            | Self::NoHeapMemory { error: None, .. }
            | Self::HeapFull { .. }
            | Self::NotSealed => None,
        }
    }
}

impl From<PlanError> for SegmentError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<AttachError> for SegmentError {
    fn from(error: AttachError) -> Self {
        Self::Attach(error)
    }
}

/// A number of bytes in MiB, rounded up.
struct Mebibytes(u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0.div_ceil(1 << 20))
    }
}
