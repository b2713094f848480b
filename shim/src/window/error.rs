//! What is wrong with a call on a window.

use core::fmt;

use strait_core::reduce::Op;
use strait_core::rma::{ATTACHMENTS, LaneError};

use crate::Rank;

/// Why a window was not made, or an operation on it was refused. Nothing was changed, unless said otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum WindowError {
    /// A displacement unit of no bytes.
    Unit,
    /// A member of the group is on another node, and there is no network to it; or the window was to be shared memory.
    OtherNode {
        /// The member.
        rank: Rank,
    },
    /// Another member could not make its part, so nobody has the window.
    Member {
        /// The first such member.
        rank: Rank,
    },
    /// A member cannot reach into the private memory of another, so nobody has the window.
    Barred {
        /// The member that cannot reach.
        rank: Rank,
        /// Whose memory it is.
        target: Rank,
    },
    /// The target has no place in the window's group.
    Target {
        /// The place given.
        target: u32,
        /// Members of the group.
        members: u32,
    },
    /// The operation reaches beyond the target's part.
    Bounds {
        /// The target.
        target: u32,
        /// The displacement given.
        displacement: usize,
        /// Bytes of one displacement at the target.
        unit: usize,
        /// Bytes from the displacement to the end of what the operation reaches; the most there is when they cannot be counted.
        extent: usize,
        /// Bytes of the target's part.
        part: usize,
    },
    /// The displacement is in nothing that the target has attached, at least not any more; or what was to be detached is not attached.
    Detached {
        /// The target.
        target: u32,
        /// The displacement given.
        displacement: usize,
        /// Bytes from the displacement to the end of what the operation reaches.
        extent: usize,
    },
    /// Nothing more can be attached.
    Attachments,
    /// The device cannot reach memory that was to be attached.
    Registration {
        /// Its bytes.
        bytes: usize,
    },
    /// The origin's data are not as long as what they are for.
    Lengths {
        /// Bytes at the origin.
        origin: usize,
        /// Bytes at the target, or of the results.
        other: usize,
    },
    /// A number that is to be reached atomically does not lie on a multiple of its size.
    Alignment {
        /// Where it begins, bytes from the start of the part.
        offset: usize,
        /// The type of the number.
        of: &'static str,
    },
    /// The operation has no meaning for the numbers that it was to combine.
    Operation {
        /// The operation.
        op: Op,
        /// The type of the numbers.
        of: &'static str,
    },
    /// The kernel refused a copy from or to a target's private memory, although it allowed the first. Some of it may have been
    /// done.
    Refused {
        /// The target's rank.
        rank: Rank,
        /// The system's error number; 0 when the copy ended early.
        errno: i32,
    },
    /// The device does not reach a member any more, although that is not known to be gone. Some of what was asked for may have
    /// been done, and to this member nothing more will be.
    Device {
        /// Its rank.
        rank: Rank,
        /// Why.
        error: LaneError,
    },
    /// A member asks for another design of the window than the first does, so nobody has the window.
    Design {
        /// The first such member.
        rank: Rank,
    },
    /// A member asks for another design of the window's locks than the first does, so nobody has the window.
    LockDesign {
        /// The first such member.
        rank: Rank,
    },
    /// Who waited for a target's lock, or had it, has died, and with it the queue of those behind: nobody gets this lock any more.
    LockBroken {
        /// The target.
        target: u32,
    },
    /// `start` or `lock` while an access epoch is open, or `post` while an exposure epoch is.
    EpochOpen {
        /// The call.
        call: &'static str,
    },
    /// `complete` without `start`, `wait` without `post`, or `unlock` without `lock`.
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
                "rank {rank} is on another node, where this window does not reach: memory is shared on one node alone, and between \
                 nodes windows need a network (STRAIT_HCA)"
            ),
            Self::Member { rank } => write!(
                f,
                "rank {rank} could not make its part of the window, so there is none; its own error says why"
            ),
            Self::Barred { rank, target } => write!(
                f,
                "rank {rank} may not reach into the memory of rank {target}, most likely for a seccomp filter or \
                 kernel.yama.ptrace_scope, so there is no window: give it memory of World::alloc, which needs no leave"
            ),
            Self::Target { target, members } => write!(
                f,
                "target {target} has no place in a window of {members}: a target is a place in the group, from 0"
            ),
            Self::Bounds { target, displacement, unit, extent, part } => write!(
                f,
                "{extent} bytes at displacement {displacement} of {unit} bytes reach beyond the part of target {target}, \
                 which has {part} bytes"
            ),
            Self::Detached { target, displacement, extent } => write!(
                f,
                "{extent} bytes at displacement {displacement:#x} are in nothing that target {target} has attached: it was detached \
                 since, was never attached, or is shorter"
            ),
            Self::Attachments => write!(
                f,
                "no more than {ATTACHMENTS} memories are attached at a time, and only to a dynamic window: detach one, or attach \
                 larger ones"
            ),
            Self::Registration { bytes } => write!(
                f,
                "the device cannot reach {bytes} bytes that were to be attached: most likely RLIMIT_MEMLOCK is too low"
            ),
            Self::Lengths { origin, other } => write!(
                f,
                "the origin gives {origin} bytes for {other}: both sides of an operation have the same length"
            ),
            Self::Alignment { offset, of } => write!(
                f,
                "an atomic {of} does not lie at byte {offset} of a part: it lies on a multiple of its size"
            ),
            Self::Operation { op, of } => write!(f, "{op:?} is not defined for {of}"),
            Self::Refused { rank, errno } => write!(
                f,
                "the kernel refuses a copy from or to the memory of rank {rank} (error {errno}), although it allowed the \
                 first: most likely a seccomp filter or a change of credentials since, or the rank's memory was unmapped"
            ),
            Self::Device { rank, error } => write!(
                f,
                "the window does not reach rank {rank} any more: {error}; most likely that rank has ended or unmapped its part"
            ),
            Self::Design { rank } => write!(
                f,
                "rank {rank} asks for another design of the window than the first member: all give the same \
                 (WindowOptions::design or STRAIT_WINDOW)"
            ),
            Self::LockDesign { rank } => write!(
                f,
                "rank {rank} asks for another design of the window's locks than the first member: all give the same \
                 (WindowOptions::lock or STRAIT_WINDOW_LOCK)"
            ),
            Self::LockBroken { target } => write!(
                f,
                "the queue for the lock of target {target} broke when a member in it died: of this window that lock is lost; \
                 make another window, or choose another design (STRAIT_WINDOW_LOCK)"
            ),
            Self::EpochOpen { call } => {
                write!(f, "{call} within an epoch that it would begin: end that first")
            }
            Self::NoEpoch { call } => write!(f, "{call} without an epoch that it could end"),
        }
    }
}

impl core::error::Error for WindowError {}
