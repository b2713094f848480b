//! Operations of a group on several nodes: one member of each node, its leader, acts for the node
//! between nodes (`[Nemesis07]` §3.4).

use crate::Error;
use crate::collective::Meeting;
use crate::collective::blocks::{Blocks, keep};
use crate::collective::operation::Operator;
use crate::collective::team::Team;
use crate::world::meeting::Levels;

impl Team<'_> {
    /// Reduces on each node, between the nodes, and tells the members on each node. The mapping of
    /// members to nodes decides the order, so the operation must be exact.
    pub(super) fn allreduce_by_nodes(
        &self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let levels = Levels::new(*self, 0);
        levels.reduce_on_node(*self, meeting, data, op)?;
        if self.among(&levels.here).place == 0 {
            let bytes = data.len();
            levels.between_nodes(*self, meeting, bytes, |leaders| {
                leaders.allreduce_whole(data, op)
            })?;
        }
        levels.broadcast_on_node(*self, meeting, data)
    }

    /// Reduces on each node and then between the nodes, to the root. The operation must be exact,
    /// as in [`Team::allreduce_by_nodes`].
    pub(super) fn reduce_by_nodes(
        &self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
        root: u32,
    ) -> Result<(), Error> {
        let levels = Levels::new(*self, root);
        levels.reduce_on_node(*self, meeting, data, op)?;
        if self.among(&levels.here).place == 0 {
            let bytes = data.len();
            levels.between_nodes(*self, meeting, bytes, |leaders| {
                leaders.reduce_to_first(data, op)
            })?;
        }
        Ok(())
    }

    /// Gathers equal blocks: each leader sends the blocks of its node in one message.
    pub(super) fn gather_by_nodes(
        &self,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let levels = Levels::new(*self, root);
        let here = self.among(&levels.here);
        if here.place != 0 {
            return here.send(own.unwrap_or(&[]), 0);
        }
        let block = blocks.length(0);
        let node = self.world.node();
        if self.place != root {
            let mut scratch = self.scratch(levels.here.len() * block);
            let (first, others) = scratch.bytes().split_at_mut(block);
            keep(own, first);
            for (at, place) in (1..here.count()).enumerate() {
                here.receive(&mut others[at * block..(at + 1) * block], place)?;
            }
            return self.send(scratch.bytes(), root);
        }
        keep(own, &mut all[blocks.range(root)]);
        for place in self.places_on(node).filter(|place| *place != root) {
            self.receive(&mut all[blocks.range(place)], place)?;
        }
        for leader in levels.speakers.iter().skip(1) {
            let places = || self.places_on(self.world.node_of(*leader).unwrap_or(node));
            let mut scratch = self.scratch(places().count() * block);
            let Some(first) = places().next() else { continue };
            self.receive(scratch.bytes(), first)?;
            for (at, place) in places().enumerate() {
                let theirs = &scratch.bytes()[at * block..(at + 1) * block];
                all[blocks.range(place)].copy_from_slice(theirs);
            }
        }
        Ok(())
    }

    /// Scatters equal blocks: the root sends the blocks of a node in one message to its leader.
    pub(super) fn scatter_by_nodes(
        &self,
        all: &[u8],
        own: Option<&mut [u8]>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let levels = Levels::new(*self, root);
        let here = self.among(&levels.here);
        if here.place != 0 {
            return here.receive(own.unwrap_or(&mut []), 0);
        }
        let block = blocks.length(0);
        let node = self.world.node();
        if self.place != root {
            let mut scratch = self.scratch(levels.here.len() * block);
            self.receive(scratch.bytes(), root)?;
            let (first, others) = scratch.bytes().split_at(block);
            for (at, place) in (1..here.count()).enumerate() {
                here.send(&others[at * block..(at + 1) * block], place)?;
            }
            own.into_iter().for_each(|own| own.copy_from_slice(first));
            return Ok(());
        }
        for leader in levels.speakers.iter().skip(1) {
            let places = || self.places_on(self.world.node_of(*leader).unwrap_or(node));
            let mut scratch = self.scratch(places().count() * block);
            let Some(first) = places().next() else { continue };
            for (at, place) in places().enumerate() {
                let theirs = &mut scratch.bytes()[at * block..(at + 1) * block];
                theirs.copy_from_slice(&all[blocks.range(place)]);
            }
            self.send(scratch.bytes(), first)?;
        }
        for place in self.places_on(node).filter(|place| *place != root) {
            self.send(&all[blocks.range(place)], place)?;
        }
        own.into_iter().for_each(|own| own.copy_from_slice(&all[blocks.range(root)]));
        Ok(())
    }

    /// Returns the places of the members on a node, the leader's first unless the root is among
    /// them.
    pub(in crate::collective) fn places_on(&self, node: u32) -> impl Iterator<Item = u32> {
        (0..self.count()).filter(move |place| self.world.node_of(self.rank(*place)) == Some(node))
    }
}
