//! The placement of ranks on nodes.

use core::fmt;
use core::hash::Hash;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a process in its job, from 0.
pub type Rank = u32;

/// The nodes of a job and their ranks. Nodes are numbered from 0 in the order of their first ranks.
/// So every rank computes the same numbers, whatever names the launcher uses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Nodes {
    /// The node of each rank. Copies share it.
    of: Arc<[u32]>,
    ranks: u32,
    count: u32,
}

impl Nodes {
    /// Places `ranks` ranks on one node.
    #[must_use]
    pub fn one(ranks: u32) -> Self {
        Self { of: (0..ranks).map(|_| 0).collect(), ranks, count: ranks.min(1) }
    }

    /// Places `ranks` ranks on `nodes` nodes, in consecutive blocks of nearly equal size, the
    /// longer ones first. Returns `None` when a node would be empty.
    #[must_use]
    pub fn blocks(ranks: u32, nodes: u32) -> Option<Self> {
        if nodes == 0 || nodes > ranks {
            return None;
        }
        let (length, longer) = (ranks / nodes, ranks % nodes);
        let sizes = (0..nodes).map(|node| length + u32::from(node < longer));
        let of = (0..nodes).zip(sizes).flat_map(|(node, size)| (0..size).map(move |_| node));
        Some(Self { of: of.collect(), ranks, count: nodes })
    }

    /// Places ranks on nodes by the name of each rank's node, in rank order.
    #[must_use]
    pub fn named<T: Eq + Hash>(names: impl IntoIterator<Item = T>) -> Self {
        let mut numbers = HashMap::new();
        let mut number = |name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        };
        let of: Arc<[u32]> = names.into_iter().map(&mut number).collect();
        Self { ranks: of.len() as u32, of, count: numbers.len() as u32 }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of ranks on all nodes.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the node of `rank`, or `None` for a rank that does not exist.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        self.of.get(rank as usize).copied()
    }

    /// Returns the ranks on `node`, in ascending order.
    pub fn ranks_on(&self, node: u32) -> impl Iterator<Item = Rank> {
        (0..).zip(&*self.of).filter(move |(_, of)| **of == node).map(|(rank, _)| rank)
    }

    /// Returns the first rank on `node`. It makes the node's segment, and acts for the node where
    /// one rank has to.
    #[must_use]
    pub fn leader(&self, node: u32) -> Option<Rank> {
        self.ranks_on(node).next()
    }
}

/// Formats ranks and nodes in short form: `4 ranks on 2 nodes: 0-1, 2-3`.
impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        let (ranks, nodes) = (self.ranks(), self.count);
        write!(f, "{ranks} rank{} on {nodes} node{}: ", plural(ranks), plural(nodes))?;
        for node in 0..nodes {
            let ranks: Vec<_> = self.ranks_on(node).collect();
            let run = |run: &[u32]| match run {
                [first, .., last] => format!("{first}-{last}"),
                run => run.iter().map(ToString::to_string).collect(),
            };
            let runs: Vec<_> = ranks.chunk_by(|one, next| one + 1 == *next).map(run).collect();
            write!(f, "{}{}", if node == 0 { "" } else { ", " }, runs.join("+"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_consecutive_and_as_equal_as_can_be() {
        let nodes = Nodes::blocks(5, 2).unwrap();
        assert_eq!(nodes.to_string(), "5 ranks on 2 nodes: 0-2, 3-4");
        assert_eq!(
            (nodes.node_of(2), nodes.node_of(3), nodes.node_of(5)),
            (Some(0), Some(1), None)
        );
        assert_eq!((nodes.leader(0), nodes.leader(1), nodes.leader(2)), (Some(0), Some(3), None));
        assert_eq!(Nodes::blocks(4, 1), Some(Nodes::one(4)));
        assert_eq!(Nodes::blocks(3, 3).unwrap().to_string(), "3 ranks on 3 nodes: 0, 1, 2");
        assert_eq!((Nodes::blocks(3, 4), Nodes::blocks(3, 0)), (None, None));
    }

    #[test]
    fn names_become_numbers_in_the_order_of_first_ranks() {
        let nodes = Nodes::named([7, 7, 3, 7]);
        assert_eq!(nodes.to_string(), "4 ranks on 2 nodes: 0-1+3, 2");
        assert_eq!(nodes.ranks_on(0).collect::<Vec<_>>(), [0, 1, 3]);
    }
}
