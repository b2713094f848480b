//! `strait bench`: measurements of the transport, beside the bare hardware at the same moment.
//!
//! A bench is a type with the trait [`Benchmark`]. [`GROUPS`] is the table of all benches: each
//! becomes a subcommand, and the help lists them by group.

mod benchmark;
mod hardware;
mod npb;
mod options;
pub(crate) mod p2p;
mod patterns;
mod rdma;
mod rma;

use core::error::Error;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use strait::topology;

use crate::job;
use crate::measure::line;
use crate::measure::report::Report;
use crate::measure::stage::BenchStage;
use crate::table::{PIPED_WIDTH, TextTable};
use benchmark::{BenchEntry, BenchGroup, Benchmark};

/// All benches.
const GROUPS: [&BenchGroup; 6] =
    [&patterns::GROUP, &p2p::GROUP, &rma::GROUP, &rdma::GROUP, &npb::GROUP, &hardware::GROUP];

/// The help in one line, and in full.
const ABOUT: &str = "Measure the transport beside the bare hardware";
const LONG_ABOUT: &str = "Measure the transport beside the bare hardware

Ranks are bound to processors. The time of a bare cache line is measured before, after and, where \
there is a column `× line`, within every single sample.";

/// The listing of [`groups`] takes the place of clap's list of subcommands.
const HELP: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}";

/// One bench that the command line names.
#[derive(Debug)]
pub(crate) struct Bench(Box<dyn Benchmark>);

impl Bench {
    /// Starts the ranks, which then call [`Bench::run`].
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let Self(bench) = self;
        if bench.needs_two_processors() && topology::allowed_cpu_count() < 2 {
            return Err(line::ONE_PROCESSOR.into());
        }
        let words = std::env::args_os().skip(1);
        job::start(bench.segment(), bench.common().nodes, bench.environment(), words)
    }

    /// Runs the bench on each rank.
    pub(crate) fn run(&self, stage: &BenchStage<'_>) -> Result<(), Box<dyn Error>> {
        let Self(bench) = self;
        let mut report = Report::new(stage, bench.common().json, bench.steps(stage)?);
        bench.prepare(stage.endpoint.world());
        if !bench.needs_line() {
            bench.run(stage, &mut report)?;
            return Ok(report.finish_without_line()?);
        }
        let before = line::probe(stage)?;
        bench.run(stage, &mut report)?;
        let after = line::probe(stage)?;
        Ok(report.finish(before, after)?)
    }
}

impl Args for Bench {
    fn augment_args(command: Command) -> Command {
        let bench = |entry: &BenchEntry| (entry.describe)(Command::new(entry.name));
        command
            .about(ABOUT)
            .long_about(LONG_ABOUT)
            .subcommands(GROUPS.into_iter().flat_map(|group| group.benches).map(bench))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand_value_name("BENCH")
            .help_template(HELP)
            .before_help(groups())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Bench {
    fn from_arg_matches(words: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, words) = words.subcommand().ok_or_else(missing)?;
        let mut benches = GROUPS.into_iter().flat_map(|group| group.benches);
        let entry = benches.find(|entry| entry.name == name).ok_or_else(missing)?;
        (entry.parse)(words).map(Self)
    }

    fn update_from_arg_matches(&mut self, words: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(words)?;
        Ok(())
    }
}

/// Returns the groups and their benches, each with its description.
fn groups() -> String {
    let benches = || GROUPS.into_iter().flat_map(|group| group.benches);
    let longest = benches().map(|bench| bench.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for group in GROUPS {
        let mut table = TextTable::new();
        for bench in group.benches {
            let command = (bench.describe)(Command::new(bench.name));
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            table.line(vec![format!(" {:longest$}", bench.name), about]);
        }
        table.keep_first_column();
        text += &format!("{}: {}\n{}\n\n", group.name, group.about, table.text(PIPED_WIDTH));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_bench_has_a_name_of_its_own_and_a_description() {
        let benches = GROUPS.into_iter().flat_map(|group| group.benches);
        let benches: Vec<&BenchEntry> = benches.collect();
        let names: BTreeSet<&str> = benches.iter().map(|bench| bench.name).collect();
        assert_eq!(names.len(), benches.len());
        for bench in benches {
            let command = (bench.describe)(Command::new(bench.name));
            assert!(command.get_about().is_some(), "{}", bench.name);
        }
    }

    #[test]
    fn the_page_of_commands_has_every_bench_in_its_group() {
        let page = include_str!("../../../../docs/commands.md");
        let start = |group: &BenchGroup| format!("| {}: {} |", group.name, group.about);
        for (place, group) in GROUPS.into_iter().enumerate() {
            let (_, rest) = page.split_once(&start(group)).expect(group.name);
            let next = GROUPS.get(place + 1).map(|next| start(next));
            let part = next.and_then(|next| rest.split_once(&next)).map_or(rest, |(part, _)| part);
            for bench in group.benches {
                assert!(part.contains(&format!("`{}`", bench.name)), "{}", bench.name);
            }
        }
    }
}
