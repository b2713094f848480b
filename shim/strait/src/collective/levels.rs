//! Groups on several nodes: the steps of all members on each node, and of one member of each node
//! between nodes (`[Nemesis07]` §3.4).

use strait_platform::Rank;

use super::meeting::MeetingPoint;
use super::team::Team;
use crate::Error;

/// A group's members on this node, and the leaders of all nodes: one member of each that acts for
/// its node.
#[derive(Debug)]
pub(super) struct Levels {
    /// The members on this node; the leader of the node is first.
    here: Box<[Rank]>,
    /// The leaders, one for each node. The root is first, as the leader of its own node.
    speakers: Box<[Rank]>,
}

impl Levels {
    /// Returns the levels of a group. The member in place `root` leads its node; the first member
    /// of each other node leads that node.
    pub(super) fn new(team: Team<'_>, root: u32) -> Self {
        let node = |rank: Rank| team.world.node_of(rank);
        let (mut here, mut speakers, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        let count = team.count();
        for place in core::iter::once(root).chain((0..count).filter(|place| *place != root)) {
            let rank = team.rank(place);
            if node(rank) == Some(team.world.node()) {
                here.push(rank);
            }
            if !seen.contains(&node(rank)) {
                seen.push(node(rank));
                speakers.push(rank);
            }
        }
        Self { here: here.into(), speakers: speakers.into() }
    }

    /// Sends from the root to the leader of each node, and from each leader to all members on its
    /// node.
    pub(super) fn broadcast(&self, team: Team<'_>, data: &mut [u8]) -> Result<(), Error> {
        let here = team.among(&self.here);
        if here.place == 0 {
            team.among(&self.speakers).broadcast(data, 0)?;
        }
        here.broadcast(data, 0)
    }
}

/// The meeting points of a group on several nodes: one on each node, and messages between the
/// leaders.
#[derive(Debug)]
pub(crate) struct Places {
    levels: Levels,
    on_node: Box<MeetingPoint>,
}

impl Places {
    pub(super) fn new(team: Team<'_>) -> Self {
        Self { levels: Levels::new(team, 0), on_node: Box::default() }
    }

    /// Waits for all members on the node, then for all nodes, then releases the members on the
    /// node.
    pub(super) fn barrier(&mut self, team: Team<'_>) -> Result<(), Error> {
        team.check_whole()?;
        let here = team.among(&self.levels.here);
        let way = super::way(here.count());
        self.on_node.barrier(here, way)?;
        if here.place == 0 {
            team.among(&self.levels.speakers).disseminate()?;
        }
        self.on_node.barrier(here, way)
    }

    /// Returns the meeting point on this node.
    pub(super) const fn on_node(&mut self) -> &mut MeetingPoint {
        &mut self.on_node
    }
}
