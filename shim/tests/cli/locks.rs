//! `strait bench lock`.

use std::collections::BTreeSet;

use serde_json::Value;
use strait::LockDesign;

use super::{LITTLE, strait};

/// What `strait bench lock` has of each design with four ranks, in the places where their locks are.
fn cases_of_locks(places: &[&str]) -> Vec<(String, &'static str)> {
    let mut cases = Vec::new();
    let mut add = |case: String, metrics: &[&'static str]| {
        cases.extend(metrics.iter().map(|metric| (case.clone(), *metric)));
    };
    for place in places {
        for case in ["lock and unlock", "acquire", "release"] {
            add(format!("overhead: {case} {place}"), &["time"]);
        }
        for amount in ["0.0 ns", "10.00 µs", "100 µs", "1.00 ms"] {
            add(format!("target computes: {amount} {place}"), &["time"]);
        }
        for threads in [0, 1, 2, 4] {
            add(format!("computing threads: {threads} {place}"), &["time"]);
        }
    }
    add("overhead: lock and unlock on the node".into(), &["atomics", "ratio"]);
    let last = places.last().unwrap();
    add(format!("delay: from release to acquisition {last}"), &["time"]);
    for case in ["pairs", "neighbours", "windows of 1", "windows of 2", "windows of 3"] {
        add(format!("contention: {case}"), &["time"]);
    }
    for origins in 1..4 {
        let metrics = ["time", "accesses", "requests"];
        add(format!("contention: one lock of {origins}"), &metrics);
    }
    add("ring: once round, all compute 1.00 ms".into(), &["time"]);
    add("tasks: lock, put and unlock of 4 ranks".into(), &["time"]);
    cases
}

#[test]
fn locks_have_every_figure_in_each_design() {
    for (nodes, places) in [(1, &["on the node"][..]), (2, &["on the node", "between nodes"])] {
        let number = format!("--nodes={nodes}");
        let few = ["bench", "lock", "-n4", &number, "--samples=1", "--iterations=2", "--json"];
        let rows = strait(&few).rows();
        let found = |variant: &str, metric: &str| {
            let is_it = |row: &&Value| {
                row["bench"] == "lock" && row["variant"] == variant && row["metric"] == metric
            };
            rows.iter().filter(is_it).count()
        };
        for design in LockDesign::ALL {
            for (case, metric) in cases_of_locks(places) {
                let variant = format!("{case}, {design}");
                assert_eq!(found(&variant, metric), 1, "{variant}, {metric}: {rows:?}");
            }
            let migrates = nodes == 2 && design == LockDesign::Hybrid;
            for percent in [1, 5, 10, 25, 50, 100] {
                for place in ["on the node", "between nodes"] {
                    let variant = format!("migration: {percent} %, {place}, {design}");
                    assert_eq!(found(&variant, "time"), usize::from(migrates), "{variant}");
                }
            }
        }
    }
    let one = [&["bench", "lock", "--design=mcs,hybrid"], &LITTLE[..]].concat();
    let designs: BTreeSet<String> = strait(&one)
        .rows()
        .iter()
        .filter(|row| row["bench"] == "lock")
        .map(|row| row["variant"].as_str().unwrap().rsplit(", ").next().unwrap().to_owned())
        .collect();
    assert_eq!(designs, ["hybrid", "mcs"].map(str::to_owned).into());
    strait(&["bench", "lock", "--design=none"]).expect_usage_error("expected two_sided, thread");
}
