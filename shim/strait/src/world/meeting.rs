//! Where the members of a group meet for barriers. A rank has a meeting point for each group, and
//! one for all ranks of each context. It leaves them all when it leaves the job.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use std::rc::Rc;

use strait_core::layout::Segment;
use strait_core::shm::{Barrier, BarrierSlot, Exchange, Seats, Steps};
use strait_platform::Rank;

use super::World;
use crate::network::MailboxId;

/// The means by which the members of a group meet.
#[derive(Debug)]
pub(crate) enum MeetingPoint {
    /// The members have not met yet; the first barrier agrees on the means.
    Nowhere {
        /// Number of operations that could have used collective buffers.
        operations: u32,
    },
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
    pub(crate) buffers: BufferState,
}

/// Whether the members of a group have collective buffers.
#[derive(Debug)]
pub(crate) enum BufferState {
    /// They have none yet.
    Unused {
        /// Number of operations that could have used them.
        operations: u32,
    },
    /// They can have none.
    Refused,
    /// They have some.
    Ready(CollectiveBuffers),
}

/// The buffers in which the members of a group show each other vectors.
#[derive(Debug)]
pub(crate) struct CollectiveBuffers {
    pub(crate) steps: Steps,
    /// The start of the buffer of the member in each place.
    pub(crate) starts: Box<[NonNull<u8>]>,
}

/// The memory that collective operations keep for the next ones, last used first. An operation may
/// need some for itself and some for a step.
pub(crate) type KeptScratch = Cell<[Vec<u8>; 2]>;

/// Memory of a world's collective operations.
#[derive(Default)]
pub(crate) struct CollectiveMemory {
    /// Memory that the operations use one after the other.
    pub(crate) scratch: KeptScratch,
    /// Number of a slot, and offset in the heap of this rank's collective buffer for it.
    pub(crate) buffers: RefCell<Vec<(u32, u64)>>,
}

/// The meeting points of a group on several nodes: one on each node, and messages between the
/// leaders.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) levels: Levels,
    pub(crate) on_node: Box<MeetingPoint>,
    pub(crate) mail: LeaderMail,
}

/// This rank's mailboxes with the other leaders.
pub(crate) type Mailboxes = Rc<[(Rank, MailboxId)]>;

/// Whether the leaders of a group have mailboxes for each other.
#[derive(Debug)]
pub(crate) enum LeaderMail {
    /// They have none yet.
    Unused {
        /// Number of operations that could have used them.
        operations: u32,
    },
    /// They can have none.
    Refused,
    /// They have some.
    Ready(Mailboxes),
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

impl Default for MeetingPoint {
    fn default() -> Self {
        Self::Nowhere { operations: 0 }
    }
}

impl MeetingPoint {
    /// Leaves the slot and closes the mailboxes, if there are some.
    pub(crate) fn leave(&mut self, world: &World) {
        // After a death, other members may still send what this member does not receive any more.
        // They must not take this member for dead.
        if !world.has_lost_a_rank() {
            self.close_mailboxes(world);
        }
        match core::mem::take(self) {
            Self::Slot(GroupBarrier { number, .. }) => {
                seats(&world.segment(), world.rank()).leave(number);
            }
            Self::Nodes(mut places) => places.on_node.leave(world),
            Self::Nowhere { .. } | Self::Messages { .. } => {}
        }
    }

    /// Closes the mailboxes, if there are some. No later operation uses them.
    pub(crate) fn close_mailboxes(&mut self, world: &World) {
        let Self::Nodes(Places { mail, .. }) = self else { return };
        let LeaderMail::Ready(ids) = core::mem::replace(mail, LeaderMail::Refused) else { return };
        world.with_network(|network| {
            ids.iter().for_each(|(_, id)| network.close_mailboxes(*id));
        });
    }
}

/// Returns the seats of a rank in slots.
pub(crate) fn seats(segment: &Segment, rank: Rank) -> &Seats {
    &segment.rank_block(rank).liveness.seats
}
