//! The words about a job.

use core::fmt::Write as _;
use core::time::Duration;
use std::time::SystemTime;

use serde_json::{Value, json};
use strait::observe::{ObservedRank, ThreadView};
use strait_core::layout::{Call, Communicator, SendState};

use super::clues::clues;
use super::graph::{Activity, WaitCause};
use super::view::{JobView, SeenRank, is_sure};

/// Returns the text about a job.
pub(crate) fn text(view: &JobView) -> String {
    let (count, judgement) = (view.ranks.len(), &view.judgement);
    let mut text = format!("job {:x}, {count} ranks: {}\n", view.id, state(view));
    for (cause, waiting) in &judgement.stuck {
        let _ = writeln!(text, "  {}", sentence(view, cause, waiting));
        for rank in members(cause) {
            let _ = writeln!(text, "    {}", line(view, rank));
        }
        for rank in waiting.iter().filter(|rank| !members(cause).contains(rank)) {
            let _ = writeln!(text, "    because of that: {}", line(view, *rank));
        }
        for clue in clues(view, waiting) {
            let _ = writeln!(text, "  {clue}");
        }
        let _ = writeln!(text, "  what to do: {}", advice(view, cause));
    }
    for (rank, waiting) in &judgement.slow {
        let _ = writeln!(text, "  {} for {}:", wait_of(waiting), name(*rank));
        let _ = writeln!(text, "    {}", line(view, *rank));
        for thread in kernel_lines(view, *rank) {
            let _ = writeln!(text, "      {thread}");
        }
    }
    if let Some(advice) = slow_advice(view) {
        let _ = writeln!(text, "  what to do: {advice}");
    }
    if let Some(unread) = unread(view) {
        let _ = writeln!(text, "  {unread}");
    }
    for (sender, receiver) in &judgement.moving {
        let _ = writeln!(text, "  a message from rank {sender} to rank {receiver} is on its way:");
        let _ = writeln!(text, "    {}\n    {}", line(view, *sender), line(view, *receiver));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Says which ranks could not be read.
fn unread(view: &JobView) -> Option<String> {
    let unseen = view.ranks.iter().filter(|rank| rank.activity == Activity::Unseen);
    let unseen: Vec<u32> = unseen.map(|rank| rank.seen.rank).collect();
    (!unseen.is_empty()).then(|| {
        format!(
            "not read: {}, with no process here: on another host, or not started yet; \
             strait why --hosts A,B,... asks the hosts",
            list(&unseen)
        )
    })
}

/// Returns the next step for ranks that wait for a rank that computes.
fn slow_advice(view: &JobView) -> Option<String> {
    let (rank, _) = view.judgement.slow.first().filter(|_| view.judgement.stuck.is_empty())?;
    let pid = view.ranks[*rank as usize].seen.pid;
    Some(format!(
        "look where rank {rank} is (gdb -p {pid} -batch -ex bt); if it should take part by now, \
         it has taken another branch, or computes for longer than expected"
    ))
}

/// Returns what the kernel shows of the threads of a rank.
fn kernel_lines(view: &JobView, rank: u32) -> Vec<String> {
    let threads = &view.ranks[rank as usize].threads;
    threads.iter().map(kernel_line).collect()
}

fn kernel_line(thread: &ThreadView) -> String {
    let mut line = format!("thread {} ({}) ", thread.number, thread.name);
    line.push_str(match thread.state {
        'R' => "runs",
        'S' | 'D' => "sleeps",
        'T' | 't' => "is stopped",
        _ => "is in a state unknown here",
    });
    if let Some(place) = &thread.place {
        let _ = write!(line, " in {place}");
    }
    if let Some(call) = thread.system_call {
        let _ = write!(line, ", system call {call}");
    }
    if !thread.stack.is_empty() {
        let _ = write!(line, "; kernel stack: {}", thread.stack.join(" < "));
    }
    line
}

/// Returns the state of a job in one phrase.
fn state(view: &JobView) -> &'static str {
    let judgement = &view.judgement;
    let waits = view.ranks.iter().any(|rank| matches!(rank.activity, Activity::Waits { .. }));
    if !judgement.stuck.is_empty() {
        "stuck"
    } else if !judgement.slow.is_empty() {
        "ranks wait for ranks that compute or poll"
    } else if waits {
        "it moves: each wait that lasts may still end"
    } else {
        "no rank waits for long"
    }
}

/// Returns the sentence that begins the words about a cause.
fn sentence(view: &JobView, cause: &WaitCause, waiting: &[u32]) -> String {
    match cause {
        WaitCause::Knot(ranks) => {
            let calls = calls(view, ranks);
            let all = |call| calls.iter().all(|other| *other == call);
            let why = if all(Call::Recv) {
                ": each waits for a message that the next has not sent"
            } else if all(Call::Send) {
                ": each sends, and no rank receives these messages"
            } else if all(Call::WindowLock) {
                ": each holds a lock that another wants"
            } else {
                ""
            };
            format!("{} wait for each other{why}:", list(ranks))
        }
        WaitCause::Rank(rank) => {
            let what = match view.ranks[*rank as usize].activity {
                Activity::Stopped => "is stopped",
                Activity::Dead => "has ended without leaving the job",
                Activity::Left => "has left the job",
                _ => "does not act",
            };
            format!("{} for {}, which {what}:", wait_of(waiting), name(*rank))
        }
    }
}

/// Returns the calls in which these ranks wait.
fn calls(view: &JobView, ranks: &[u32]) -> Vec<Call> {
    ranks.iter().filter_map(|rank| call(view.ranks[*rank as usize].activity)).collect()
}

/// Returns what most often ends such a wait of ranks for each other.
fn remedy(calls: &[Call]) -> &'static str {
    let all = |call| calls.iter().all(|other| *other == call);
    let any = |call| calls.contains(&call);
    if all(Call::Send) {
        "post the receives before the sends (irecv), or use a combined send and receive"
    } else if all(Call::WindowLock) {
        "take the locks in the same order on all ranks"
    } else if any(Call::Barrier) || any(Call::Collective) {
        "see that all members call the same collective operations in the same order"
    } else if any(Call::WindowStart) || any(Call::WindowWait) {
        "see that each start has a post and each wait a complete, in the same order on both sides"
    } else {
        "compare sources, tags and contexts above with the program"
    }
}

/// Returns the next step for the user.
fn advice(view: &JobView, cause: &WaitCause) -> String {
    match cause {
        WaitCause::Rank(rank) => {
            let pid = view.ranks[*rank as usize].seen.pid;
            match view.ranks[*rank as usize].activity {
                Activity::Stopped => {
                    format!("let it go on (kill -CONT {pid}), or detach the debugger that holds it")
                }
                Activity::Dead => {
                    "the ranks that wait learn of the death and get an error; if they \
                                   do not within seconds, end the job"
                        .to_owned()
                }
                _ => "the program communicates with a rank that has finished: see that all ranks \
                      agree on the number of messages and collective calls"
                    .to_owned(),
            }
        }
        WaitCause::Knot(ranks) => {
            let pids: Vec<String> =
                ranks.iter().map(|rank| view.ranks[*rank as usize].seen.pid.to_string()).collect();
            format!(
                "{}; the stacks: for p in {}; do gdb -p $p -batch -ex bt; done",
                remedy(&calls(view, ranks)),
                pids.join(" ")
            )
        }
    }
}

fn members(cause: &WaitCause) -> Vec<u32> {
    match cause {
        WaitCause::Knot(ranks) => ranks.clone(),
        WaitCause::Rank(rank) => vec![*rank],
    }
}

const fn call(activity: Activity) -> Option<Call> {
    match activity {
        Activity::Waits { wait, .. } => Some(wait.call),
        _ => None,
    }
}

fn name(rank: u32) -> String {
    format!("rank {rank}")
}

/// Returns "rank 3 waits" or "ranks 3 and 4 wait".
fn wait_of(ranks: &[u32]) -> String {
    let verb = if ranks.len() == 1 { "waits" } else { "wait" };
    format!("{} {verb}", list(ranks))
}

/// Returns ranks as words. Of many, it lists the first ones.
pub(super) fn list(ranks: &[u32]) -> String {
    const MOST: usize = 8;
    let shown: Vec<String> = ranks.iter().take(MOST).map(u32::to_string).collect();
    match (shown.as_slice(), ranks.len()) {
        ([one], 1) => format!("rank {one}"),
        ([before @ .., last], count) if count <= MOST => {
            format!("ranks {} and {last}", before.join(", "))
        }
        (shown, count) => format!("ranks {} and {} more", shown.join(", "), count - shown.len()),
    }
}

/// A rank that waits and gives no sign of life for longer than this may compute.
const SILENCE: Duration = Duration::from_secs(1);

/// Returns the time since a rank's last sign of life in a wait.
fn silence(view: &JobView, rank: &ObservedRank) -> Duration {
    let latest_ns = rank.waited.ok().flatten().map_or(view.now_ns, |waited| waited.latest_ns);
    Duration::from_nanos(view.now_ns.saturating_sub(latest_ns))
}

/// Returns what a rank does, in one line.
fn line(view: &JobView, rank: u32) -> String {
    let SeenRank { seen, activity, is_still, .. } = &view.ranks[rank as usize];
    let ago = |since_ns: u64| Duration::from_nanos(view.now_ns.saturating_sub(since_ns));
    let what = match activity {
        Activity::Waits { wait, .. } if !is_still && silence(view, seen) > SILENCE => format!(
            "computes or has no processor: its last sign of life was {:.1?} ago, in {}",
            silence(view, seen),
            view.wait_words(rank, wait)
        ),
        Activity::Waits { wait, since_ns } => {
            let moved = if *is_still { "" } else { " (it moved between the two looks)" };
            format!("waits in {}; for {:.1?}{moved}", view.wait_words(rank, wait), ago(*since_ns))
        }
        Activity::Computes => match seen.waited {
            Ok(Some(waited)) => {
                let last = ago(waited.latest_ns);
                format!("computes or polls; its last sign of life in a wait was {last:.1?} ago")
            }
            Ok(None) => "computes: it has not waited for long yet".to_owned(),
            Err(_) => "has a record that cannot be read".to_owned(),
        },
        Activity::Stopped => "is stopped by a signal or a debugger".to_owned(),
        Activity::Dead => "has ended without leaving the job".to_owned(),
        Activity::Left => "has left the job".to_owned(),
        Activity::Unseen => "has not joined the job, or is on another host".to_owned(),
    };
    match seen.pid {
        0 => format!("rank {rank} {what}"),
        pid => format!("rank {rank} (process {pid}) {what}"),
    }
}

/// Returns a job as JSON.
pub(super) fn json(view: &JobView) -> Value {
    let ranks: Vec<Value> = view.ranks.iter().map(|rank| json_rank(view, rank)).collect();
    let stuck: Vec<Value> = view
        .judgement
        .stuck
        .iter()
        .map(|(cause, waiting)| {
            let kind = match cause {
                WaitCause::Knot(_) => "knot",
                WaitCause::Rank(_) => "rank",
            };
            json!({
                "cause": kind,
                "ranks": members(cause),
                "waiting": waiting,
                "text": sentence(view, cause, waiting),
                "clues": clues(view, waiting),
                "advice": advice(view, cause),
            })
        })
        .collect();
    let slow: Vec<Value> = view
        .judgement
        .slow
        .iter()
        .map(|(rank, waiting)| {
            json!({ "rank": rank, "waiting": waiting, "threads": kernel_lines(view, *rank) })
        })
        .collect();
    json!({
        "job": format!("{:x}", view.id),
        "nodes": view.nodes,
        "taken": taken(),
        "state": state(view),
        "ranks": ranks,
        "stuck": stuck,
        "slow": slow,
        "moving": view.judgement.moving,
        "unread": unread(view),
    })
}

/// Returns the time of this host's clock in seconds, by which reports of hosts are compared.
fn taken() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}

fn json_rank(view: &JobView, rank: &SeenRank) -> Value {
    let SeenRank { seen, activity, is_still, .. } = rank;
    let mut value = json!({
        "rank": seen.rank,
        "pid": seen.pid,
        "state": state_of(*activity),
        "still": is_still,
        "sure": is_sure(rank),
        "text": line(view, seen.rank),
    });
    let heads: Vec<String> =
        seen.unexpected.heads.iter().flatten().map(ToString::to_string).collect();
    value["unexpected"] = json!({
        "messages": seen.unexpected.messages,
        "bytes": seen.unexpected.bytes,
        "heads": heads,
    });
    if let Activity::Waits { wait, since_ns } = activity {
        let requests: Vec<String> =
            wait.requests.iter().flatten().map(ToString::to_string).collect();
        value["wait"] = json!({
            "call": wait.call.words(),
            "function": wait.caller.map(|name| name.to_string()),
            "communicator": communicator(view, seen.rank, wait.context),
            "peer": wait.peer,
            "tag": wait.tag,
            "context": wait.context,
            "bytes": wait.bytes,
            "window": wait.window,
            "target": wait.target,
            "others": wait.others.map(|others| others.iter().collect::<Vec<_>>()),
            "stage": wait.stage.map(SendState::words),
            "requests": requests,
            "complete": wait.over.map(|(complete, of)| [complete, of]),
            "seconds": Duration::from_nanos(view.now_ns.saturating_sub(*since_ns)).as_secs_f64(),
        });
    }
    value
}

/// Returns the communicator of a wait, if an interface above Strait has told it.
fn communicator(view: &JobView, rank: u32, context: Option<u32>) -> Value {
    match view.communicators.get(&(rank, context.unwrap_or(u32::MAX))) {
        Some(Communicator { rank, size, name, .. }) => {
            json!({ "name": name.map(|name| name.to_string()), "rank": rank, "size": size })
        }
        None => Value::Null,
    }
}

const fn state_of(activity: Activity) -> &'static str {
    match activity {
        Activity::Computes => "computes",
        Activity::Waits { .. } => "waits",
        Activity::Stopped => "stopped",
        Activity::Dead => "dead",
        Activity::Left => "left",
        Activity::Unseen => "unseen",
    }
}

/// Returns the graph of waits in the language of Graphviz.
pub(super) fn dot(view: &JobView) -> String {
    let mut text = format!("digraph \"job {:x}\" {{\n", view.id);
    let stuck: Vec<u32> =
        view.judgement.stuck.iter().flat_map(|(cause, _)| members(cause)).collect();
    for rank in &view.ranks {
        let (number, state) = (rank.seen.rank, state_of(rank.activity));
        let color = if stuck.contains(&number) { ", color=red" } else { "" };
        let _ = writeln!(text, "  {number} [label=\"rank {number}\\n{state}\"{color}];");
        if let Activity::Waits { wait, .. } = rank.activity
            && let Some(peer) = wait.peer.filter(|peer| (*peer as usize) < view.ranks.len())
        {
            let label = wait.to_string().replace('"', "'");
            let _ = writeln!(text, "  {number} -> {peer} [label=\"{label}\"];");
        }
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use strait::observe::ProcessState;

    use super::super::view::tests::{view, waiting};
    use super::*;

    #[test]
    fn a_cycle_is_told_with_its_ranks_tags_and_the_next_step() {
        let ranks = [waiting(0, 1, 5), waiting(1, 0, 6), waiting(2, 1, 7)];
        let text = text(&view(&ranks, &ranks));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "job abc, 3 ranks: stuck");
        let first = "  ranks 0 and 1 wait for each other: each waits for a message that the next \
                     has not sent:";
        assert_eq!(lines[1], first);
        assert!(lines[2].contains("rank 0 (process 100) waits in recv: source 1, tag 7"), "{text}");
        assert!(lines[4].contains("because of that: rank 2 (process 102)"), "{text}");
        assert!(lines[5].starts_with("  what to do: compare"), "{text}");
    }

    #[test]
    fn a_stopped_rank_is_told_with_the_command_that_continues_it() {
        let mut ranks = [waiting(0, 1, 5), waiting(1, 0, 6)];
        ranks[1].process = ProcessState::Stopped;
        let view = view(&ranks, &ranks);
        let text = text(&view);
        assert!(text.contains("rank 0 waits for rank 1, which is stopped:"), "{text}");
        assert!(text.contains("kill -CONT 101"), "{text}");
        let json = json(&view);
        assert_eq!(json["stuck"][0]["ranks"], json!([1]));
        assert_eq!(json["ranks"][0]["wait"]["tag"], 7);
        let dot = dot(&view);
        assert!(dot.contains("0 -> 1 [label=\"recv: source 1, tag 7, context 0\"]"), "{dot}");
    }

    #[test]
    fn many_ranks_are_not_all_listed() {
        assert_eq!(list(&[4]), "rank 4");
        assert_eq!(list(&[4, 5, 6]), "ranks 4, 5 and 6");
        let many: Vec<u32> = (0..20).collect();
        assert_eq!(list(&many), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more");
    }
}
