//! Figures that are counted: instructions, and the packets of the speculative rendezvous.

use core::error::Error;

use serde::Deserialize;
use strait_core::wire::StreamHead;

use super::clock::BenchRunner;
use super::data::BenchRun;
use super::series::Series;

/// The limits of `cargo xtask icount`.
const LIMITS: &str = include_str!("../../../../benches/icount.toml");

/// The calls of C that are compared with table 1 of `[Nemesis07]`.
const CALLS: [&str; 2] = ["C, send, 8 bytes, one way", "C, receive, 8 bytes, one way"];

/// The calls of Rust for the row of that table without the bypass of the posted-receive queue.
const CALLS_WITHOUT_BYPASS: [&str; 2] =
    ["send, 8 bytes, one way", "receive, 8 bytes, arrived, one way, no bypass"];

/// Bytes of a message of the patterns.
const MESSAGE_BYTES: f64 = 131_072.0;

/// The applications, with the messages of an iteration of both ranks.
const APPLICATIONS: [(&str, f64); 4] = [("CG", 2.0), ("BT", 2.0), ("LU", 2.0), ("RADIX", 8.0)];

#[derive(Deserialize)]
struct Limits {
    row: Vec<Limit>,
}

#[derive(Deserialize)]
struct Limit {
    label: String,
    limit: f64,
}

/// Returns the instructions of a send, of a receive and of both, with the bypass of the
/// posted-receive queue and without it.
///
/// # Errors
///
/// The file of limits has no such calls.
pub(super) fn instructions() -> Result<Vec<Series>, Box<dyn Error>> {
    let Limits { row } = toml::from_str(LIMITS)?;
    let limit = |label: &str| row.iter().find(|row| row.label == label).map(|row| row.limit);
    let series = |name, calls: [&'static str; 2]| -> Result<Series, Box<dyn Error>> {
        let [send, receive] = calls.map(limit);
        let (send, receive) = send.zip(receive).ok_or("benches/icount.toml lacks a call")?;
        Ok(Series::of_cases(name, &[send, receive, send + receive]))
    };
    Ok(vec![
        series("Strait, limit of the gate", CALLS)?,
        series("Strait, no bypass", CALLS_WITHOUT_BYPASS)?,
    ])
}

/// Returns the part of the messages' bytes that the speculative rendezvous adds, in percent, by
/// setting: RTRs that are dropped, and acknowledgements of those that are used.
///
/// # Errors
///
/// Those of [`BenchRunner::series`].
pub(super) fn volume(
    runner: &mut BenchRunner,
    run: &BenchRun,
) -> Result<Vec<Series>, Box<dyn Error>> {
    let counted = runner.series(run)?;
    let settings = ["speculative", "adaptive"];
    let of_setting = |setting: &str| {
        let at = |outcome: &str, x: f64| {
            counted.iter().find(|one| one.name == format!("{setting}, {outcome}"))?.at(x)
        };
        let cases = (0..).map(f64::from).zip(APPLICATIONS);
        let points = cases.filter_map(|(x, (_, messages))| {
            let extra = at("dropped", x)? + at("used", x)?;
            let bytes = extra * StreamHead::LENGTH as f64;
            Some([x, 100.0 * bytes / (messages * MESSAGE_BYTES)])
        });
        Series::ours(setting, points.collect())
    };
    Ok(settings.map(of_setting).into())
}
