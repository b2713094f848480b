//! Tests of `strait figures` and of the kernels that it measures.

use serde_json::Value;
use strait::Rendezvous;

use crate::program::strait;

/// Remakes figures in virtual time and by counters, which are the same on every machine.
#[test]
fn a_page_and_its_numbers_are_written() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let only = "--only=T1,4.4,4.9,6,17";
    let stdout = strait(&["figures", "--quick", only, "--out", path]).expect_success();
    assert!(stdout.contains("holds") && stdout.contains("index.html"), "{stdout}");
    let page = std::fs::read_to_string(out.path().join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("HybridLock09 figure 6"), "{page}");
    let numbers = std::fs::read_to_string(out.path().join("figures.json")).unwrap();
    let numbers: Value = serde_json::from_str(&numbers).unwrap();
    let verdict = |paper: &str, name: &str| {
        let figures = numbers["figures"].as_array().unwrap();
        let is_it = |figure: &&Value| figure["paper"] == paper && figure["figure"] == name;
        figures.iter().find(is_it).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("Nemesis07", "T1"), "holds_in_part");
    assert_eq!(verdict("OneSided04", "4.4"), "differs", "MCS has sharers");
    assert_eq!(verdict("OneSided04", "4.9"), "holds");
    assert_eq!(verdict("HybridLock09", "6"), "holds");
    assert_eq!(verdict("RdmaChannel04", "6"), "differs", "the baseline is faster");
    assert_eq!(verdict("RdmaChannel04", "17"), "not_remade");
}

/// Measures a figure by the clock, in a run of the bench.
#[test]
fn a_figure_by_the_clock_has_points() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let words = ["figures", "--quick", "--paper=Nemesis07", "--only=3a", "--out", path];
    strait(&words).expect_success();
    let numbers = std::fs::read_to_string(out.path().join("figures.json")).unwrap();
    let numbers: Value = serde_json::from_str(&numbers).unwrap();
    let figure = &numbers["figures"][0];
    assert_eq!(figure["failure"], Value::Null);
    let ours = figure["series"].as_array().unwrap().iter().find(|one| one["origin"] == "ours");
    assert_eq!(ours.unwrap()["points"].as_array().unwrap().len(), 3);
}

#[test]
fn unknown_figures_are_refused() {
    let ended = strait(&["figures", "--only=99z"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("99z"), "{}", ended.stderr);
    let ended = strait(&["figures", "--paper=Knuth68"]);
    assert!(ended.stderr.contains("docs/papers.md"), "{}", ended.stderr);
}

/// Runs kernels. The bench fails if a result is wrong.
fn run_kernels(kernels: &str, words: &[&str]) {
    let kernel = format!("--kernel={kernels}");
    let bench = ["bench", "npb", &kernel, "--samples=1", "--json"];
    let rows = strait(&[&bench[..], words].concat()).rows();
    for metric in ["time", "waits", "messages"] {
        let is_it = |row: &&Value| row["bench"] == "npb" && row["metric"] == metric;
        let found = rows.iter().filter(is_it).count();
        assert_eq!(found, kernels.split(',').count(), "{metric}: {rows:?}");
    }
}

/// Runs kernels between nodes over every ring design and setting of the rendezvous.
fn run_over_every_design_and_setting(kernels: &str) {
    for design in ["basic", "piggyback", "pipeline", "zero_copy", "rendezvous_write"] {
        run_kernels(kernels, &["--nodes=2", "--ring", design]);
    }
    for setting in ["plain", "speculative", "adaptive"] {
        run_kernels(kernels, &["--nodes=2", "--rendezvous", setting]);
    }
}

#[test]
fn sorts_and_multigrid_are_verified_over_every_design_and_setting() {
    run_over_every_design_and_setting("is,mg,radix");
}

#[test]
fn the_wavefront_is_verified_over_every_design_and_setting() {
    run_over_every_design_and_setting("lu");
}

#[test]
fn block_systems_are_verified_over_every_design_and_setting() {
    run_over_every_design_and_setting("bt");
}

/// Runs on the node, with more ranks than MG has parts.
#[test]
fn kernels_take_more_ranks() {
    run_kernels("is,mg,lu,radix", &["-n4"]);
}

#[test]
fn kernels_state_the_numbers_of_ranks_that_they_take() {
    run_kernels("radix", &["-n6"]);
    let ended = strait(&["bench", "npb", "--kernel=radix,is", "-n6"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("IS takes a power of two"), "{}", ended.stderr);
}

/// Compares the settings in one run. RADIX has messages that are announced.
#[test]
fn settings_are_compared_in_one_run() {
    let words = ["bench", "npb", "--kernel=radix", "--every-setting", "--nodes=2", "--samples=1"];
    let rows = strait(&[&words[..], &["--json"]].concat()).rows();
    for (what, setting) in
        ["run", "waits"].iter().flat_map(|what| Rendezvous::ALL.map(|setting| (what, setting)))
    {
        let variant = format!("RADIX.S, {what}, {}", setting.name());
        for metric in ["time", "ratio"] {
            let is_it = |row: &&Value| row["metric"] == metric && row["variant"] == variant[..];
            let expected = metric == "time" || setting != Rendezvous::Plain;
            assert_eq!(rows.iter().any(|row| is_it(&row)), expected, "{variant}: {rows:?}");
        }
    }
}
