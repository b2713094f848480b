//! The other commands that look into a running job: `top`, `trace`, `run --stall`.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use strait_core::layout::{LAYOUT_VERSION, MAGIC};

use super::{HEALTHY, IN_TURN, ONE_WAY, command, start, strait, wait_until, why};

fn top(pid: &str) -> Value {
    let seen = strait(&["top", "--once", "--json", "--interval", "300", "--pid", pid]);
    serde_json::from_str(&seen).unwrap_or(Value::Null)
}

#[test]
fn top_shows_ranks_with_their_rates() {
    let job = start(HEALTHY, 4, &[]);
    let mut seen = Value::Null;
    wait_until("a rank sends packets", || {
        seen = top(&job.pid());
        let ranks = seen["ranks"].as_array().cloned().unwrap_or_default();
        let rate = |rank: &Value, name: &str| rank[name].as_f64().unwrap_or(0.0);
        ranks.len() == 4
            && ranks.iter().any(|rank| rate(rank, "short_packets_per_second") > 0.0)
            && ranks.iter().any(|rank| rate(rank, "transfer_bytes_per_second") > 0.0)
    });
    let table = strait(&["top", "--once", "--interval", "100", "--pid", &job.pid()]);
    assert!(table.contains("short/s") && table.contains("lines/s"), "{table}");
}

#[test]
fn top_tells_short_messages_through_the_fastbox_from_those_through_the_baton() {
    // Messages in one direction take the fastbox, those in turn the baton.
    for (name, takes_lines) in [(ONE_WAY, true), (IN_TURN, false)] {
        let job = start(name, 2, &[]);
        let mut seen = Value::Null;
        wait_until("the path of the messages is seen", || {
            seen = top(&job.pid());
            let to = &seen["ranks"][0]["peers"][0];
            let rate = |name: &str| to[name].as_f64().unwrap_or(-1.0);
            let (packets, lines) =
                (rate("short_packets_per_second"), rate("fastbox_lines_per_second"));
            to["rank"] == 1 && packets > 0.0 && (lines > packets / 2.0) == takes_lines
        });
        assert!(seen["ranks"][0]["fastbox_lines_per_second"].is_f64(), "{seen:#}");
    }
}

/// Returns the events of each rank in a trace.
fn events(trace: &Value, rank: u32) -> Vec<&Value> {
    let events = trace["traceEvents"].as_array().expect("a list of events");
    events.iter().filter(|event| event["pid"] == rank && event["ph"] != "M").collect()
}

#[test]
fn the_last_events_of_killed_ranks_are_readable() {
    let job = start(HEALTHY, 4, &["--keep-going", "-x", "STRAIT_RECORD=events"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    let trace = || -> Value {
        strait(&["trace", "--pid", &job.pid(), "-o", file.to_str().unwrap()]);
        let text = fs::read_to_string(&file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    };
    wait_until("each rank has events, and one of them locks a window", || {
        let seen = trace();
        seen["traceEvents"].is_array()
            && (0..4).all(|rank| !events(&seen, rank).is_empty())
            && (0..4).flat_map(|rank| events(&seen, rank)).any(|event| event["cat"] == "epoch")
    });
    let seen = why(&job);
    for rank in 1..4 {
        let pid = seen["ranks"][rank]["pid"].as_i64().unwrap() as i32;
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    wait_until("the ranks are dead", || {
        (1..4).all(|rank| why(&job)["ranks"][rank]["state"] == "dead")
    });
    let seen = trace();
    for rank in 0..4 {
        let events = events(&seen, rank);
        assert!(!events.is_empty(), "rank {rank} left no events: {seen:#}");
        let times: Vec<f64> = events.iter().map(|event| event["ts"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[test]
fn a_job_that_stalls_says_why_and_ends_if_asked() {
    let hang = ["--stall", "1", "--stall-end"];
    let ended = command("a_ring_of_receives", 3, &hang).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{said}");
    assert!(said.contains("no rank has moved for"), "{said}");
    assert!(said.contains("ranks 0, 1 and 2 wait for each other"), "{said}");
    assert!(said.contains("the job is stuck, and ends"), "{said}");
}

#[test]
fn a_segment_with_garbage_is_refused_with_a_reason() {
    let header = |version: u32| {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend(version.to_ne_bytes());
        bytes.resize(4096, 0xa5);
        bytes
    };
    for (version, reason) in [(LAYOUT_VERSION + 1, "version"), (LAYOUT_VERSION, "cannot be read")] {
        let file = memfd_create(c"strait", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let mut file = File::from(file.unwrap());
        file.write_all(&header(version)).unwrap();
        rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).unwrap();
        let mut holder = Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_strait"))
            .args(["why", "--pid", &holder.id().to_string()])
            .output()
            .unwrap();
        holder.kill().and_then(|()| holder.wait()).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(reason), "{said}");
        assert!(said.contains("cannot be read"), "{said}");
    }
}

#[test]
fn another_user_sees_nothing() {
    if !rustix::process::geteuid().is_root() {
        // Only root can become another user.
        return;
    }
    let job = start(HEALTHY, 2, &[]);
    wait_until("the job runs", || !why(&job).is_null());
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("strait");
    fs::copy(env!("CARGO_BIN_EXE_strait"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for words in [&["why", "--pid", &job.pid()][..], &["top", "--once", "--pid", &job.pid()]] {
        let mut stranger = Command::new(&program);
        let output = stranger.args(words).uid(65534).gid(65534).current_dir("/").output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success(), "{said}");
        assert!(!said.contains("rank 0"), "{said}");
    }
    assert!(!why(&job).is_null(), "the owner of the job sees it");
}
