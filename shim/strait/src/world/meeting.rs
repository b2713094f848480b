//! Where the members of a group meet for barriers. A rank has a meeting point for each group, and
//! one for all ranks of each context. It leaves them all when it leaves the job.

use core::ptr::NonNull;

use strait_core::layout::Segment;
use strait_core::shm::{Barrier, BarrierSlot, Exchange, Seats};
use strait_platform::Rank;

/// The means by which the members of a group meet.
#[derive(Debug, Default)]
pub(crate) enum MeetingPoint {
    /// The members have not met yet; the first barrier agrees on the means.
    #[default]
    Nowhere,
    /// Messages, because there was no slot. The members look for one again now and then.
    Messages {
        /// Number of barriers by messages, or `None` if the members do not look for a slot.
        barriers: Option<u32>,
    },
    /// Meeting points on several nodes.
    Nodes(Places),
    /// Words in the segment.
    Slot(GroupBarrier),
}

/// A group's slot and this member's view of it.
#[derive(Debug)]
pub(crate) struct GroupBarrier {
    pub(crate) slot: NonNull<BarrierSlot>,
    pub(crate) number: u32,
    pub(crate) barrier: Barrier,
    pub(crate) exchange: Exchange,
    pub(crate) until_progress: u32,
    /// True after a barrier has failed.
    pub(crate) gave_up: bool,
}

/// The meeting points of a group on several nodes: one on each node, and messages between the
/// leaders.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) levels: Levels,
    pub(crate) on_node: Box<MeetingPoint>,
}

/// A group's members on this node, and the leaders of all nodes: one member of each that acts for
/// its node.
#[derive(Debug)]
pub(crate) struct Levels {
    /// The members on this node; the leader of the node is first.
    pub(crate) here: Box<[Rank]>,
    /// The leaders, one for each node. The root is first, as the leader of its own node.
    pub(crate) speakers: Box<[Rank]>,
}

impl MeetingPoint {
    /// Leaves the slot, if there is one.
    pub(crate) fn leave(&mut self, segment: &Segment, rank: Rank) {
        match core::mem::take(self) {
            Self::Slot(GroupBarrier { number, .. }) => seats(segment, rank).leave(number),
            Self::Nodes(mut places) => places.on_node.leave(segment, rank),
            Self::Nowhere | Self::Messages { .. } => {}
        }
    }
}

/// Returns the seats of a rank in slots.
pub(crate) fn seats(segment: &Segment, rank: Rank) -> &Seats {
    &segment.rank_block(rank).liveness.seats
}
