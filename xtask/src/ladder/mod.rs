//! `cargo xtask test`: runs every rung.
//!
//! Two rungs run at a time, one of each [`Lane`](rungs::Lane). Each is a process of its own,
//! `cargo xtask RUNG`, so that its processor time is known and its output stays together. What the
//! rungs download is fetched meanwhile. A rung that hangs is [killed](watch::watch), and the ladder
//! goes on.

mod climb;
mod descendants;
mod lanes;
mod outcome;
mod report;
mod rungs;
mod watch;

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) use climb::{absences, answer};

use crate::setup;
use crate::shell::Shell;
use crate::stop::{Absence, Stop};
use outcome::Climbed;
use rungs::{QUICK, RUNGS, Rung};

/// Time limit of the whole ladder in minutes, unless the caller gives another. Two rungs run at a
/// time, so it is reached by several that hang, or on a machine that is busy otherwise.
pub(crate) const MINUTES: u16 = 86;

/// Runs `cargo xtask test`. Goes on after a failed rung, so that one run shows everything. After
/// this many `minutes` the rungs that run are killed, and no other begins.
pub(crate) fn run(shell: &Shell, quick: bool, minutes: u16) -> Result<(), Stop> {
    let start = Instant::now();
    let deadline = start + Duration::from_secs(60 * u64::from(minutes));
    // `setup` has already reported tools that cannot be installed. Each rung that needs one reports
    // it again by name.
    if !quick {
        let _ = setup::run(shell);
    }
    let folder = folder(shell)?;
    outcome::write(&folder.join(climb::ABSENT), &*shell.absent())?;
    let rungs: &[Rung] = if quick { &QUICK } else { &RUNGS };
    let climb = |rung: &Rung| climb::climb(shell, &folder, rung, deadline);
    let climbed = lanes::run(rungs, &climb, &|| climb::fetch(shell, &folder, deadline));
    let strict = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    print!("{}{}", report::failures(&climbed), report::table(&climbed, start.elapsed()));
    verdict(&climbed, strict)
}

/// Returns the folder of the rungs' outputs, which it creates if need be.
fn folder(shell: &Shell) -> Result<PathBuf, Stop> {
    let folder = shell.target().join("ladder");
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    Ok(folder)
}

/// Fails if a rung failed. In continuous integration (`strict`) it also fails if a rung was not run
/// for want of a tool that can be installed: an unattended run must not pass because a tool is
/// missing.
fn verdict(climbed: &[Climbed], strict: bool) -> Result<(), Stop> {
    let failed = report::reasons(climbed);
    if !failed.is_empty() {
        return Err(Stop::Failed(format!("failed: {failed}")));
    }
    let remediable = |stop: &Stop| matches!(stop, Stop::NotRun(Absence { remedy: Some(_), .. }));
    let is_owed = |rung: &&Climbed| rung.result.as_ref().is_err_and(remediable);
    let owed: Vec<_> = climbed.iter().filter(is_owed).map(|rung| rung.name).collect();
    if strict && !owed.is_empty() {
        return Err(Stop::Failed(format!(
            "not run, which CI counts as a failure: {}",
            owed.join(", ")
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    fn climbed(result: Result<(), Stop>) -> Climbed {
        Climbed { result, ..Climbed::new("loom") }
    }

    fn not_run(remedy: Option<&str>) -> Result<(), Stop> {
        let remedy = remedy.map(str::to_owned);
        Err(Stop::NotRun(Absence { what: "miri is missing".into(), remedy }))
    }

    #[test]
    fn a_failed_rung_fails_the_ladder() {
        let rungs = [climbed(Ok(())), climbed(Err(Stop::Failed("one\ntwo".into())))];
        assert_eq!(verdict(&rungs, false), Err(Stop::Failed("failed: loom (one two)".into())));
        assert_eq!(verdict(&rungs[..1], true), Ok(()));
    }

    #[test]
    fn a_missing_tool_fails_only_in_ci_and_if_it_can_be_installed() {
        let owed = [climbed(not_run(Some("install it")))];
        assert_eq!(verdict(&owed, false), Ok(()));
        assert!(verdict(&owed, true).is_err());
        assert_eq!(verdict(&[climbed(not_run(None))], true), Ok(()));
    }

    #[test]
    fn every_rung_is_a_command_and_described() {
        let commands = crate::Arguments::command();
        let page = include_str!("../../../docs/testing.md");
        for rung in RUNGS.iter().chain(&QUICK) {
            assert!(commands.find_subcommand(rung.name).is_some(), "{}", rung.name);
            let row = format!("| {0} | `cargo xtask {0}` |", rung.name);
            assert!(page.contains(&row), "docs/testing.md lacks {row}");
        }
        let names: BTreeSet<&str> = RUNGS.iter().map(|rung| rung.name).collect();
        assert_eq!(names.len(), RUNGS.len());
    }
}
