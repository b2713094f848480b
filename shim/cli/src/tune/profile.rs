//! The rendezvous profile of a program's run (`[SpecRndv09]` §3.6, static adaptation), and the
//! setting with which later runs gain.

use core::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, io};

use serde::Serialize;
use strait::Rendezvous;
use strait::profile::{EnvelopeProfile, EnvelopeSide, JobProfile};

use crate::output::{complain, say};
use crate::table::{self, TextTable};

/// Maximum number of envelopes that a table shows. The JSON output has all.
const SHOWN: usize = 20;

/// The setting with which later runs of a program gain most, by its profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Advice {
    /// No receive asked for a message, so that no setting makes a difference.
    Nothing,
    /// No envelope gains: never speculate, as the paper does for such an application.
    Plain,
    /// Some envelopes gain: follow the profile.
    Follow,
}

impl Advice {
    fn of(profile: &JobProfile) -> Self {
        let mut speculations = profile.envelopes().map(|(_, envelope)| envelope.speculates());
        match speculations.next() {
            None => Self::Nothing,
            Some(first) if first || speculations.any(|speculates| speculates) => Self::Follow,
            Some(_) => Self::Plain,
        }
    }

    /// Returns the variable and its value, if there is one to set.
    fn setting(self, directory: &Path) -> Option<(&'static str, String)> {
        match self {
            Self::Nothing => None,
            Self::Plain => Some(("STRAIT_RENDEZVOUS", Rendezvous::Plain.name().to_owned())),
            Self::Follow => {
                Some(("STRAIT_RENDEZVOUS_PROFILE", directory.to_string_lossy().into_owned()))
            }
        }
    }
}

/// One envelope of a profile, for programs.
#[derive(Serialize)]
struct EnvelopeRow {
    tune: &'static str,
    rank: u32,
    side: &'static str,
    peer: u32,
    context: u32,
    tag: u32,
    rtrs: u64,
    used: u64,
    speculates: bool,
}

/// The setting for programs. It is `null` where no setting makes a difference.
#[derive(Serialize)]
struct SettingRow {
    tune: &'static str,
    variable: Option<&'static str>,
    choice: Option<String>,
}

/// Runs `command`, has its ranks write their profiles into `directory`, and prints the setting for
/// later runs. Ends with the exit code of the command, if that fails.
pub(super) fn record(
    directory: &Path,
    command: &[OsString],
    json: bool,
) -> Result<ExitCode, Box<dyn Error>> {
    let directory = prepare(directory)
        .map_err(|error| format!("cannot write a profile into {}: {error}", directory.display()))?;
    // The command line has at least one word.
    let (program, arguments) = command.split_first().ok_or("no command to run")?;
    let mut process = Command::new(program);
    // All RTRs of the run count, so nothing may stop them before its end.
    process
        .args(arguments)
        .env("STRAIT_RENDEZVOUS", Rendezvous::Speculative.name())
        .env("STRAIT_RENDEZVOUS_PROFILE_OUT", &directory)
        .env_remove("STRAIT_RENDEZVOUS_PROFILE");
    if json {
        // Standard output has nothing but JSON.
        process.stdout(io::stderr());
    }
    let status = process
        .status()
        .map_err(|error| format!("cannot run {}: {error}", program.to_string_lossy()))?;
    if !status.success() {
        complain(format!("no profile, since the command failed: {status}"));
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    report(&directory, &JobProfile::read(&directory)?, json)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the directory, without the profile of an earlier run. Returns its absolute path: ranks may
/// work in other directories.
fn prepare(directory: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    JobProfile::remove(directory)?;
    fs::canonicalize(directory)
}

fn report(directory: &Path, profile: &JobProfile, json: bool) -> Result<(), Box<dyn Error>> {
    let mut envelopes: Vec<_> = profile.envelopes().map(|(rank, it)| (rank, *it)).collect();
    envelopes.sort_by_key(|&(rank, EnvelopeProfile { rtrs, .. })| (core::cmp::Reverse(rtrs), rank));
    let setting = Advice::of(profile).setting(directory);
    if json {
        for &(rank, envelope) in &envelopes {
            say(&serde_json::to_string(&row_of(rank, envelope))?)?;
        }
        let (variable, choice) = setting.unzip();
        let row = SettingRow { tune: "rendezvous_profile", variable, choice };
        return Ok(say(&serde_json::to_string(&row)?)?);
    }
    if !envelopes.is_empty() {
        say(&table_of(&envelopes).text(table::reader_width()))?;
        say(&summary(&envelopes))?;
    }
    Ok(say(&match setting {
        Some((variable, value)) => format!("export {variable}={value}"),
        None => "no receive asked for a large message: no setting makes a difference".to_owned(),
    })?)
}

fn row_of(rank: u32, envelope: EnvelopeProfile) -> EnvelopeRow {
    let EnvelopeProfile { side, peer, context, tag, rtrs, used } = envelope;
    EnvelopeRow {
        tune: "envelope",
        rank,
        side: side.name(),
        peer,
        context,
        tag,
        rtrs,
        used,
        speculates: envelope.speculates(),
    }
}

fn table_of(envelopes: &[(u32, EnvelopeProfile)]) -> TextTable {
    let mut table = TextTable::new();
    table.columns(&["rank", "side", "peer", "context", "tag", "RTRs", "used", "later runs"]);
    for (rank, envelope) in &envelopes[..envelopes.len().min(SHOWN)] {
        let EnvelopeProfile { side, peer, context, tag, rtrs, used } = envelope;
        let later = if envelope.speculates() { "ask" } else { "never ask" };
        let numbers = [peer, context, tag].map(u32::to_string);
        let mut cells = vec![rank.to_string(), side.name().to_owned()];
        cells.extend(numbers);
        cells.extend([rtrs.to_string(), used.to_string(), later.to_owned()]);
        table.line(cells);
    }
    table
}

/// Returns a line about all envelopes, by their receivers.
fn summary(envelopes: &[(u32, EnvelopeProfile)]) -> String {
    let received = || envelopes.iter().filter(|(_, it)| it.side == EnvelopeSide::Receiver);
    let total = |count: fn(&EnvelopeProfile) -> u64| -> u64 {
        received().fold(0, |sum, (_, it)| sum.saturating_add(count(it)))
    };
    let (rtrs, used) = (total(|it| it.rtrs), total(|it| it.used));
    let gaining = received().filter(|(_, it)| it.speculates()).count();
    let hidden = envelopes.len().saturating_sub(SHOWN);
    let more = if hidden == 0 { String::new() } else { format!("{hidden} lines more; ") };
    format!(
        "\n{more}{gaining} of {} envelopes gain; {used} of {rtrs} RTRs used",
        received().count()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the profile of two ranks with these envelopes of rank 1.
    fn profile(envelopes: &[&str]) -> JobProfile {
        let directory = tempfile::tempdir().unwrap();
        for (rank, lines) in ["", &envelopes.join("\n")].into_iter().enumerate() {
            let text = format!("strait rendezvous profile 1: rank {rank} of 2\n{lines}");
            fs::write(directory.path().join(format!("rank.{rank}")), text).unwrap();
        }
        JobProfile::read(directory.path()).unwrap()
    }

    #[test]
    fn one_envelope_that_gains_is_enough_to_follow_a_profile() {
        let (gains, wastes) = ("receiver 0 0 1 10 8", "receiver 0 0 2 10 7");
        for (envelopes, advice) in [
            (&[][..], Advice::Nothing),
            (&[wastes], Advice::Plain),
            (&[gains], Advice::Follow),
            (&[wastes, gains], Advice::Follow),
            (&[gains, wastes], Advice::Follow),
            (&[wastes, "sender 0 0 2 10 7", "sender 0 0 3 1 0"], Advice::Plain),
        ] {
            assert_eq!(Advice::of(&profile(envelopes)), advice, "{envelopes:?}");
        }
    }

    #[test]
    fn a_new_profile_replaces_the_old_one_and_no_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, text) in [
            ("rank.0", "strait rendezvous profile 1: rank 0 of 8"),
            ("rank.7", "strait rendezvous profile 1: rank 7 of 8"),
            ("rank.8", "the user's own text"),
            ("notes", "strait rendezvous profile 1: rank 9 of 8"),
        ] {
            fs::write(path(name), text).unwrap();
        }
        let prepared = prepare(directory.path()).unwrap();
        assert!(prepared.is_absolute());
        let left = ["rank.0", "rank.7", "rank.8", "notes"].map(|name| path(name).exists());
        assert_eq!(left, [false, false, true, true]);
        // A directory that does not exist is made.
        assert!(prepare(&path("new/one")).unwrap().is_dir());
    }
}
