//! `strait trace`: the last events of all ranks of a job, for Perfetto and Chrome's tracing page.

use core::error::Error;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use strait::observe::{self, ObservedJob};
use strait_core::layout::{Call, EpochKind, Event, EventKind};

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
        names.push(json!({
            "ph": "M", "name": "process_name", "pid": seen.rank,
            "args": { "name": format!("rank {} (process {})", seen.rank, seen.pid) },
        }));
        all.extend(of_rank(seen.rank, job.events(seen.rank), observe::monotonic_ns()));
    }
    all.sort_by_key(|(time_ns, _)| *time_ns);
    names.into_iter().chain(all.into_iter().map(|(_, event)| event)).collect()
}

/// Returns the events of a rank for the trace, each with its time.
fn of_rank(rank: u32, events: Vec<Event>, now_ns: u64) -> Vec<(u64, Value)> {
    let mut all = Vec::new();
    // Events may lie between the begin and the end of a wait.
    let mut wait = None;
    let mut open = BTreeSet::new();
    for event in events {
        match event.kind {
            EventKind::WaitBegan => wait = Some(event),
            EventKind::WaitEnded => {
                let began =
                    wait.take().map(|begin| (begin.time_ns, span(rank, &begin, event.time_ns)));
                all.extend(began);
            }
            _ => {
                let (begins, shown) = match Period::of(&event) {
                    Some(period) => (Some(period.begins), period.json(rank, &event)),
                    None => (None, instant(rank, &event)),
                };
                let id = shown["id"].to_string();
                let is_shown = match begins {
                    Some(true) => open.insert(id),
                    // The begin may have left the ring of events.
                    Some(false) => open.remove(&id),
                    None => true,
                };
                all.extend(is_shown.then_some((event.time_ns, shown)));
            }
        }
    }
    // This wait has not ended yet.
    all.extend(wait.map(|begin| (begin.time_ns, span(rank, &begin, now_ns))));
    all
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

/// The begin or the end of an epoch, or of the time in which a rank has the lock of a target. These
/// periods overlap with others, so each has a track of its own.
struct Period {
    begins: bool,
    category: &'static str,
    /// What the period is, without the window.
    name: String,
    args: Value,
}

impl Period {
    /// Returns the period that an event begins or ends, if it does so.
    fn of(event: &Event) -> Option<Self> {
        let begins = matches!(event.kind, EventKind::LockTaken | EventKind::EpochBegan);
        match event.kind {
            EventKind::LockTaken | EventKind::LockReleased => {
                let held = if event.bytes == 0 { "shared" } else { "exclusive" };
                let args = if begins { json!({ "lock": held }) } else { json!({}) };
                let name = format!("lock of rank {}", event.peer);
                Some(Self { begins, category: "lock", name, args })
            }
            EventKind::EpochBegan | EventKind::EpochEnded => {
                let kind = EpochKind::parse(event.bytes)?;
                let peer = (event.peer != u32::MAX).then_some(event.peer);
                // A member has one other epoch of a kind, but may lock several targets.
                let name = match peer.filter(|_| kind == EpochKind::Lock) {
                    Some(target) => format!("{} at rank {target}", kind.words()),
                    None => kind.words().to_owned(),
                };
                Some(Self { begins, category: "epoch", name, args: json!({ "peer": peer }) })
            }
            _ => None,
        }
    }

    fn json(&self, rank: u32, event: &Event) -> Value {
        let window = format!("{}.{}", event.context >> 16, event.context & 0xffff);
        let name = format!("{}, window {window}", self.name);
        json!({
            "ph": if self.begins { "b" } else { "e" }, "cat": self.category, "name": name,
            "id": format!("rank {rank}: {name}"), "pid": rank, "tid": 0,
            "ts": micros(event.time_ns), "args": self.args,
        })
    }
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
    fn waits_are_spans_and_messages_are_instants() {
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
        let event = Event { kind: EventKind::Announced, tag: 7, bytes: 64, ..begin };
        let instant = instant(3, &event);
        assert_eq!((&instant["args"]["tag"], &instant["args"]["bytes"]), (&json!(7), &json!(64)));
    }
    #[test]
    fn locks_and_epochs_are_periods_with_a_begin_and_an_end() {
        let event = |time_ns, kind, peer, bytes| Event {
            time_ns,
            kind,
            peer,
            tag: u32::MAX,
            context: 1 << 16 | 2,
            bytes,
        };
        use EventKind::{EpochBegan, EpochEnded, LockReleased, LockTaken};
        let (lock, fence) = (EpochKind::Lock as u64, EpochKind::Fence as u64);
        let events = vec![
            // Its begin has left the ring.
            event(1, EpochEnded, u32::MAX, fence),
            event(2, EpochBegan, 5, lock),
            event(3, EpochBegan, 6, lock),
            event(4, LockTaken, 5, 1),
            event(5, LockReleased, 5, 0),
            event(6, EpochEnded, 5, lock),
            event(7, EpochBegan, u32::MAX, fence),
            event(8, EpochBegan, 7, 99),
        ];
        let shown: Vec<Value> = of_rank(3, events, 9).into_iter().map(|(_, it)| it).collect();
        let seen: Vec<_> = shown
            .iter()
            .map(|it| (it["ph"].as_str().unwrap(), it["name"].as_str().unwrap()))
            .collect();
        let expected = [
            ("b", "lock epoch at rank 5, window 1.2"),
            ("b", "lock epoch at rank 6, window 1.2"),
            ("b", "lock of rank 5, window 1.2"),
            ("e", "lock of rank 5, window 1.2"),
            ("e", "lock epoch at rank 5, window 1.2"),
            ("b", "fence epoch, window 1.2"),
            ("i", "window epoch"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(shown[2]["args"]["lock"], "exclusive");
        assert_eq!((&shown[0]["id"], &shown[0]["cat"]), (&shown[4]["id"], &json!("epoch")));
    }
}
