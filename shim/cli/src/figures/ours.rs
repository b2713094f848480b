//! Figures that no paper has, in virtual time.

use strait_sim::engines::jobs::{self, EngineCosts};
use strait_sim::scale::{self, Scenario};

use super::series::Series;

/// Plays whole engines of 100 and 1,000 nodes: three series of each scenario, and beside the storm
/// that of the links alone.
pub(super) fn engines() -> Vec<Series> {
    let of = |scenario: Scenario| {
        let nodes = [100, 1_000].into_iter().filter(|nodes| *nodes <= scenario.most_nodes());
        let costs: Vec<_> = nodes.map(|nodes| (nodes, jobs::play(scenario, nodes))).collect();
        let series = |what: &str, number: fn(&EngineCosts) -> f64| {
            let point = |(nodes, costs): &(u32, EngineCosts)| [f64::from(*nodes), number(costs)];
            Series::ours(format!("{scenario}, {what}"), costs.iter().map(point).collect())
        };
        [
            series("µs", |costs| costs.scale.time_us),
            series("messages", |costs| costs.scale.messages),
            series("KiB of private memory", |costs| costs.private_bytes / 1024.0),
        ]
    };
    let alone =
        [100, 1_000].map(|nodes| [f64::from(nodes), scale::play(Scenario::Storm, nodes).time_us]);
    let alone = Series::ours("storm on links alone, µs", alone.into());
    jobs::SCENARIOS.into_iter().flat_map(of).chain([alone]).collect()
}
