//! Figures that no paper has, in virtual time.

use strait::LockDesign;
use strait_sim::engines::jobs::{self, EngineCosts};
use strait_sim::locks::{self, Costs};
use strait_sim::scale::{self, Scenario};

use super::series::Series;

/// Plays whole engines of 100, 1,000 and 10,000 nodes, with `quick` of the first two: three series
/// of each scenario, and beside the storm that of the links alone.
pub(super) fn engines(quick: bool) -> Vec<Series> {
    let sizes: &[u32] = if quick { &[100, 1_000] } else { &[100, 1_000, 10_000] };
    let of = |scenario: Scenario| {
        let nodes = sizes.iter().copied().filter(|nodes| *nodes <= scenario.most_nodes());
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
    let alone = |nodes: &u32| [f64::from(*nodes), scale::play(Scenario::Storm, *nodes).time_us];
    let alone = sizes.iter().map(alone).collect();
    let alone = Series::ours("storm on links alone, µs", alone);
    jobs::SCENARIOS.into_iter().flat_map(of).chain([alone]).collect()
}

/// Plays window locks of up to 1,024 members.
pub(super) fn locks() -> Vec<Series> {
    const MEMBERS: [u32; 4] = [16, 64, 256, 1024];
    let of = |name: String, value: &dyn Fn(u32) -> f64| {
        Series::ours(name, MEMBERS.map(|members| [f64::from(members), value(members)]).into())
    };
    let migrations = MEMBERS.map(|members| locks::migration_among(members, 100));
    let migration = |name: &str, place: usize| {
        let points = MEMBERS.into_iter().zip(&migrations);
        let points = points.map(|(members, times)| [f64::from(members), times[place] / 1e3]);
        Series::ours(name, points.collect())
    };
    let mut all =
        vec![migration("migration, on the node", 0), migration("migration, between nodes", 1)];
    for design in [LockDesign::TwoSided, LockDesign::TestAndSet, LockDesign::Hybrid] {
        let ring = |members| locks::ring(design, members) / 1e3 / f64::from(members);
        all.push(of(format!("ring, {design}"), &ring));
        let crowds = MEMBERS.map(|members| locks::crowd(Costs::OF_2004, design, (members, 16)));
        let points = |place: usize, by: f64| {
            let points = MEMBERS.into_iter().zip(&crowds);
            points.map(|(members, costs)| [f64::from(members), costs[place] / by]).collect()
        };
        all.push(Series::ours(format!("crowd, {design}"), points(0, 1e3)));
        all.push(Series::ours(format!("crowd, {design}, messages"), points(1, 1.0)));
    }
    all
}
