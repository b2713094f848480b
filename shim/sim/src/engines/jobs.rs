//! Whole engines of jobs of up to 10^4 nodes: the scenarios of [`scale`] with
//! matching and rendezvous.

use strait_core::engine::Tuning;

use super::node::{Call, EngineNode, Message};
use crate::driver::Driver;
use crate::scale::{self, PLAYED, Round, ScaleCosts, Scenario};
use crate::{Model, SimFabric};

/// The costs of a scenario on whole engines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineCosts {
    /// The costs that the links alone have, too.
    pub scale: ScaleCosts,
    /// Bytes of private memory of an engine when all are done: the mean.
    pub private_bytes: f64,
}

/// The scenarios that are played on whole engines. The exchange of a window is left out: engines
/// move its bytes as the links do.
pub const SCENARIOS: [Scenario; 4] =
    [Scenario::Barrier, Scenario::FirstContact, Scenario::AllToAll, Scenario::Storm];

/// Plays a scenario on this many nodes.
///
/// # Panics
///
/// When a message arrives damaged, or ranks wait for ever.
#[must_use]
pub fn play(scenario: Scenario, nodes: u32) -> EngineCosts {
    let fabric = SimFabric::new(1, nodes, Model::of_2004());
    let all = (0..nodes).zip(scale::rounds(scenario, nodes)).map(|(rank, rounds)| {
        EngineNode::new(&fabric, (rank, nodes), PLAYED, Tuning::default(), program(rounds))
    });
    let all: Vec<EngineNode> = all.collect();
    let mut driver = Driver::new(fabric, all);
    let time = driver.run();
    let links = driver.nodes().map(EngineNode::links);
    let messages = driver.nodes().map(EngineNode::messages).sum();
    let private: usize = driver.nodes().map(EngineNode::private_bytes).sum();
    EngineCosts {
        scale: ScaleCosts::new(time, links, messages),
        private_bytes: private as f64 / f64::from(nodes),
    }
}

/// Returns the calls of a rank: in each round it posts its receives, begins its sends and waits.
fn program(rounds: Vec<Round>) -> Vec<Call> {
    let of = |(number, Round { sends, receives }): (u32, Round)| {
        let message = move |(peer, bytes)| Message { peer, tag: number, bytes };
        let receives = receives.into_iter().map(message).map(Call::Irecv);
        let sends = sends.into_iter().map(message).map(Call::Isend);
        receives.chain(sends).chain([Call::Wait])
    };
    (0..).zip(rounds).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_the_ranks_in_contact() {
        let [few, many] = [100, 400].map(|nodes| play(Scenario::FirstContact, nodes).private_bytes);
        // The table of peers has 8 bytes for each rank. Contacts vary by chance.
        assert!(many < 1.1 * few + 300.0 * 8.0, "{few} {many}");
    }

    #[test]
    fn matching_and_rendezvous_keep_what_the_links_promise() {
        let [few, many] = [40, 200].map(|nodes| play(Scenario::FirstContact, nodes).scale);
        assert!(many.time_us < 1.3 * few.time_us, "{few:?} {many:?}");
        let [engines, links] = [play(Scenario::Storm, 34).scale, scale::play(Scenario::Storm, 34)];
        assert!(engines.time_us < 1.1 * links.time_us, "{engines:?} {links:?}");
        assert_eq!(engines.links, links.links);
    }
}
