//! Errors of collective operations.

use core::fmt;

use strait_core::reduce::Op;
use strait_core::rma::LaneError;
use strait_platform::Rank;

/// The reason why a group was not made, or a collective operation failed by the arguments of this
/// rank or another, or by the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The list of a group names a rank that does not exist.
    NoSuchRank {
        /// The rank that was named.
        rank: Rank,
        /// Number of ranks in the job.
        ranks: u32,
    },
    /// The list of a group names a rank twice.
    Twice {
        /// The rank.
        rank: Rank,
    },
    /// The list of a group does not name the rank that makes it.
    NotAMember {
        /// This rank.
        rank: Rank,
    },
    /// The messages of another group of this rank have the same names. Only members of both groups
    /// get this error.
    SameTag {
        /// Context of both groups.
        context: u32,
        /// Tag of the messages of both groups.
        tag: u32,
    },
    /// The root has no place in the group.
    Root {
        /// The place that was given.
        root: u32,
        /// Number of members of the group.
        members: u32,
    },
    /// Another member contributed data of another length.
    Length {
        /// The rank of that member.
        rank: Rank,
        /// Length of its data in bytes.
        found: usize,
        /// Length of this rank's data in bytes.
        expected: usize,
    },
    /// The vector cannot be divided among the members.
    Uneven {
        /// Length of the vector in bytes.
        bytes: usize,
        /// Number of members of the group.
        members: u32,
    },
    /// There is not one range for each member.
    Blocks {
        /// Number of ranges that were given.
        found: usize,
        /// Number of members of the group.
        members: u32,
    },
    /// The range of a member does not lie in the vector.
    Block {
        /// Place of the member.
        place: u32,
        /// First element of the range.
        start: usize,
        /// Element after the last one of the range.
        end: usize,
        /// Number of elements of the vector.
        room: usize,
    },
    /// Another member than the root contributes in place.
    InPlace {
        /// Place of the root.
        root: u32,
    },
    /// The operation is not defined for numbers of this type.
    Operation {
        /// The operation.
        op: Op,
        /// The type of the numbers.
        of: &'static str,
    },
    /// The device does not reach a member on another node any more, although the member is not
    /// known to be gone.
    Device {
        /// The member's rank.
        rank: Rank,
        /// The error of the connection.
        error: LaneError,
    },
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSuchRank { rank, ranks } => {
                write!(f, "a group cannot have rank {rank}: the job has {ranks} ranks")
            }
            Self::Twice { rank } => write!(f, "a group names rank {rank} twice"),
            Self::NotAMember { rank } => write!(
                f,
                "rank {rank} makes a group of which it is no member: only members make a group"
            ),
            Self::SameTag { context, tag } => write!(
                f,
                "in context {context}, another group of this rank uses messages with tag {tag}, \
                 too, and the messages of both groups would mix: make one of the groups in \
                 another context, at all of its members"
            ),
            Self::Root { root, members } => write!(
                f,
                "root {root} has no place in a group of {members}: a root is a place in the group, \
                 counted from 0"
            ),
            Self::Length { rank, found, expected } => write!(
                f,
                "rank {rank} takes part with {found} bytes, this rank with {expected}: every \
                 member must give the same length, and call the same operations in the same order"
            ),
            Self::Uneven { bytes, members } => write!(
                f,
                "{bytes} bytes cannot be divided among {members} members: the vector has as many \
                 elements of each member"
            ),
            Self::Blocks { found, members } => write!(
                f,
                "{found} ranges were given for {members} members: give one range for each place"
            ),
            Self::Block { place, start, end, room } => write!(
                f,
                "the range {start}..{end} of place {place} does not lie in the vector, which has \
                 {room} elements"
            ),
            Self::InPlace { root } => write!(
                f,
                "only the root, place {root}, contributes in place: other members give a slice"
            ),
            Self::Operation { op, of } => write!(f, "{op:?} is not defined for {of}"),
            Self::Device { rank, error } => write!(
                f,
                "the group's leader on this node does not reach rank {rank} any more: {error}; \
                 most likely that rank has ended, or left the group before the others"
            ),
        }
    }
}

impl core::error::Error for CollectiveError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device { error, .. } => Some(error),
            _ => None,
        }
    }
}
