//! `strait top`: what the ranks of a job do, and how much they send by which way.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use console::Term;
use serde_json::{Value, json};
use strait::observe::{self, ObservedJob, ObservedRank, PairCounts, look_at_threads, monotonic_ns};

use crate::output::{complain, say};
use crate::table::{TextTable, reader_width};
use crate::why::graph::Activity;
use crate::why::view::activity;

/// Show what the ranks of this user's jobs on this host do, and their rates by way and peer
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Look at this job alone (an id that strait why prints)
    #[arg(long, value_parser = crate::why::parse_id)]
    job: Option<u64>,
    /// Look at the job of this process alone
    #[arg(long, conflicts_with = "job")]
    pid: Option<u32>,
    /// Time between two looks, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Print one table and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each job
    #[arg(long)]
    json: bool,
}

/// Clock ticks in a second, the unit of processor times on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A look at a job.
#[derive(Debug)]
struct JobSample {
    time_ns: u64,
    ranks: Vec<RankSample>,
}

/// A look at a rank.
#[derive(Debug)]
struct RankSample {
    seen: ObservedRank,
    ticks: u64,
    /// Packets to each rank on the node, and the other counters about it.
    to: Vec<(u64, PairCounts)>,
}

/// What a rank did between two looks.
#[derive(Debug)]
struct RankRates {
    rank: u32,
    pid: u32,
    state: &'static str,
    wait: String,
    /// Share of one processor.
    cpu: f64,
    /// Packets in a second through lines and parcels.
    short: f64,
    /// Packets in a second through cells.
    cells: f64,
    /// Large messages in a second.
    transfers: f64,
    /// Bytes of large messages in a second.
    transfer_bytes: f64,
    /// Messages that no receive has taken, and the memory that they use in bytes.
    unexpected: (u32, u64),
    /// Packets in a second to each peer that got some.
    peers: Vec<(u32, f64)>,
}

impl Top {
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let pause = Duration::from_millis(self.interval);
        let mut before: Vec<(u64, JobSample)> = Vec::new();
        loop {
            let jobs = self.jobs();
            if jobs.is_empty() {
                complain("no such job of Strait is running here");
                return Ok(ExitCode::FAILURE);
            }
            let now: Vec<_> = jobs.iter().map(|job| (job.id(), sample(job))).collect();
            if !before.is_empty() {
                self.show(&before, &now)?;
                if self.once {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            before = now;
            thread::sleep(pause);
        }
    }

    fn jobs(&self) -> Vec<ObservedJob> {
        let mut jobs = match self.pid {
            Some(pid) => observe::job_of(pid).into_iter().collect(),
            None => observe::jobs(),
        };
        jobs.retain(|job| self.job.is_none_or(|id| job.id() == id));
        jobs
    }

    fn show(
        &self,
        before: &[(u64, JobSample)],
        now: &[(u64, JobSample)],
    ) -> Result<(), Box<dyn Error>> {
        let terminal = Term::stdout();
        if !self.once && !self.json && terminal.is_term() {
            terminal.clear_screen()?;
        }
        for (id, sample) in now {
            let Some((_, before)) = before.iter().find(|(other, _)| other == id) else { continue };
            let rates = rates(before, sample);
            if self.json {
                say(&serde_json::to_string(&as_json(*id, &rates))?)?;
            } else {
                say(&as_text(*id, &rates))?;
            }
        }
        Ok(())
    }
}

fn sample(job: &ObservedJob) -> JobSample {
    let ranks = job.look();
    let count = ranks.len() as u32;
    let one = |seen: ObservedRank| {
        let to = |peer| (job.packets(seen.rank, peer), job.counts(seen.rank, peer));
        let threads = if seen.pid == 0 { Vec::new() } else { look_at_threads(seen.pid) };
        let ticks = threads.iter().map(|thread| thread.ticks).sum();
        RankSample { seen, ticks, to: (0..count).map(to).collect() }
    };
    JobSample { time_ns: monotonic_ns(), ranks: ranks.into_iter().map(one).collect() }
}

fn rates(before: &JobSample, now: &JobSample) -> Vec<RankRates> {
    let seconds = now.time_ns.saturating_sub(before.time_ns).max(1) as f64 / 1e9;
    let pairs = before.ranks.iter().zip(&now.ranks);
    pairs.map(|(before, now)| rates_of(before, now, seconds)).collect()
}

fn rates_of(before: &RankSample, now: &RankSample, seconds: f64) -> RankRates {
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let sum = |of: fn(&PairCounts) -> u64| {
        let total = |sample: &RankSample| sample.to.iter().map(|(_, counts)| of(counts)).sum();
        rate(total(before), total(now))
    };
    let pairs = (0..).zip(before.to.iter().zip(&now.to));
    let peers: Vec<(u32, f64)> = pairs
        .map(|(peer, (before, now))| (peer, rate(before.0, now.0)))
        .filter(|(_, packets)| *packets > 0.0)
        .collect();
    let packets: f64 = peers.iter().map(|(_, packets)| packets).sum();
    let cells = sum(|counts| counts.cells);
    let (state, wait) = match activity(&now.seen) {
        Activity::Computes => ("computes", String::new()),
        Activity::Waits { wait, .. } => ("waits", wait.to_string()),
        Activity::Stopped => ("stopped", String::new()),
        Activity::Dead => ("dead", String::new()),
        Activity::Left => ("left", String::new()),
        Activity::Unseen => ("unseen", String::new()),
    };
    RankRates {
        rank: now.seen.rank,
        pid: now.seen.pid,
        state,
        wait,
        cpu: rate(before.ticks, now.ticks) / TICKS_PER_SECOND,
        short: (packets - cells).max(0.0),
        cells,
        transfers: sum(|counts| counts.transfers),
        transfer_bytes: sum(|counts| counts.transfer_bytes),
        unexpected: (now.seen.unexpected.messages, now.seen.unexpected.bytes),
        peers,
    }
}

fn as_text(id: u64, rates: &[RankRates]) -> String {
    let mut table = TextTable::new();
    table.columns(&[
        "rank",
        "process",
        "state",
        "CPU",
        "short/s",
        "cells/s",
        "large/s",
        "MB/s",
        "unexpected",
        "to",
    ]);
    for rank in rates {
        let (messages, bytes) = rank.unexpected;
        table.line(vec![
            rank.rank.to_string(),
            rank.pid.to_string(),
            rank.state.to_owned(),
            format!("{:.0} %", rank.cpu * 100.0),
            format!("{:.0}", rank.short),
            format!("{:.0}", rank.cells),
            format!("{:.0}", rank.transfers),
            format!("{:.1}", rank.transfer_bytes / 1e6),
            format!("{messages}, {bytes} B"),
            busiest(&rank.peers),
        ]);
    }
    let waits = rates.iter().filter(|rank| !rank.wait.is_empty());
    let waits: Vec<String> =
        waits.map(|rank| format!("rank {} waits in {}", rank.rank, rank.wait)).collect();
    let head = format!("job {id:x}, {} ranks", rates.len());
    [&[head, table.text(reader_width())], &waits[..]].concat().join("\n")
}

/// Returns the peer that gets most packets, and the number of other peers that get some.
fn busiest(peers: &[(u32, f64)]) -> String {
    let most = peers.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    match (most, peers.len()) {
        (None, _) => String::new(),
        (Some((peer, _)), 1) => peer.to_string(),
        (Some((peer, _)), count) => format!("{peer} and {} more", count - 1),
    }
}

fn as_json(id: u64, rates: &[RankRates]) -> Value {
    let ranks: Vec<Value> = rates.iter().map(rank_as_json).collect();
    json!({ "job": format!("{id:x}"), "ranks": ranks })
}

fn rank_as_json(rank: &RankRates) -> Value {
    let peers: Vec<Value> = rank
        .peers
        .iter()
        .map(|(peer, packets)| json!({ "rank": peer, "packets_per_second": packets }))
        .collect();
    json!({
        "rank": rank.rank,
        "pid": rank.pid,
        "state": rank.state,
        "wait": rank.wait,
        "cpu": rank.cpu,
        "short_packets_per_second": rank.short,
        "cell_packets_per_second": rank.cells,
        "transfers_per_second": rank.transfers,
        "transfer_bytes_per_second": rank.transfer_bytes,
        "unexpected_messages": rank.unexpected.0,
        "unexpected_bytes": rank.unexpected.1,
        "peers": peers,
    })
}
