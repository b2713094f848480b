//! Jobs of up to 10^4 nodes: links that are made at the first contact, in virtual time.
//!
//! Each node has one rank, a device of the fabric, and the RDMA channel as the library has it. A
//! node that wants to send has no link to its peer at first. It calls the peer, which connects its
//! end and answers; then the caller connects its own and says so. Each of the three messages takes
//! as long as a small write. They go outside the device, as those of the library's listener.
//!
//! A scenario consists of rounds for each node: what it sends and receives before it goes on.
//! Counted are the time until the last node is done, the messages, and the memory that links take
//! on each node.

mod node;

use core::fmt;

use fastrand::Rng;
use strait_core::ring::{Design, LinkConfig};

use node::Node;
pub(crate) use node::Round;

use crate::driver::Driver;
use crate::links::NodeLinks;
use crate::{Model, SimFabric};

/// Bytes of a short message.
const SHORT: usize = 64;

/// Bytes of a large message, which moves from buffer to buffer.
const LARGE: usize = 64 << 10;

/// Number of nodes that send to one receiver in the storm.
const STORM: u32 = 16;

/// Number of random peers of each node at the first contact.
const RANDOM_PEERS: u32 = 4;

/// Bytes of what each member tells every other one when a window is made: the descriptor of a part.
const DESCRIPTOR: usize = 120;

/// What the nodes do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scenario {
    /// A barrier of all nodes by messages in rounds, right after the start.
    Barrier,
    /// Short messages with both neighbours in a ring and with random peers, right after the start.
    FirstContact,
    /// Short messages between all pairs, right after the start.
    AllToAll,
    /// Large messages of 16 nodes to one, at all such ones at the same time.
    Storm,
    /// The exchange in which a window is made: each member's part for all others.
    Window,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 5] =
        [Self::Barrier, Self::FirstContact, Self::AllToAll, Self::Storm, Self::Window];

    /// Returns the largest number of nodes for which the scenario is played: more messages than
    /// grow with the nodes, or more bytes, take too long.
    #[must_use]
    pub const fn most_nodes(self) -> u32 {
        match self {
            Self::AllToAll => 100,
            Self::Window => 1_000,
            Self::Barrier | Self::FirstContact | Self::Storm => 10_000,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier => "barrier",
            Self::FirstContact => "first contact",
            Self::AllToAll => "all-to-all",
            Self::Storm => "storm",
            Self::Window => "window",
        })
    }
}

/// The costs of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleCosts {
    /// Microseconds until the last node is done.
    pub time_us: f64,
    /// Messages that a node sends, calls and their answers included: the mean of all nodes.
    pub messages: f64,
    /// Links of a node: the mean of all nodes, and the most.
    pub links: [f64; 2],
    /// Bytes of memory of a node for its links: the mean of all nodes. The links are those of the
    /// library, whatever the size of those that are played.
    pub link_bytes: f64,
}

/// The links of the library: 16 chunks of 16 KiB and a head in each direction.
const LIBRARY: LinkConfig =
    LinkConfig { design: Design::ZeroCopy, chunk: 16 * 1024 + 64, slots: 16, large: 32 << 10 };

/// The links that are played. The rings of all nodes have to fit the memory of one machine.
pub(crate) const PLAYED: LinkConfig = LinkConfig { chunk: 512, slots: 4, ..LIBRARY };

/// Plays a scenario on this many nodes.
///
/// # Panics
///
/// When a link fails, or a message arrives damaged.
#[must_use]
pub fn play(scenario: Scenario, nodes: u32) -> ScaleCosts {
    let fabric = SimFabric::new(1, nodes, Model::of_2004());
    let mut rounds = rounds(scenario, nodes);
    let all = (0..nodes).map(|rank| {
        let rounds = core::mem::take(&mut rounds[rank as usize]);
        Node::new(NodeLinks::new(fabric.device(rank), rank, PLAYED), rounds)
    });
    let all: Vec<Node> = all.collect();
    let mut driver = Driver::new(fabric, all);
    let time = driver.run();
    let links = driver.nodes().map(Node::links);
    ScaleCosts::new(time, links, driver.nodes().map(Node::messages).sum())
}

impl ScaleCosts {
    /// Returns the costs of a run: its nanoseconds, the links of each node, and the messages of
    /// all.
    pub(crate) fn new(time: u64, links: impl Iterator<Item = usize>, messages: u64) -> Self {
        let links: Vec<f64> = links.map(|links| links as f64).collect();
        let (count, sum) = (links.len() as f64, links.iter().sum::<f64>());
        Self {
            time_us: time as f64 / 1e3,
            messages: messages as f64 / count,
            links: [sum / count, links.iter().copied().fold(0.0, f64::max)],
            link_bytes: sum / count * LIBRARY.bytes() as f64,
        }
    }
}

/// Returns the rounds of each node.
pub(crate) fn rounds(scenario: Scenario, nodes: u32) -> Vec<Vec<Round>> {
    match scenario {
        Scenario::Barrier => in_rounds(nodes, |_| SHORT),
        // Each member knows twice as many descriptors after each round.
        Scenario::Window => {
            in_rounds(nodes, |distance| distance.min(nodes - distance) as usize * DESCRIPTOR)
        }
        Scenario::FirstContact => {
            let mut rng = Rng::with_seed(u64::from(nodes));
            let mut all = vec![Round::default(); nodes as usize];
            for rank in 0..nodes {
                let random = (0..RANDOM_PEERS).map(|_| rng.u32(..nodes));
                let peers: Vec<u32> = [(rank + 1) % nodes].into_iter().chain(random).collect();
                for peer in peers {
                    exchange(&mut all, rank, peer, SHORT);
                }
            }
            all.into_iter().map(|round| vec![round]).collect()
        }
        Scenario::AllToAll => {
            let mut all = vec![Round::default(); nodes as usize];
            for rank in 0..nodes {
                (0..rank).for_each(|peer| exchange(&mut all, rank, peer, SHORT));
            }
            all.into_iter().map(|round| vec![round]).collect()
        }
        Scenario::Storm => {
            let mut all = vec![Round::default(); nodes as usize];
            for rank in (0..nodes).filter(|rank| !rank.is_multiple_of(STORM + 1)) {
                let receiver = rank / (STORM + 1) * (STORM + 1);
                send(&mut all, rank, receiver, LARGE);
            }
            all.into_iter().map(|round| vec![round]).collect()
        }
    }
}

/// Rounds in which each node sends to the node 1, 2, 4, … further on, in a circle.
fn in_rounds(nodes: u32, bytes: impl Fn(u32) -> usize) -> Vec<Vec<Round>> {
    let distances: Vec<u32> =
        (0..u32::BITS).map(|bit| 1 << bit).take_while(|d| *d < nodes).collect();
    let of = |rank: u32| {
        let round = |distance: &u32| {
            let (to, from) = ((rank + distance) % nodes, (rank + nodes - distance) % nodes);
            Round { sends: vec![(to, bytes(*distance))], receives: vec![(from, bytes(*distance))] }
        };
        distances.iter().map(round).collect()
    };
    (0..nodes).map(of).collect()
}

fn exchange(all: &mut [Round], one: u32, other: u32, bytes: usize) {
    // Two messages in one direction would be one for the receiver, which reads a stream.
    let met = all[one as usize].sends.iter().any(|(to, _)| *to == other);
    if one != other && !met {
        send(all, one, other, bytes);
        send(all, other, one, bytes);
    }
}

fn send(all: &mut [Round], from: u32, to: u32, bytes: usize) {
    all[from as usize].sends.push((to, bytes));
    all[to as usize].receives.push((from, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_a_receiver() {
        for scenario in Scenario::ALL {
            let all = rounds(scenario, 40);
            let place = |rank: u32, round: usize| &all[rank as usize][round];
            for (rank, rounds) in (0..).zip(&all) {
                for (number, round) in rounds.iter().enumerate() {
                    for (to, bytes) in &round.sends {
                        assert!(
                            place(*to, number).receives.contains(&(rank, *bytes)),
                            "{scenario}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn links_grow_with_the_peers_of_a_node_and_not_with_the_nodes() {
        let [few, many] = [50, 400].map(|nodes| play(Scenario::FirstContact, nodes));
        assert!(many.links[0] < 1.2 * few.links[0], "{few:?} {many:?}");
        let all = play(Scenario::AllToAll, 12);
        assert_eq!(all.links, [11.0, 11.0]);
        // All call each other at the same time: a message, a call and an answer for each peer.
        assert_eq!(all.messages, 33.0);
        let storm = play(Scenario::Storm, 34);
        assert_eq!(storm.links[1], 16.0);
        // The incoming link of a receiver carries all bytes.
        let least = f64::from(STORM) * LARGE as f64 / 870.0;
        assert!((least..1.5 * least).contains(&storm.time_us), "{storm:?}");
    }

    #[test]
    fn a_barrier_takes_as_many_rounds_as_the_logarithm_of_the_nodes() {
        let [sixteen, many] = [16, 256].map(|nodes| play(Scenario::Barrier, nodes));
        let ratio = many.time_us / sixteen.time_us;
        assert!((1.8..2.2).contains(&ratio), "{ratio}: {sixteen:?} {many:?}");
        assert_eq!(many, play(Scenario::Barrier, 256), "a run is repeatable");
    }
}
