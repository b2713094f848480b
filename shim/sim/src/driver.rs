//! Turns of many nodes: only those nodes get one to which something has happened.

use core::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::links::{LinkCall, NodeLinks};
use crate::{SimFabric, Step, Wire};

/// Nanoseconds from a call to its arrival: a small write of the card.
const CALL: u64 = Wire::INFINIBAND_2004.post + Wire::INFINIBAND_2004.write;

/// A node that takes turns.
pub(crate) trait DrivenNode {
    /// Returns the node's links.
    fn links(&mut self) -> &mut NodeLinks;

    /// Makes the progress that is possible now.
    fn turn(&mut self) -> Step;
}

/// Gives turns to the nodes of a fabric: node 0, 1, 2, ….
pub(crate) struct Driver<N> {
    // Ends first: nothing happens on the fabric afterwards, so the nodes' memory may go.
    fabric: SimFabric,
    nodes: Vec<N>,
    /// The nodes that have a turn, by the clocks of their processors.
    ready: BTreeSet<(u64, u32)>,
    /// Whether a node has no turn until something happens to it.
    waits: Vec<bool>,
    /// Whether a node has finished. It still answers calls.
    finished: Vec<bool>,
    /// Calls under way, by their arrival and number.
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    calls: Vec<Option<LinkCall>>,
}

impl<N: DrivenNode> Driver<N> {
    pub(crate) fn new(fabric: SimFabric, nodes: Vec<N>) -> Self {
        let ready = (0..nodes.len() as u32).map(|rank| (0, rank)).collect();
        let (waits, finished) = (vec![false; nodes.len()], vec![false; nodes.len()]);
        let (arrivals, calls) = (BinaryHeap::new(), Vec::new());
        Self { fabric, nodes, ready, waits, finished, arrivals, calls }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &N> {
        self.nodes.iter()
    }

    /// Gives turns until all nodes have finished. Returns the nanoseconds until the last one had.
    pub(crate) fn run(&mut self) -> u64 {
        let (mut left, mut last) = (self.nodes.len(), 0);
        while left > 0 {
            let event = self.fabric.next_due().unwrap_or(u64::MAX);
            let arrival = self.arrivals.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
            match self.ready.first().copied() {
                Some((clock, rank)) if clock < event.min(arrival) => {
                    self.ready.remove(&(clock, rank));
                    if self.turn(rank) {
                        left -= 1;
                        last = last.max(self.fabric.clock(rank));
                    }
                }
                _ if arrival <= event => {
                    assert!(arrival < u64::MAX, "all nodes wait, and nothing is under way");
                    self.arrive();
                }
                _ => {
                    let touched = self.fabric.advance_between().expect("an event is under way");
                    touched.into_iter().for_each(|rank| self.wake(rank, event));
                }
            }
        }
        last
    }

    /// Gives a node a turn. Returns whether it has finished with this one.
    fn turn(&mut self, rank: u32) -> bool {
        let node = &mut self.nodes[rank as usize];
        let step = node.turn();
        let now = self.fabric.clock(rank);
        for call in node.links().take_calls() {
            self.arrivals.push(Reverse((now + CALL, self.calls.len())));
            self.calls.push(Some(call));
        }
        if step == Step::Moved {
            self.ready.insert((now, rank));
            return false;
        }
        self.waits[rank as usize] = true;
        let finished = &mut self.finished[rank as usize];
        step == Step::Finished && !core::mem::replace(finished, true)
    }

    /// Lets the next call arrive.
    fn arrive(&mut self) {
        let Some(Reverse((due, number))) = self.arrivals.pop() else { return };
        let call = self.calls[number].take().expect("a call arrives once");
        let to = call.to;
        self.nodes[to as usize].links().take_call(call);
        self.wake(to, due);
    }

    fn wake(&mut self, rank: u32, due: u64) {
        if core::mem::take(&mut self.waits[rank as usize]) {
            let clock = self.fabric.wait_until(rank, due);
            self.ready.insert((clock, rank));
        }
    }
}
