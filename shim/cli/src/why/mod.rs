//! `strait why`: which rank of a job waits for which, and why the job does not go on.
//!
//! The ranks do not take part: what they wait for is in their segment, and other processes of the
//! same user may read it. So this works on ranks that wait, compute, are stopped, or were killed.

mod clues;
pub(crate) mod graph;
mod hosts;
mod merge;
mod report;
pub(crate) mod view;

use core::error::Error;
use core::time::Duration;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use strait::observe::{self, ObservedJob};

use crate::output::{complain, say};
use hosts::HostOptions;
use merge::MergedJob;
pub(crate) use report::text;
use view::JobView;

/// Show which rank waits for which, in the jobs of this user on this host
#[derive(Args, Debug)]
pub(crate) struct Why {
    /// Look at this job alone (an id that this command prints)
    #[arg(long, value_parser = parse_id)]
    job: Option<u64>,
    /// Look at the job of this process alone
    #[arg(long, conflicts_with = "job")]
    pid: Option<u32>,
    /// Time between the two looks at each rank, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    interval: u64,
    /// Number of pairs of looks. With more than one, the command ends when a job is stuck
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    looks: u32,
    /// Judge the reports that this command has printed on several hosts with --json
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["job", "pid", "dot"])]
    merge: Vec<PathBuf>,
    #[command(flatten)]
    hosts: HostOptions,
    /// Print one JSON object for each job
    #[arg(long, conflicts_with = "dot")]
    json: bool,
    /// Print the graph of waits for Graphviz
    #[arg(long)]
    dot: bool,
}

pub(crate) fn parse_id(word: &str) -> Result<u64, core::num::ParseIntError> {
    u64::from_str_radix(word, 16)
}

impl Why {
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        if !self.merge.is_empty() {
            return self.say_merged(&merge::merge(merge::read(&self.merge)?, &[]));
        }
        if !self.hosts.is_empty() {
            return self.ask_hosts();
        }
        let jobs = self.jobs();
        if jobs.is_empty() {
            complain(self.absence());
            return Ok(ExitCode::FAILURE);
        }
        for view in self.judge(&jobs) {
            if self.json {
                say(&serde_json::to_string(&report::json(&view))?)?;
            } else if self.dot {
                say(&report::dot(&view))?;
            } else {
                say(&report::text(&view))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Judges the jobs of several hosts, as the program on each of them reports them.
    fn ask_hosts(&self) -> Result<ExitCode, Box<dyn Error>> {
        let (interval, looks) = (self.interval, self.looks);
        let mut words = vec![format!("--interval={interval}"), format!("--looks={looks}")];
        words.extend(self.job.map(|id| format!("--job={id:x}")));
        let duration = Duration::from_millis(interval).saturating_mul(looks);
        let (reports, silent) = self.hosts.ask(&words, duration)?;
        if reports.is_empty() {
            silent.iter().for_each(complain);
            return Ok(ExitCode::FAILURE);
        }
        self.say_merged(&merge::merge(reports, &silent))
    }

    fn say_merged(&self, jobs: &[MergedJob]) -> Result<ExitCode, Box<dyn Error>> {
        for job in jobs {
            let text = if self.json { job.json().to_string() } else { job.text() };
            say(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Judges each job by pairs of looks, until one is stuck or all looks are used up. Returns the
    /// last judgement about each job.
    fn judge(&self, jobs: &[ObservedJob]) -> Vec<JobView> {
        let look = || jobs.iter().map(ObservedJob::look).collect::<Vec<_>>();
        // With more than one pair, looks overlap: each is compared with the fourth one before it.
        let apart = if self.looks > 1 { 4 } else { 1 };
        let pause = Duration::from_millis(self.interval) / apart;
        let mut looks = VecDeque::from([look()]);
        let mut left = self.looks;
        loop {
            thread::sleep(pause);
            looks.push_back(look());
            if looks.len() <= apart as usize {
                continue;
            }
            let (Some(first), Some(last)) = (looks.pop_front(), looks.back()) else { continue };
            let seen = jobs.iter().zip(first.iter().zip(last));
            let views: Vec<JobView> =
                seen.map(|(job, (first, last))| JobView::new(job, first, last)).collect();
            left -= 1;
            if left == 0 || views.iter().any(JobView::is_stuck) {
                return views;
            }
        }
    }

    fn jobs(&self) -> Vec<ObservedJob> {
        match (self.job, self.pid) {
            (_, Some(pid)) => observe::job_of(pid).into_iter().collect(),
            (Some(id), None) => observe::jobs().into_iter().filter(|job| job.id() == id).collect(),
            (None, None) => observe::jobs(),
        }
    }

    /// Says why there is no job to look at.
    fn absence(&self) -> String {
        let reason = "a user sees the jobs of its own processes on this host, made by the same \
                      version of Strait";
        match (self.job, self.pid) {
            (Some(id), _) => format!("no job {id:x} is running here: {reason}"),
            (_, Some(pid)) => match observe::refusals(pid).first() {
                Some(refusal) => format!("the segment of process {pid} cannot be read: {refusal}"),
                None => format!("process {pid} belongs to no job of Strait: {reason}"),
            },
            (None, None) => format!("no job of Strait is running here: {reason}"),
        }
    }
}
