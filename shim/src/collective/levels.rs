//! Groups on several nodes: what their members do on each node, and what one member of each does for its node
//! (`[Nemesis07]` §3.4).

use super::meeting::Meeting;
use super::team::Team;
use crate::{Error, Rank};

/// A group's members on this node, and those that speak for their nodes.
#[derive(Debug)]
pub(super) struct Levels {
    /// Who speaks for this node is first.
    here: Box<[Rank]>,
    /// One for each node; who speaks for that of the root is first, and is the root.
    speakers: Box<[Rank]>,
}

impl Levels {
    /// The levels of a group, where the member in place `root` speaks for its node and the first of each for the others.
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

    /// From the root to one of each node, and from that to all on its node.
    pub(super) fn broadcast(&self, team: Team<'_>, data: &mut [u8]) -> Result<(), Error> {
        let here = team.among(&self.here);
        if here.place == 0 {
            team.among(&self.speakers).broadcast(data, 0)?;
        }
        here.broadcast(data, 0)
    }
}

/// Where the members of a group on several nodes meet: on each node, and those that speak for them by messages.
#[derive(Debug)]
pub(crate) struct Places {
    levels: Levels,
    on_node: Box<Meeting>,
}

impl Places {
    pub(super) fn new(team: Team<'_>) -> Self {
        Self { levels: Levels::new(team, 0), on_node: Box::default() }
    }

    /// All of a node have come; then all nodes have; then all of a node know.
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

    /// The meeting on this node.
    pub(super) const fn on_node(&mut self) -> &mut Meeting {
        &mut self.on_node
    }
}
