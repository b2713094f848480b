//! Tests of `strait bench` for windows: one-sided operations, and locks.

use std::collections::BTreeSet;

use serde_json::Value;
use strait::LockDesign;

use crate::program::{LITTLE, bare_lines, has, strait};

#[test]
fn one_sided_operations_are_compared_with_bare_ones() {
    // Rows of a pair, of both directions and blocks, and of one to three origins.
    for (bench, sizes) in [("put", 2 + 6 + 3), ("get", 2), ("accumulate", 4 + 3)] {
        for memory in ["segment", "private"] {
            let memory = format!("--memory={memory}");
            let arguments = ["bench", bench, "-n4", "--bytes=40K", &memory];
            let rows = strait(&[&arguments, &LITTLE[..]].concat()).rows();
            let times = rows.iter().filter(|row| row["metric"] == "time").count();
            assert_eq!(times, sizes, "{rows:?}");
            assert!(has(&rows, bench, "time", 8) && has(&rows, bench, "time", 40_960), "{rows:?}");
            assert_eq!(has(&rows, bench, "swap", 8), bare_lines(), "{rows:?}");
            assert_eq!(has(&rows, bench, "memcpy", 40_960), memory.ends_with("segment"));
        }
    }
    let rows = strait(&[&["bench", "sync"], &LITTLE[..]].concat()).rows();
    assert_eq!(rows.iter().filter(|row| row["metric"] == "time").count(), 4, "{rows:?}");
    assert_eq!(has(&rows, "sync", "ratio", 0), bare_lines(), "{rows:?}");
}

#[test]
fn one_sided_operations_between_nodes_stand_beside_messages() {
    for (bench, ranks, times) in
        [("put", 2, 3 + 1 + 6 + 5), ("get", 2, 3 + 1), ("accumulate", 2, 1 + 2), ("sync", 4, 4 + 6)]
    {
        let number = format!("-n{ranks}");
        let arguments = ["bench", bench, "--nodes=2", &number];
        let size: &[_] = if bench == "sync" { &[] } else { &["--bytes=4K"] };
        let rows = strait(&[&arguments, size, &LITTLE[..]].concat()).rows();
        let found = rows.iter().filter(|row| row["metric"] == "time").count();
        assert_eq!(found, times, "{rows:?}");
        assert!(rows.iter().any(|row| row["metric"] == "send_recv"), "{rows:?}");
        assert_eq!(rows.iter().any(|row| row["metric"] == "lock"), bench == "accumulate");
    }
}

/// Returns the rows of `strait bench lock` for each design with four ranks, by the place of the
/// locks.
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
                // The paper's one figure with several windows.
                let is_left_out =
                    design == LockDesign::ThreadPerWindow && !case.starts_with("contention");
                let variant = format!("{case}, {design}");
                let count = usize::from(!is_left_out);
                assert_eq!(found(&variant, metric), count, "{variant}, {metric}: {rows:?}");
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
