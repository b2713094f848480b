//! A bench, as the command `strait bench` sees it, and its entry in the table of its group.

use core::error::Error;
use core::fmt;
use std::ffi::OsString;

use clap::{ArgMatches, Args, Command};
use strait::World;
use strait::boot::SegmentConfig;

use super::options::Common;
use crate::measure::report::Report;
use crate::measure::stage::BenchStage;

/// One bench with the options of its command line.
pub(crate) trait Benchmark: fmt::Debug {
    /// Returns the options that every bench has.
    fn common(&self) -> Common;

    /// Returns the shape of the job's segments.
    fn segment(&self) -> SegmentConfig {
        SegmentConfig::new(self.common().ranks)
    }

    /// Returns variables of the ranks' environment besides the launcher's.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Returns whether the ranks of a pair need a processor each.
    fn needs_two_processors(&self) -> bool {
        false
    }

    /// Returns whether the bare cache line is measured before and after.
    fn needs_line(&self) -> bool {
        true
    }

    /// Prepares a rank before its first measurement.
    fn prepare(&self, _world: &World) {}

    /// Returns the number of measurements, for the progress bar.
    fn steps(&self, stage: &BenchStage<'_>) -> Result<usize, Box<dyn Error>>;

    /// Takes the measurements on each rank. Every rank calls it.
    fn run(&self, stage: &BenchStage<'_>, report: &mut Report) -> Result<(), Box<dyn Error>>;
}

/// One bench in the table of its group: its name, and the parser of its options.
pub(super) struct BenchEntry {
    pub(super) name: &'static str,
    /// Adds description and options to a command.
    pub(super) describe: fn(Command) -> Command,
    pub(super) parse: fn(&ArgMatches) -> Result<Box<dyn Benchmark>, clap::Error>,
}

/// Returns the entry of a bench. The documentation of its type is its description.
pub(super) const fn entry<B: Benchmark + Args + 'static>(name: &'static str) -> BenchEntry {
    let parse = |words: &ArgMatches| -> Result<Box<dyn Benchmark>, clap::Error> {
        Ok(Box::new(B::from_arg_matches(words)?))
    };
    BenchEntry { name, describe: B::augment_args, parse }
}

/// Benches of one kind.
pub(super) struct BenchGroup {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) benches: &'static [BenchEntry],
}
