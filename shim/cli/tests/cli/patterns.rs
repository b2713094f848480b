//! Tests of `strait bench patterns`: every pattern runs to its end, and its data arrive.
//!
//! A batch counts only if the bare line is the same before and after it, so no test asks for the
//! row of a pattern.

use crate::program::{LITTLE, bare_lines, strait};

/// Where the ranks are, and the groups.
const CASES: [[&str; 2]; 2] = [
    ["--nodes=1", "--group=ping-pong,requests,streams,cliff,incast,bandwidth,overlap,one-sided"],
    ["--nodes=2", "--group=ping-pong,requests,incast,overlap,one-sided"],
];

#[test]
fn every_pattern_runs_on_a_node_and_between_nodes() {
    for case in CASES {
        let least = ["--samples=2", "--iterations=1", "--seconds=0.01", "--json"];
        let ended = strait(&[&["bench", "patterns"], &case[..], &least[..]].concat());
        if !bare_lines() {
            assert_eq!(ended.code, Some(1));
            return;
        }
        let rows = ended.rows();
        for row in rows.iter().filter(|row| row["bench"] == "patterns") {
            let variant = row["variant"].as_str().unwrap();
            assert!(variant.ends_with(", near") || variant.ends_with(", far"), "{row}");
        }
    }
}

#[test]
fn more_ranks_have_an_incast() {
    if !bare_lines() {
        return;
    }
    let rows = strait(&[&["bench", "patterns", "-n4"], &LITTLE[..]].concat()).rows();
    for bytes in [8, 1024] {
        let is_it = |row: &&serde_json::Value| {
            row["variant"] == "incast, 3 senders"
                && row["metric"] == "time"
                && row["bytes"] == bytes
        };
        assert!(rows.iter().any(|row| is_it(&row)), "{rows:?}");
    }
    let refused = strait(&["bench", "patterns", "-n4", "--group=streams"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("the only group is incast"), "{}", refused.stderr);
}
