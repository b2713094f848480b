//! Tests of `strait bench` for the rendezvous.

use std::process::Command;

use serde_json::Value;
use strait::Rendezvous;

use crate::program::{bare_lines, run};

const ON_NODE: (&str, &str) = ("--nodes=1", "shm");
const BETWEEN_NODES: (&str, &str) = ("--nodes=2", "soft-engine");

/// Runs a bench with every setting. It detects missing rows, wrong data and ranks that wait for
/// ever. It takes one sample of each, however long that takes.
fn rendezvous_bench(bench: &str, places: &[(&str, &str)], cases: &[&str], metrics: &[&str]) {
    for &(nodes, transport) in places {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.args(["bench", bench, nodes, "--bytes=40K", "--iterations=2", "--json"]);
        // The limit also shortens the computations.
        command.args(["--samples=1", "--seconds=0.001"]);
        command.env_remove("STRAIT_HCA").env_remove("STRAIT_LMT");
        let ended = run(&mut command);
        if !bare_lines() {
            assert_eq!(ended.code, Some(1));
            assert!(ended.stderr.starts_with("strait: this bench needs two processors"));
            return;
        }
        let rows = ended.rows();
        let bare = (bench == "overlap" && transport != ON_NODE.1).then_some("bare device");
        let settings: Vec<_> =
            Rendezvous::ALL.map(Rendezvous::name).into_iter().chain(bare).collect();
        for (case, setting) in
            cases.iter().flat_map(|case| settings.iter().map(move |setting| (case, *setting)))
        {
            let variant = format!("{case}, {setting}");
            for metric in metrics {
                let is_it = |row: &Value| {
                    (&row["bench"], &row["metric"]) == (&bench.into(), &(*metric).into())
                        && (&row["variant"], &row["transport"])
                            == (&variant[..].into(), &transport.into())
                };
                let found = rows.iter().filter(|row| is_it(row)).count();
                let expected = usize::from(is_of_plain(metric) || setting != "plain");
                assert_eq!(found, expected, "{variant}, {metric}: {rows:?}");
            }
        }
    }
}

/// Returns whether the plain rendezvous has a row of this metric. It is the reference, and sends no
/// RTR.
fn is_of_plain(metric: &str) -> bool {
    !["ratio", "sent", "heard", "used", "dropped"].contains(&metric)
}

const BOTH: [(&str, &str); 2] = [ON_NODE, BETWEEN_NODES];

const ROLES: [&str; 4] = [
    "receiver computes, sender first",
    "receiver computes, receiver first",
    "sender computes, sender first",
    "sender computes, receiver first",
];

#[test]
fn overlap_has_both_sides_and_both_orders() {
    rendezvous_bench("overlap", &BOTH, &ROLES, &["time", "overlap", "stolen"]);
}

#[test]
fn progress_has_each_amount_of_computation() {
    let cases: Vec<String> = ["0", "0.5", "1", "1.5", "2", "3"]
        .iter()
        .flat_map(|part| ROLES.map(|roles| format!("{roles}, {part} of its time")))
        .collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    rendezvous_bench("progress", &[ON_NODE], &cases, &["time", "left"]);
}

#[test]
fn exchange_has_each_model_and_ratio() {
    let cases: Vec<String> = ["no computation", "4", "2", "1", "0.8", "0.5", "0.2"]
        .iter()
        .flat_map(|ratio| ["model 1", "model 2", "halo"].map(|model| format!("{model}, {ratio}")))
        .collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    rendezvous_bench("exchange", &[ON_NODE], &cases, &["time", "ratio", "sent", "used"]);
}

#[test]
fn kernels_have_their_waits() {
    let cases: Vec<String> = ["CG", "BT", "LU", "RADIX"]
        .iter()
        .flat_map(|kernel| ["iteration", "waits"].map(|what| format!("{kernel}, {what}")))
        .collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    rendezvous_bench("kernels", &BOTH, &cases, &["time", "ratio"]);
}

#[test]
fn overhead_has_messages_that_cross() {
    rendezvous_bench(
        "overhead",
        &[BETWEEN_NODES],
        &["there and back", "crossing"],
        &["time", "ratio"],
    );
}
