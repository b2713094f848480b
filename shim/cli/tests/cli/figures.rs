//! Tests of `strait figures` and of the kernels that it measures.

use serde_json::Value;

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

/// Runs kernels over every ring design and setting of the rendezvous. The bench fails if a result
/// is not NPB's.
#[test]
fn kernels_are_verified_over_every_design_and_setting() {
    let between = |name: &str, value: &str| {
        let kernels = ["bench", "npb", "--kernel=is,mg", "--nodes=2", "--samples=1", "--json"];
        let rows = strait(&[&kernels[..], &[name, value]].concat()).rows();
        assert_eq!(rows.iter().filter(|row| row["bench"] == "npb").count(), 2, "{rows:?}");
    };
    for design in ["basic", "piggyback", "pipeline", "zero_copy", "rendezvous_write"] {
        between("--ring", design);
    }
    for setting in ["plain", "speculative", "adaptive"] {
        between("--rendezvous", setting);
    }
}

/// Runs on the node, with more ranks than MG has parts.
#[test]
fn kernels_take_more_ranks() {
    let words = ["bench", "npb", "--kernel=is,mg", "-n4", "--samples=1", "--json"];
    let rows = strait(&words).rows();
    assert_eq!(rows.iter().filter(|row| row["bench"] == "npb").count(), 2, "{rows:?}");
}
