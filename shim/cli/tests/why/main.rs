//! Jobs that hang on purpose, each in another way. `strait why` names the ranks and the reason. The
//! other commands that look into a running job are tested here, too.

mod hangs;
mod healthy;
mod tools;

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use strait::World;

use hangs::{HANGS, Hang};

/// Time after which a job must have been judged. A wait is recorded when it has lasted for some
/// milliseconds, and on a busy machine later.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The variable that names a hang to the ranks of a job.
const HANG: &str = "WHY_HANG";

/// A launcher, which is killed with its ranks when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Running {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

/// Waits until something holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < TIME_LIMIT, "{what} not within {TIME_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs `strait` with these arguments, and returns what it prints.
fn strait(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_strait")).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns what `strait why` prints about the job of a launcher, or null before there is one.
fn why(launcher: &Running) -> Value {
    let seen = strait(&["why", "--json", "--interval", "300", "--pid", &launcher.pid()]);
    serde_json::from_str(&seen).unwrap_or(Value::Null)
}

/// Returns whether `why` has found the cause of a hang.
fn names(hang: &Hang, why: &Value) -> bool {
    let (cause, ranks) = hang.cause;
    let is_named = match cause {
        "slow" => {
            why["stuck"] == json!([])
                && why["slow"]
                    .as_array()
                    .is_some_and(|slow| slow.iter().any(|it| it["rank"] == ranks[0]))
        }
        _ => {
            let stuck = why["stuck"].as_array().map_or(&[][..], Vec::as_slice);
            stuck.len() == 1 && stuck[0]["cause"] == cause && stuck[0]["ranks"] == json!(ranks)
        }
    };
    let text = why.to_string();
    is_named && hang.words.iter().all(|word| text.contains(word))
}

/// A job that goes on for ever, with traffic that its ranks draw.
const HEALTHY: &str = "healthy";

/// A job in which one rank sends short messages to the other.
const ONE_WAY: &str = "one_way";

/// A job in which two ranks send short messages in turn.
const IN_TURN: &str = "in_turn";

/// Starts a job of ranks that do what this name says.
fn start(name: &str, ranks: u32, options: &[&str]) -> Running {
    Running(command(name, ranks, options).stderr(Stdio::null()).spawn().unwrap())
}

/// Returns the command that starts a job.
fn command(name: &str, ranks: u32, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["run", "-n", &ranks.to_string()]).args(options);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "a_rank_of_a_job_that_hangs"]).env(HANG, name);
    command.stdout(Stdio::null());
    command
}

#[test]
fn no_rank_of_a_healthy_job_is_accused() {
    let job = start(HEALTHY, 4, &[]);
    wait_until("the job runs", || !why(&job).is_null());
    let looks = ["--looks", if cfg!(strait_sanitized) { "300" } else { "1000" }];
    let looks = [&looks[..], &["--interval", "60"]].concat();
    let seen = strait(&[&["why", "--json", "--pid", &job.pid()], &looks[..]].concat());
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert!(seen["ranks"].as_array().is_some_and(|ranks| ranks.len() == 4), "{seen:#}");
    assert_eq!(seen["stuck"], json!([]), "{seen:#}");
}

#[test]
fn each_hang_is_named_with_its_ranks_and_its_cause() {
    let mut open: Vec<_> =
        HANGS.iter().map(|hang| (hang, start(hang.name, hang.ranks, hang.options))).collect();
    let begin = Instant::now();
    while !open.is_empty() {
        let mut late = Vec::new();
        open.retain(|(hang, launcher)| {
            let seen = why(launcher);
            let is_named = names(hang, &seen);
            if !is_named && begin.elapsed() > TIME_LIMIT {
                late.push(format!("{}: {seen:#}", hang.name));
            }
            !is_named
        });
        assert!(late.is_empty(), "{}", late.join("\n"));
    }
}

#[test]
#[ignore = "the other test starts it, as the ranks of jobs"]
fn a_rank_of_a_job_that_hangs() {
    let Ok(name) = std::env::var(HANG) else { return };
    let world = World::init().unwrap();
    match HANGS.iter().find(|hang| hang.name == name) {
        Some(hang) => (hang.act)(world),
        None if name == ONE_WAY => healthy::send_one_way(&world),
        None if name == IN_TURN => healthy::send_in_turn(&world),
        // A rank that learns of the death of another stays, too, so that the job goes on.
        None => drop(catch_unwind(AssertUnwindSafe(|| healthy::go_on(&world)))),
    }
    // Whichever call comes back stays in the job until the job is killed.
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn reports_of_two_hosts_name_the_hang() {
    let hang = HANGS.iter().find(|hang| hang.name == "receives_between_nodes").unwrap();
    let job = start(hang.name, hang.ranks, hang.options);
    let folder = tempfile::tempdir().unwrap();
    let files = ["0", "1"].map(|host| folder.path().join(host).display().to_string());
    let mut both = String::new();
    wait_until("the reports name the hang", || {
        let whole = why(&job);
        if whole["ranks"].as_array().is_none_or(|ranks| ranks.len() != 2) {
            return false;
        }
        // Each host sees its own rank alone.
        for (host, file) in files.iter().enumerate() {
            let mut report = whole.clone();
            report["ranks"][1 - host]["state"] = json!("unseen");
            std::fs::write(file, report.to_string()).unwrap();
        }
        both = strait(&["why", "--merge", &files[0], &files[1]]);
        both.contains("ranks 0 and 1 wait for each other")
    });
    assert!(both.contains("recv: source 0, tag 7") && both.contains("source 1, tag 7"), "{both}");
    let alone = strait(&["why", "--merge", &files[0]]);
    assert!(alone.contains("in no report: rank 1"), "{alone}");
    assert!(!alone.contains("wait for each other"), "{alone}");
}

/// An agent that runs the program here. Host 0 shows rank 0 alone, host 1 rank 1 alone, and others
/// refuse.
const AGENT: &str = r#"#!/bin/sh
case $1 in
0) hidden=1 ;;
1) hidden=0 ;;
*) echo "no route to $1" >&2; exit 255 ;;
esac
shift
"$@" | sed "s/\"rank\":$hidden,\"state\":\"[a-z]*\"/\"rank\":$hidden,\"state\":\"unseen\"/"
"#;

#[test]
fn hosts_are_asked_at_once_and_those_that_refuse_are_named() {
    let hang = HANGS.iter().find(|hang| hang.name == "receives_between_nodes").unwrap();
    let job = start(hang.name, hang.ranks, hang.options);
    wait_until("the job runs", || why(&job)["ranks"].as_array().is_some_and(|it| it.len() == 2));
    let id = why(&job)["job"].as_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("agent");
    std::fs::write(&script, AGENT).unwrap();
    let agent = format!("sh {}", script.display());
    let ask = |hosts: &str, more: &[&str]| {
        let words = ["why", "--hosts", hosts, "--agent", &agent, "--interval", "300"];
        strait(&[&words[..], &["--job", &id], more].concat())
    };
    let mut both = String::new();
    wait_until("the reports name the hang", || {
        both = ask("0,1,7", &[]);
        both.contains("ranks 0 and 1 wait for each other")
    });
    assert!(both.contains("recv: source 0, tag 7") && both.contains("; on 1"), "{both}");
    assert!(both.contains("host 7 gave no report: no route to 7 (exit status: 255)"), "{both}");
    let alone: Value = serde_json::from_str(&ask("0,7", &["--json"])).unwrap();
    assert_eq!((&alone["unread"], &alone["stuck"]), (&json!([1]), &json!([])), "{alone:#}");
    assert_eq!(alone["silent"][0]["host"], "7", "{alone:#}");
    assert_eq!(alone["ranks"][0]["host"], "0", "{alone:#}");
    let elsewhere = ask("0,1", &["--program", "/no/strait"]);
    assert_eq!(elsewhere, "", "no host has the program");
}

#[test]
fn a_process_without_a_job_is_told_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["why", "--pid", &std::process::id().to_string()])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("belongs to no job of Strait"), "{told}");
}
