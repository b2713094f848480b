//! One judgement from the reports of several hosts.
//!
//! `strait why --json` on a host reports the ranks of that host alone. The reports are made at
//! different times. So a rank counts as waiting only if its wait began before the first report.
//! Then all these ranks waited at the same time.

use core::error::Error;
use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use serde_json::{Value, json};
use strait_core::layout::{Call, RankSet, Wait};

use super::graph::{Activity, Judgement, WaitCause, judge};
use super::hosts::SilentHost;
use super::report::list;

/// Largest difference between the clocks of hosts that is allowed for, in seconds.
const CLOCKS_SECONDS: f64 = 1.0;

/// A job, as the reports of all hosts show it.
pub(super) struct MergedJob {
    id: String,
    ranks: Vec<Value>,
    judgement: Judgement,
    /// Hosts that were asked and gave no report.
    silent: Vec<SilentHost>,
}

/// Reads the reports in these files.
///
/// # Errors
///
/// A file cannot be read, or has no report.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut all = Vec::new();
    for file in files {
        let refused = |why: &dyn core::fmt::Display| {
            io::Error::other(format!("{} is no report of strait why --json: {why}", file.display()))
        };
        let text = fs::read_to_string(file).map_err(|error| refused(&error))?;
        all.extend(reports(&text).map_err(|reason| refused(&reason))?);
    }
    Ok(all)
}

/// Returns the reports in a text, which has one in each line, or the reason why it has none.
pub(super) fn reports(text: &str) -> Result<Vec<Value>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let report: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            if report["job"].is_string() { Ok(report) } else { Err("it names no job".to_owned()) }
        })
        .collect()
}

/// Merges the reports of the same job. `silent` are the hosts that gave none.
pub(super) fn merge(reports: Vec<Value>, silent: &[SilentHost]) -> Vec<MergedJob> {
    let mut jobs = BTreeMap::<String, Vec<Value>>::new();
    for report in reports {
        let id = report["job"].as_str().unwrap_or("?").to_owned();
        jobs.entry(id).or_default().push(report);
    }
    let jobs = jobs.into_iter();
    jobs.map(|(id, reports)| MergedJob { silent: silent.to_vec(), ..MergedJob::of(id, &reports) })
        .collect()
}

impl MergedJob {
    fn of(id: String, reports: &[Value]) -> Self {
        let taken = |report: &Value| report["taken"].as_f64().unwrap_or(0.0);
        let first = reports.iter().map(taken).fold(f64::INFINITY, f64::min);
        let mut ranks = Vec::<Value>::new();
        let mut activities = Vec::new();
        for report in reports {
            let seen = report["ranks"].as_array().map_or(&[][..], Vec::as_slice);
            for (number, rank) in seen.iter().enumerate() {
                if ranks.len() == number {
                    ranks.push(rank.clone());
                    activities.push(Activity::Unseen);
                }
                if rank["state"] != "unseen" {
                    // A rank that was seen not to go on at each look of its report.
                    let is_sure = rank["sure"] == true
                        && rank["wait"]["seconds"].as_f64().is_none_or(|seconds| {
                            taken(report) - seconds + CLOCKS_SECONDS < first || reports.len() == 1
                        });
                    activities[number] = if is_sure { activity(rank) } else { Activity::Computes };
                    ranks[number] = rank.clone();
                    if let Some(rank) = ranks[number].as_object_mut() {
                        rank.insert("host".to_owned(), report["host"].clone());
                    }
                }
            }
        }
        Self { id, ranks, judgement: judge(&activities), silent: Vec::new() }
    }

    /// Returns the words about a rank, with its host if that is known.
    fn line(&self, rank: u32) -> String {
        let rank = &self.ranks[rank as usize];
        let text = rank["text"].as_str().unwrap_or("?");
        rank["host"].as_str().map_or_else(|| text.to_owned(), |host| format!("{text}; on {host}"))
    }

    fn unread(&self) -> Vec<u32> {
        let ranks = (0..).zip(&self.ranks);
        ranks.filter(|(_, rank)| rank["state"] == "unseen").map(|(number, _)| number).collect()
    }

    fn state(&self) -> &'static str {
        match (self.judgement.stuck.is_empty(), self.judgement.slow.is_empty()) {
            (false, _) => "stuck",
            (true, false) => "ranks wait for ranks that compute or poll",
            (true, true) => "no rank is seen to be stuck",
        }
    }

    /// Returns the text about the job.
    pub(super) fn text(&self) -> String {
        let mut text = format!("job {}, {} ranks: {}\n", self.id, self.ranks.len(), self.state());
        for (cause, waiting) in &self.judgement.stuck {
            let members = members(cause);
            let _ = match cause {
                WaitCause::Knot(ranks) => writeln!(text, "  {} wait for each other:", list(ranks)),
                WaitCause::Rank(_) => {
                    writeln!(text, "  {} wait for a rank that will not act:", list(waiting))
                }
            };
            for rank in &members {
                let _ = writeln!(text, "    {}", self.line(*rank));
            }
            for rank in waiting.iter().filter(|rank| !members.contains(rank)) {
                let _ = writeln!(text, "    because of that: {}", self.line(*rank));
            }
        }
        for (rank, waiting) in &self.judgement.slow {
            let _ = writeln!(text, "  rank {rank} keeps {}:", list(waiting));
            let _ = writeln!(text, "    {}", self.line(*rank));
        }
        let unread = self.unread();
        if !unread.is_empty() {
            let _ = writeln!(text, "  in no report: {}", list(&unread));
        }
        for host in &self.silent {
            let _ = writeln!(text, "  {host}");
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Returns the job as JSON.
    pub(super) fn json(&self) -> Value {
        let kind = |cause: &WaitCause| match cause {
            WaitCause::Knot(_) => "knot",
            WaitCause::Rank(_) => "rank",
        };
        let stuck = self.judgement.stuck.iter().map(|(cause, waiting)| {
            json!({ "cause": kind(cause), "ranks": members(cause), "waiting": waiting })
        });
        let slow = self.judgement.slow.iter();
        let slow = slow.map(|(rank, waiting)| json!({ "rank": rank, "waiting": waiting }));
        let silent = self.silent.iter();
        let silent = silent.map(|it| json!({ "host": it.host, "reason": it.reason }));
        json!({
            "job": self.id,
            "state": self.state(),
            "ranks": self.ranks,
            "stuck": stuck.collect::<Vec<_>>(),
            "slow": slow.collect::<Vec<_>>(),
            "unread": self.unread(),
            "silent": silent.collect::<Vec<_>>(),
        })
    }
}

fn members(cause: &WaitCause) -> Vec<u32> {
    match cause {
        WaitCause::Knot(ranks) => ranks.clone(),
        WaitCause::Rank(rank) => vec![*rank],
    }
}

/// Returns what a report says that a rank does. A report with other words says that it computes.
fn activity(rank: &Value) -> Activity {
    match rank["state"].as_str() {
        Some("waits") => wait(&rank["wait"])
            .map_or(Activity::Computes, |wait| Activity::Waits { wait, since_ns: 0 }),
        Some("stopped") => Activity::Stopped,
        Some("dead") => Activity::Dead,
        Some("left") => Activity::Left,
        _ => Activity::Computes,
    }
}

/// Returns the wait of a report, as far as others depend on it.
fn wait(found: &Value) -> Option<Wait> {
    let call = (0..u8::MAX).filter_map(|number| Call::parse(number.into()));
    let call = call.into_iter().find(|call| found["call"] == call.words())?;
    let number = |name: &str| found[name].as_u64().and_then(|number| number.try_into().ok());
    let others = found["others"].as_array().and_then(|others| {
        let ranks = others.iter().map(|rank| rank.as_u64()?.try_into().ok());
        RankSet::of(ranks.collect::<Option<Vec<u32>>>()?)
    });
    let (peer, tag, context) = (number("peer"), number("tag"), number("context"));
    Some(Wait { peer, tag, context, others, ..Wait::new(call) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of a host with two ranks, of which it has seen one.
    fn report(seen: u32, taken: f64, seconds: f64) -> Value {
        let rank = |rank: u32| match rank == seen {
            false => json!({ "rank": rank, "state": "unseen", "text": "unseen" }),
            true => json!({
                "rank": rank, "state": "waits", "sure": true, "text": format!("rank {rank} waits"),
                "wait": { "call": "recv", "peer": 1 - rank, "tag": 7, "seconds": seconds },
            }),
        };
        json!({ "job": "a", "taken": taken, "ranks": [rank(0), rank(1)] })
    }

    #[test]
    fn ranks_of_two_hosts_that_wait_for_each_other_are_stuck() {
        let merged = MergedJob::of("a".into(), &[report(0, 100.0, 50.0), report(1, 130.0, 80.0)]);
        assert_eq!(merged.judgement.stuck, [(WaitCause::Knot(vec![0, 1]), vec![0, 1])]);
        assert!(merged.text().contains("ranks 0 and 1 wait for each other"), "{}", merged.text());
    }

    #[test]
    fn a_wait_that_began_after_another_report_is_not_held_against_its_rank() {
        let merged = MergedJob::of("a".into(), &[report(0, 100.0, 50.0), report(1, 130.0, 20.0)]);
        assert_eq!(merged.judgement.stuck, []);
        assert_eq!(merged.judgement.slow, [(1, vec![0])]);
    }

    #[test]
    fn a_rank_in_no_report_is_said() {
        let merged = MergedJob::of("a".into(), &[report(0, 100.0, 50.0)]);
        assert_eq!(merged.judgement.stuck, []);
        assert!(merged.text().contains("in no report: rank 1"), "{}", merged.text());
    }
    #[test]
    fn hosts_are_named_and_those_without_a_report_too() {
        let mut first = report(0, 100.0, 50.0);
        first["host"] = json!("one");
        let silent = SilentHost { host: "two".into(), reason: "no route".into() };
        let merged = merge(vec![first], &[silent]).remove(0);
        assert_eq!(merged.line(0), "rank 0 waits; on one");
        assert!(merged.text().ends_with("host two gave no report: no route"), "{}", merged.text());
        let json = merged.json();
        assert_eq!(json["silent"], json!([{ "host": "two", "reason": "no route" }]));
        assert_eq!((&json["ranks"][0]["host"], &json["unread"]), (&json!("one"), &json!([1])));
    }

    #[test]
    fn what_is_no_report_is_refused_with_the_reason() {
        assert!(reports("Welcome to this host").is_err());
        assert_eq!(reports("{}"), Err("it names no job".to_owned()));
        assert_eq!(reports("\n \n"), Ok(Vec::new()));
        // A report with other contents says nothing about ranks.
        let odd = json!({ "job": "a", "taken": "now", "ranks": [7, { "state": 7 }, null] });
        let merged = merge(vec![odd], &[]).remove(0);
        assert_eq!(merged.judgement.stuck, []);
    }
}
