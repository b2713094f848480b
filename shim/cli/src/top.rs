//! `strait top`: what the ranks of a job do, and how much they send by which way.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use console::Term;
use serde_json::{Value, json};
use strait::observe::{
    self, ObservedJob, ObservedRank, PairCounts, PairSent, look_at_threads, monotonic_ns,
};

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
    /// What it has sent to each rank on the node.
    to: Vec<(PairSent, PairCounts)>,
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
    /// What it sent to all peers on its node.
    sent: SendRates,
    /// Messages that no receive has taken, and the memory that they use in bytes.
    unexpected: (u32, u64),
    /// What it sent to each peer that got something.
    peers: Vec<(u32, SendRates)>,
}

/// What a rank sent in a second, by path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SendRates {
    /// Packets on all paths.
    packets: f64,
    /// Lines of the fastbox; `None` where they cannot be read.
    lines: Option<f64>,
    /// Packets through cells.
    cells: f64,
    /// Large messages.
    transfers: f64,
    /// Bytes of large messages.
    transfer_bytes: f64,
}

impl SendRates {
    const NONE: Self =
        Self { packets: 0.0, lines: Some(0.0), cells: 0.0, transfers: 0.0, transfer_bytes: 0.0 };

    /// Returns what was sent to a peer between two looks.
    fn between(
        before: &(PairSent, PairCounts),
        now: &(PairSent, PairCounts),
        seconds: f64,
    ) -> Self {
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let ((sent_before, before), (sent, now)) = (before, now);
        let lines = sent_before.fastbox_lines.zip(sent.fastbox_lines);
        Self {
            packets: rate(sent_before.packets, sent.packets),
            lines: lines.map(|(before, now)| rate(before, now)),
            cells: rate(before.cells, now.cells),
            transfers: rate(before.transfers, now.transfers),
            transfer_bytes: rate(before.transfer_bytes, now.transfer_bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            lines: self.lines.zip(other.lines).map(|(one, two)| one + two),
            cells: self.cells + other.cells,
            transfers: self.transfers + other.transfers,
            transfer_bytes: self.transfer_bytes + other.transfer_bytes,
        }
    }

    /// Returns the packets through lines and parcels.
    fn short(&self) -> f64 {
        (self.packets - self.cells).max(0.0)
    }

    fn json(&self) -> Value {
        json!({
            "packets_per_second": self.packets,
            "short_packets_per_second": self.short(),
            "fastbox_lines_per_second": self.lines,
            "cell_packets_per_second": self.cells,
            "transfers_per_second": self.transfers,
            "transfer_bytes_per_second": self.transfer_bytes,
        })
    }
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
        let to = |peer| (job.sent(seen.rank, peer), job.counts(seen.rank, peer));
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
    let pairs = (0..).zip(before.to.iter().zip(&now.to));
    let peers: Vec<(u32, SendRates)> = pairs
        .map(|(peer, (before, now))| (peer, SendRates::between(before, now, seconds)))
        .filter(|(_, sent)| *sent != SendRates::NONE)
        .collect();
    let ticks = now.ticks.saturating_sub(before.ticks);
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
        cpu: ticks as f64 / TICKS_PER_SECOND / seconds,
        sent: peers.iter().fold(SendRates::NONE, |sum, (_, sent)| sum.plus(*sent)),
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
        "lines/s",
        "cells/s",
        "large/s",
        "MB/s",
        "unexpected",
        "to",
    ]);
    table.narrow();
    for rank in rates {
        let (messages, bytes) = rank.unexpected;
        table.line(vec![
            rank.rank.to_string(),
            rank.pid.to_string(),
            rank.state.to_owned(),
            format!("{:.0} %", rank.cpu * 100.0),
            format!("{:.0}", rank.sent.short()),
            rank.sent.lines.map_or_else(|| "?".to_owned(), |lines| format!("{lines:.0}")),
            format!("{:.0}", rank.sent.cells),
            format!("{:.0}", rank.sent.transfers),
            format!("{:.1}", rank.sent.transfer_bytes / 1e6),
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
fn busiest(peers: &[(u32, SendRates)]) -> String {
    let most = peers.iter().max_by(|one, other| one.1.packets.total_cmp(&other.1.packets));
    match (most, peers.len()) {
        (None, _) => String::new(),
        (Some((peer, _)), 1) => peer.to_string(),
        (Some((peer, _)), count) => format!("{peer} +{}", count - 1),
    }
}

fn as_json(id: u64, rates: &[RankRates]) -> Value {
    let ranks: Vec<Value> = rates.iter().map(rank_as_json).collect();
    json!({ "job": format!("{id:x}"), "ranks": ranks })
}

fn rank_as_json(rank: &RankRates) -> Value {
    let peers = rank.peers.iter().map(|(peer, sent)| {
        let mut value = sent.json();
        value["rank"] = json!(peer);
        value
    });
    let mut value = rank.sent.json();
    value["rank"] = json!(rank.rank);
    value["pid"] = json!(rank.pid);
    value["state"] = json!(rank.state);
    value["wait"] = json!(rank.wait);
    value["cpu"] = json!(rank.cpu);
    value["unexpected_messages"] = json!(rank.unexpected.0);
    value["unexpected_bytes"] = json!(rank.unexpected.1);
    value["peers"] = peers.collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(packets: u64, fastbox_lines: Option<u64>, cells: u64) -> (PairSent, PairCounts) {
        let counts = PairCounts { cells, ..PairCounts::default() };
        (PairSent { packets, fastbox_lines }, counts)
    }

    #[test]
    fn rates_are_told_by_path_and_what_cannot_be_read_is_said() {
        let one = SendRates::between(&sent(10, Some(10), 0), &sent(30, Some(50), 5), 2.0);
        assert_eq!((one.packets, one.lines, one.cells, one.short()), (10.0, Some(20.0), 2.5, 7.5));
        // A number that has become less, such as one that was read in another way, is no rate.
        let less = SendRates::between(&sent(10, Some(20), 0), &sent(10, Some(10), 0), 2.0);
        assert_eq!(less, SendRates::NONE);
        let garbage = SendRates::between(&sent(10, Some(10), 0), &sent(10, None, 0), 2.0);
        assert_eq!((garbage.lines, one.plus(garbage).lines), (None, None));
        assert_eq!(one.plus(garbage).packets, 10.0);
        assert_eq!(garbage.json()["fastbox_lines_per_second"], Value::Null);
    }
}
