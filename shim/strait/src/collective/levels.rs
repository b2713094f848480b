//! Groups on several nodes: the steps of all members on each node, and of one member of each node
//! between nodes (`[Nemesis07]` §3.4).

use strait_platform::Rank;

use super::meeting::way;
use super::team::Team;
use crate::Error;
use crate::world::meeting::{Levels, Places};

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

impl Places {
    pub(super) fn new(team: Team<'_>) -> Self {
        Self { levels: Levels::new(team, 0), on_node: Box::default() }
    }

    /// Waits for all members on the node, then for all nodes, then releases the members on the
    /// node.
    pub(super) fn barrier(&mut self, team: Team<'_>) -> Result<(), Error> {
        team.check_whole()?;
        let here = team.among(&self.levels.here);
        let way = way(here.count());
        self.on_node.barrier(here, way)?;
        if here.place == 0 {
            team.among(&self.levels.speakers).disseminate()?;
        }
        self.on_node.barrier(here, way)
    }
}
