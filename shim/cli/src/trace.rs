//! `strait trace`: the last events of all ranks of a job, for Perfetto and Chrome's tracing page.

use core::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use strait::observe::{self, ObservedJob};
use strait_core::layout::{Call, Event, EventKind};

use crate::output::{complain, say};

/// Write the last events of all ranks as a trace (ranks record them with STRAIT_RECORD=events)
#[derive(Args, Debug)]
pub(crate) struct Trace {
    /// Look at this job alone (an id that strait why prints)
    #[arg(long, value_parser = crate::why::parse_id)]
    job: Option<u64>,
    /// Look at the job of this process alone
    #[arg(long, conflicts_with = "job")]
    pid: Option<u32>,
    /// The file to write: open it at https://ui.perfetto.dev
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
}

impl Trace {
    pub(crate) fn execute(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut jobs = observe::jobs();
        if let Some(pid) = self.pid {
            jobs = observe::job_of(pid).into_iter().collect();
        }
        jobs.retain(|job| self.job.is_none_or(|id| job.id() == id));
        let [job] = &jobs[..] else {
            complain(match jobs.len() {
                0 => "no such job of Strait is running here".to_owned(),
                count => format!("{count} jobs are running here: choose one by --job or --pid"),
            });
            return Ok(ExitCode::FAILURE);
        };
        let events = trace(job);
        let count = events.iter().filter(|event| event["ph"] != "M").count();
        fs::write(&self.output, serde_json::to_string(&json!({ "traceEvents": events }))?)?;
        say(&format!("{count} events of job {:x} are in {}", job.id(), self.output.display()))?;
        if count == 0 {
            complain("the ranks record no events: start them with STRAIT_RECORD=events");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the events of all ranks in the order of the host's clock, each rank as a process.
fn trace(job: &ObservedJob) -> Vec<Value> {
    let mut all = Vec::new();
    let mut names = Vec::new();
    for seen in job.look() {
        let events = job.events(seen.rank);
        names.push(json!({
            "ph": "M", "name": "process_name", "pid": seen.rank,
            "args": { "name": format!("rank {} (process {})", seen.rank, seen.pid) },
        }));
        let mut began = None;
        for event in events {
            let begin = began.take();
            match event.kind {
                EventKind::WaitBegan => began = Some(event),
                EventKind::WaitEnded => {
                    if let Some(begin) = begin {
                        all.push((begin.time_ns, span(seen.rank, &begin, event.time_ns)));
                    }
                }
                kind => {
                    let is_lock = matches!(kind, EventKind::LockTaken | EventKind::LockReleased);
                    let shown = if is_lock { lock } else { instant };
                    all.push((event.time_ns, shown(seen.rank, &event)));
                    // Events may lie between the begin and the end of a wait.
                    began = begin;
                }
            }
        }
        if let Some(begin) = began {
            // The wait has not ended yet.
            all.push((begin.time_ns, span(seen.rank, &begin, observe::monotonic_ns())));
        }
    }
    all.sort_by_key(|(time_ns, _)| *time_ns);
    names.into_iter().chain(all.into_iter().map(|(_, event)| event)).collect()
}

/// Returns a time in the unit of the format, microseconds.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn span(rank: u32, begin: &Event, end_ns: u64) -> Value {
    let call = u32::try_from(begin.bytes).ok().and_then(Call::parse);
    let call = call.map_or("wait", Call::words);
    json!({
        "ph": "X", "name": call, "cat": "wait", "pid": rank, "tid": 0,
        "ts": micros(begin.time_ns), "dur": micros(end_ns.saturating_sub(begin.time_ns)),
        "args": names(begin),
    })
}

/// Returns the begin or the end of the time in which a rank has the lock of a target. These times
/// overlap with others, so they are tracks of their own, one for each target.
fn lock(rank: u32, event: &Event) -> Value {
    let (phase, held) = match (event.kind, event.bytes) {
        (EventKind::LockReleased, _) => ("e", Value::Null),
        (_, 0) => ("b", json!("shared")),
        (_, _) => ("b", json!("exclusive")),
    };
    json!({
        "ph": phase, "cat": "lock", "name": format!("lock of rank {}", event.peer),
        "id": event.peer, "pid": rank, "tid": 0, "ts": micros(event.time_ns),
        "args": { "lock": held },
    })
}

fn instant(rank: u32, event: &Event) -> Value {
    let mut args = names(event);
    args["bytes"] = json!(event.bytes);
    json!({
        "ph": "i", "s": "t", "name": event.kind.words(), "cat": "message", "pid": rank, "tid": 0,
        "ts": micros(event.time_ns), "args": args,
    })
}

/// Returns the peer, the tag and the context of an event, as far as it has them.
fn names(event: &Event) -> Value {
    let some = |value: u32| (value < u32::MAX - 1).then_some(value);
    json!({ "peer": some(event.peer), "tag": some(event.tag), "context": event.context })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_locks_have_a_length_and_other_events_are_instants() {
        let begin = Event {
            time_ns: 5_000,
            kind: EventKind::WaitBegan,
            peer: 1,
            tag: u32::MAX,
            context: 0,
            bytes: Call::Recv as u64,
        };
        let span = span(3, &begin, 9_000);
        assert_eq!(
            (&span["name"], &span["ts"], &span["dur"]),
            (&json!("recv"), &json!(5.0), &json!(4.0))
        );
        assert_eq!((&span["args"]["peer"], &span["args"]["tag"]), (&json!(1), &Value::Null));
        let taken = lock(3, &Event { kind: EventKind::LockTaken, bytes: 1, ..begin });
        assert_eq!((&taken["ph"], &taken["args"]["lock"]), (&json!("b"), &json!("exclusive")));
        let released = lock(3, &Event { kind: EventKind::LockReleased, ..begin });
        assert_eq!((&released["ph"], &released["id"]), (&json!("e"), &taken["id"]));
        let event = Event { kind: EventKind::Announced, tag: 7, bytes: 64, ..begin };
        let instant = instant(3, &event);
        assert_eq!((&instant["args"]["tag"], &instant["args"]["bytes"]), (&json!(7), &json!(64)));
    }
}
