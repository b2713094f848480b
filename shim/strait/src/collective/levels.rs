//! Groups on several nodes: the steps of all members on each node, and of one member of each node
//! between nodes (`[Nemesis07]` §3.4).

use strait_platform::Rank;

use super::Meeting;
use super::meeting::way;
use super::operation::Operator;
use super::team::Team;
use crate::Error;
use crate::world::meeting::{LeaderMail, Levels, Places};

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
    pub(super) fn broadcast(
        &self,
        team: Team<'_>,
        meeting: Meeting<'_>,
        data: &mut [u8],
    ) -> Result<(), Error> {
        if team.among(&self.here).place == 0 {
            let bytes = data.len();
            self.between_nodes(team, meeting, bytes, |leaders| leaders.broadcast(data, 0))?;
        }
        self.broadcast_on_node(team, meeting, data)
    }

    /// Sends from the leader of this node to the other members on it.
    pub(super) fn broadcast_on_node(
        &self,
        team: Team<'_>,
        meeting: Meeting<'_>,
        data: &mut [u8],
    ) -> Result<(), Error> {
        let (here, leader) = self.members_by_place(team, meeting);
        if team.among(&here).broadcast_shared(meeting, data, leader)? {
            return Ok(());
        }
        team.among(&self.here).broadcast(data, 0)
    }

    /// Reduces the vectors of the members on this node to its leader. The operation must be exact.
    pub(super) fn reduce_on_node(
        &self,
        team: Team<'_>,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let (here, leader) = self.members_by_place(team, meeting);
        if team.among(&here).reduce_shared(meeting, data, op, leader)? {
            return Ok(());
        }
        team.among(&self.here).reduce_to_first(data, op)
    }

    /// Returns the members on this node in the order in which they meet, whichever of them leads in
    /// this operation, and where the leader is among them. Gives the group its meeting points on
    /// the nodes, if it has none.
    fn members_by_place(&self, team: Team<'_>, meeting: Meeting<'_>) -> (Vec<Rank>, u32) {
        meeting.with(|point| point.divide(team));
        let places = team.places_on(team.world.node());
        let here: Vec<_> = places.map(|place| team.rank(place)).collect();
        let leader = here.iter().position(|rank| *rank == self.here[0]);
        (here, leader.unwrap_or(0) as u32)
    }
}

impl Places {
    pub(super) fn new(team: Team<'_>) -> Self {
        let mail = LeaderMail::Unused { operations: 0 };
        Self { levels: Levels::new(team, 0), on_node: Box::default(), mail }
    }

    /// Waits for all members on the node, then for all nodes, then releases the members on the
    /// node.
    pub(super) fn barrier(&mut self, team: Team<'_>) -> Result<(), Error> {
        team.check_whole()?;
        let Self { levels, on_node, mail } = self;
        let here = team.among(&levels.here);
        let way = way(here.count());
        on_node.barrier(here, way)?;
        if here.place == 0 {
            let leaders = team.among(&levels.speakers);
            let mail = mail.for_message(leaders, 0)?;
            leaders.with_mail(mail.as_deref()).disseminate()?;
        }
        on_node.barrier(here, way)
    }
}
