//! Errors of calls on a window.

use core::fmt;

use strait_core::reduce::Op;
use strait_core::rma::{ATTACHMENTS, LaneError};
use strait_platform::Rank;

/// The reason why a window was not made, or an operation on it was refused. Nothing was changed,
/// unless the variant says otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum WindowError {
    /// The displacement unit is 0 bytes.
    Unit,
    /// A member of the group is on another node, and there is no network to it, or the window needs
    /// shared memory.
    OtherNode {
        /// The member.
        rank: Rank,
    },
    /// Another member could not make its part, so no member has the window.
    Member {
        /// The first such member.
        rank: Rank,
    },
    /// A member cannot reach the private memory of another, so no member has the window.
    Barred {
        /// The member that cannot reach.
        rank: Rank,
        /// The member that owns the memory.
        target: Rank,
    },
    /// The target has no place in the window's group.
    Target {
        /// The place that was given.
        target: u32,
        /// Number of members of the group.
        members: u32,
    },
    /// The operation reaches past the end of the target's part.
    Bounds {
        /// The target.
        target: u32,
        /// The displacement that was given.
        displacement: usize,
        /// Bytes of one displacement at the target.
        unit: usize,
        /// Bytes from the displacement to the end of the operation; `usize::MAX` when they cannot
        /// be counted.
        extent: usize,
        /// Length of the target's part in bytes.
        part: usize,
    },
    /// The target has attached no memory at the displacement, or has detached it. Or the memory to
    /// detach is not attached.
    Detached {
        /// The target.
        target: u32,
        /// The displacement that was given.
        displacement: usize,
        /// Bytes from the displacement to the end of the operation.
        extent: usize,
    },
    /// No more memory can be attached.
    Attachments,
    /// The device cannot reach the memory that was to be attached.
    Registration {
        /// Length of the memory in bytes.
        bytes: usize,
    },
    /// The data of the origin are not as long as the target's or the results.
    Lengths {
        /// Bytes at the origin.
        origin: usize,
        /// Bytes at the target, or of the results.
        other: usize,
    },
    /// A number for atomic access does not lie on a multiple of its size.
    Alignment {
        /// Offset of the number in the part, in bytes.
        offset: usize,
        /// The type of the number.
        of: &'static str,
    },
    /// The operation is not defined for numbers of this type.
    Operation {
        /// The operation.
        op: Op,
        /// The type of the numbers.
        of: &'static str,
    },
    /// The kernel refused a copy from or to a target's private memory, although it allowed the
    /// first. A part of the copy may be done.
    Refused {
        /// The target's rank.
        rank: Rank,
        /// The system's error number, or 0 when the copy ended early.
        errno: i32,
    },
    /// The device does not reach a member any more, although the member is not known to be gone.
    /// Some requests may be done. The device carries out no more requests to this member.
    Device {
        /// The member's rank.
        rank: Rank,
        /// The error of the device's lane.
        error: LaneError,
    },
    /// A member asks for another design of the window than the first member does, so no member has
    /// the window.
    Design {
        /// The first such member.
        rank: Rank,
    },
    /// A member asks for another design of the window's locks than the first member does, so no
    /// member has the window.
    LockDesign {
        /// The first such member.
        rank: Rank,
    },
    /// The program called `start` or `lock` in an access epoch, or `post` in an exposure epoch.
    EpochOpen {
        /// The call.
        call: &'static str,
    },
    /// The program called `complete` without `start`, `wait` without `post`, or `unlock` without
    /// `lock`.
    NoEpoch {
        /// The call.
        call: &'static str,
    },
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unit => f.write_str("a displacement unit has at least 1 byte"),
            Self::OtherNode { rank } => write!(
                f,
                "this window does not reach rank {rank}, which is on another node: memory is \
                 shared only on one node, and between nodes windows need a network (STRAIT_HCA)"
            ),
            Self::Member { rank } => write!(
                f,
                "rank {rank} could not make its part, so the window was not made; the error at \
                 that rank says why"
            ),
            Self::Barred { rank, target } => write!(
                f,
                "rank {rank} may not reach into the memory of rank {target}, most likely because \
                 of a seccomp filter or kernel.yama.ptrace_scope, so the window was not made: use \
                 memory of World::alloc, which needs no permission"
            ),
            Self::Target { target, members } => write!(
                f,
                "target {target} has no place in a window of {members}: a target is a place in \
                 the group, counted from 0"
            ),
            Self::Bounds { target, displacement, unit, extent, part } => write!(
                f,
                "{extent} bytes at displacement {displacement} of {unit} bytes reach beyond the \
                 part of target {target}, which has {part} bytes"
            ),
            Self::Detached { target, displacement, extent } => write!(
                f,
                "target {target} has no memory attached for {extent} bytes at displacement \
                 {displacement:#x}: it was detached, was never attached, or is shorter"
            ),
            Self::Attachments => write!(
                f,
                "a dynamic window has at most {ATTACHMENTS} attachments at a time, and other \
                 windows have none: detach memory, or attach larger pieces"
            ),
            Self::Registration { bytes } => write!(
                f,
                "the device cannot reach {bytes} bytes that were to be attached: most likely \
                 RLIMIT_MEMLOCK is too low"
            ),
            Self::Lengths { origin, other } => write!(
                f,
                "the origin gives {origin} bytes for {other}: both sides of an operation must have \
                 the same length"
            ),
            Self::Alignment { offset, of } => write!(
                f,
                "an atomic {of} does not lie at byte {offset} of a part: it lies on a multiple of \
                 its size"
            ),
            Self::Operation { op, of } => write!(f, "{op:?} is not defined for {of}"),
            Self::Refused { rank, errno } => write!(
                f,
                "the kernel refuses a copy from or to the memory of rank {rank} (error {errno}), \
                 although it allowed the first: most likely a seccomp filter or the credentials \
                 changed, or the rank unmapped its memory"
            ),
            Self::Device { rank, error } => write!(
                f,
                "the window does not reach rank {rank} any more: {error}; most likely that rank \
                 has ended or unmapped its part"
            ),
            Self::Design { rank } => write!(
                f,
                "rank {rank} asks for another design of the window than the first member: all \
                 members must give the same (WindowBuilder::design or STRAIT_WINDOW)"
            ),
            Self::LockDesign { rank } => write!(
                f,
                "rank {rank} asks for another design of the window's locks than the first member: \
                 all members must give the same (WindowBuilder::locks or STRAIT_WINDOW_LOCK)"
            ),
            Self::EpochOpen { call } => {
                write!(
                    f,
                    "the program calls {call} within an epoch of its kind: end that epoch first"
                )
            }
            Self::NoEpoch { call } => {
                write!(f, "the program calls {call} without an epoch that it could end")
            }
        }
    }
}

impl core::error::Error for WindowError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device { error, .. } => Some(error),
            _ => None,
        }
    }
}
