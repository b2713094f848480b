//! The command line of the driver.

use core::time::Duration;

use super::job::Plant;
use super::settings::{EXCLUSIONS, KNOWN};

pub(super) const USAGE: &str = "usage: chaos [--seconds N] [--deaths N] [--jobs N] [--seed S] \
    [--job SEED] [--ranks N] [--limit SECONDS] \
    [--without NAME]... [--with NAME]... [--plant FAULT]";

/// The options of the caller.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Seed from which the seeds of all jobs are derived.
    pub(super) seed: u64,
    /// Seed of the job to repeat.
    pub(super) job: Option<u64>,
    pub(super) ranks: Option<u32>,
    /// Time after which the driver ends, at the end of a job.
    pub(super) time: Option<Duration>,
    /// Number of deaths after which the driver ends.
    pub(super) deaths: Option<u64>,
    /// Number of jobs after which the driver ends.
    pub(super) jobs: Option<u64>,
    /// Time after which a job counts as stuck.
    pub(super) limit: Duration,
    pub(super) excluded: Vec<String>,
    pub(super) plant: Option<Plant>,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// Returns the first invalid argument.
    pub(super) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seed: fastrand::u64(..),
            job: None,
            ranks: None,
            time: None,
            deaths: None,
            jobs: None,
            limit: Duration::from_secs(60),
            excluded: KNOWN.map(str::to_owned).to_vec(),
            plant: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            let number =
                || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
            let known = || match EXCLUSIONS.iter().any(|(known, _)| *known == value) {
                true => Ok(value.clone()),
                false => Err(format!("{name} {value}: the names are {EXCLUSIONS:?}")),
            };
            match name.as_str() {
                "--seconds" => options.time = Some(Duration::from_secs(number()?)),
                "--deaths" => options.deaths = Some(number()?),
                "--jobs" => options.jobs = Some(number()?),
                "--seed" => options.seed = number()?,
                "--job" => options.job = Some(number()?),
                "--limit" => options.limit = Duration::from_secs(number()?),
                "--ranks" => {
                    let ranks = number()?;
                    if !(2..=super::board::RANKS as u64).contains(&ranks) {
                        return Err(format!("{ranks} ranks: from 2 to {}", super::board::RANKS));
                    }
                    options.ranks = Some(ranks as u32);
                }
                "--without" => options.excluded.push(known()?),
                "--with" => {
                    let known = known()?;
                    options.excluded.retain(|name| *name != known);
                }
                "--plant" => {
                    options.plant =
                        Some(Plant::parse(&value).ok_or(format!("unknown fault {value}"))?);
                }
                _ => return Err(format!("unknown option {name}")),
            }
        }
        options.excluded.sort();
        options.excluded.dedup();
        if options.time.is_none() && options.deaths.is_none() && options.jobs.is_none() {
            options.time = Some(Duration::from_secs(60));
        }
        Ok(options)
    }
}
