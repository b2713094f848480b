//! The `strait` program as people and programs use it: real ranks, little work. Nothing here looks at a time.

mod locks;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use strait::boot::Config;
use strait::{Rendezvous, Tuning, topology};

/// A program that takes longer hangs: it is killed, and the test fails.
const TIME_LIMIT: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// Few and short samples.
const LITTLE: [&str; 4] = ["--samples=3", "--iterations=5", "--seconds=5", "--json"];

const KEYS: [&str; 12] = [
    "bench",
    "variant",
    "transport",
    "ranks",
    "nodes",
    "bytes",
    "metric",
    "unit",
    "min",
    "p50",
    "p99",
    "samples",
];

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs `strait` with these words.
fn strait(words: &[&str]) -> Ended {
    run(Command::new(env!("CARGO_BIN_EXE_strait")).args(words))
}

fn run(command: &mut Command) -> Ended {
    let (stdout, stderr) = (tempfile::NamedTempFile::new(), tempfile::NamedTempFile::new());
    let (stdout, stderr) = (stdout.unwrap(), stderr.unwrap());
    let mut process = command
        .stdin(Stdio::null())
        .stdout(stdout.reopen().unwrap())
        .stderr(stderr.reopen().unwrap())
        .spawn()
        .unwrap();
    let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).unwrap();
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let ended = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&TIME_LIMIT))).unwrap() == 1;
    if !ended {
        process.kill().unwrap();
    }
    let code = process.wait().unwrap().code();
    let [stdout, stderr] =
        [stdout, stderr].map(|file| std::fs::read_to_string(file.path()).unwrap());
    assert!(ended, "{command:?} hung.\nstdout: {stdout}\nstderr: {stderr}");
    Ended { code, stdout, stderr }
}

impl Ended {
    #[track_caller]
    fn expect_success(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "stdout: {}", self.stdout);
        self.stdout
    }

    /// The rows, each of which has exactly the keys.
    #[track_caller]
    fn rows(self) -> Vec<Value> {
        let stdout = self.expect_success();
        let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let rows: Vec<Value> = rows.collect();
        for row in &rows {
            let found: BTreeSet<&str> =
                row.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(found, BTreeSet::from(KEYS), "{row}");
            let is_device = row["bench"] == "hca" || row["nodes"] != 1;
            assert_eq!(row["transport"] == "shm", !is_device, "{row}");
            let [min, p50] = ["min", "p50"].map(|key| row[key].as_f64().unwrap());
            assert!(0.0 <= min && min <= p50, "{row}");
        }
        rows
    }

    /// A refusal of clap's: code 2, and what is wrong on standard error.
    #[track_caller]
    fn expect_usage_error(self, text: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{}", self.stderr);
        assert!(self.stderr.contains(text), "{}", self.stderr);
    }
}

/// Whether the rows have one with this bench, metric and size.
fn has(rows: &[Value], bench: &str, metric: &str, bytes: u64) -> bool {
    rows.iter().any(|row| row["bench"] == bench && row["metric"] == metric && row["bytes"] == bytes)
}

/// Whether ranks of a pair have a processor each, so that there is a bare line to measure.
fn bare_lines() -> bool {
    topology::allowed_cpu_count() > 1
}

#[test]
fn strait_alone_is_the_demo() {
    let stdout = strait(&[]).expect_success();
    // Two ranks: a payload of 0, 1, 8, 56, 57, 1024 and 1025 bytes 50 times, the others 4, 3 and 1 times.
    assert!(stdout.contains(": 2 ranks on processor"), "{stdout}");
    assert!(stdout.contains("verified 720 payloads"), "{stdout}");
    for text in ["fastbox", "parcels", "GB/s", "bare cache line"] {
        assert!(stdout.contains(text), "{text} is missing in {stdout}");
    }
}

/// An odd number of ranks, more than there are processors on most machines that test this.
#[test]
fn the_demo_takes_more_ranks() {
    let stdout = strait(&["demo", "-n", "3"]).expect_success();
    // Each rank sends to two others.
    assert!(stdout.contains(": 3 ranks on processor"), "{stdout}");
    assert!(stdout.contains("verified 2160 payloads"), "{stdout}");
}

#[test]
fn one_processor_is_enough() {
    let cpu = topology::allowed_cpus().unwrap()[0];
    // The binding of a thread goes over to what it starts.
    let stdout = std::thread::spawn(move || {
        topology::pin_to(cpu).unwrap();
        strait(&["demo"]).expect_success()
    });
    let stdout = stdout.join().unwrap();
    assert!(stdout.contains(&format!("on processor {cpu}, taking turns")), "{stdout}");
    assert!(stdout.contains("bare cache line: not measured"), "{stdout}");
}

#[test]
fn latency_has_a_row_for_each_size() {
    let rows = strait(&[&["bench", "latency", "--bytes=0,8,2K,40K"], &LITTLE[..]].concat()).rows();
    for bytes in [0, 8, 2048, 40_960] {
        assert!(has(&rows, "latency", "latency", bytes), "{rows:?}");
        assert_eq!(has(&rows, "latency", "ratio", bytes), bare_lines(), "{rows:?}");
    }
    let latency = rows.iter().find(|row| row["metric"] == "latency").unwrap();
    assert_eq!((&latency["samples"], &latency["ranks"]), (&3.into(), &2.into()));
}

#[test]
fn bandwidth_and_rate_of_two_pairs() {
    for (bench, metric, bytes) in [("bandwidth", "bandwidth", 70_000), ("rate", "rate", 8)] {
        let size = format!("--bytes={bytes}");
        let rows = strait(&[&["bench", bench, "-n4", &size], &LITTLE[..]].concat()).rows();
        assert!(has(&rows, bench, metric, bytes), "{rows:?}");
        assert!(rows.iter().all(|row| row["ranks"] == 4), "{rows:?}");
    }
}

#[test]
fn one_sided_operations_stand_beside_what_is_bare() {
    for (bench, sizes) in [("put", 2), ("get", 2), ("accumulate", 4)] {
        for memory in ["segment", "private"] {
            let memory = format!("--memory={memory}");
            let arguments = ["bench", bench, "-n4", "--bytes=40K", &memory];
            let rows = strait(&[&arguments, &LITTLE[..]].concat()).rows();
            let times = rows.iter().filter(|row| row["metric"] == "time").count();
            assert_eq!(times, sizes, "{rows:?}");
            assert!(has(&rows, bench, "time", 8) && has(&rows, bench, "time", 40_960), "{rows:?}");
            assert_eq!(has(&rows, bench, "swap", 8), bare_lines(), "{rows:?}");
            assert_eq!(has(&rows, bench, "memcpy", 40_960), memory.ends_with("segment"));
        }
    }
    let rows = strait(&[&["bench", "sync"], &LITTLE[..]].concat()).rows();
    assert_eq!(rows.iter().filter(|row| row["metric"] == "time").count(), 4, "{rows:?}");
    assert_eq!(has(&rows, "sync", "ratio", 0), bare_lines(), "{rows:?}");
}

/// Two ranks are their own neighbours in one direction; eight take turns on most machines that test this. Each tile of
/// the larger size sends rows that travel as large messages.
#[test]
fn halo_has_every_kind_of_calls_for_each_tile() {
    for ranks in [2, 4, 8] {
        let number = format!("-n{ranks}");
        let rows =
            strait(&[&["bench", "halo", &number, "--tiles=2,3000"], &LITTLE[..]].concat()).rows();
        for (side, calls) in [2, 3000].into_iter().flat_map(|side| {
            ["sendrecv", "isend, irecv", "persistent order"].map(|calls| (side, calls))
        }) {
            let found = rows.iter().find(|row| {
                (&row["bench"], &row["metric"]) == (&"halo".into(), &"time".into())
                    && (&row["bytes"], &row["variant"]) == (&(8 * side).into(), &calls.into())
            });
            let row = found.unwrap_or_else(|| panic!("{side}, {calls}: {rows:?}"));
            assert_eq!((&row["ranks"], &row["samples"]), (&ranks.into(), &3.into()));
        }
        // Beside ranks that take turns a bare line says nothing.
        let own_processors = topology::allowed_cpu_count() >= ranks;
        assert_eq!(has(&rows, "halo", "line", 16), own_processors, "{rows:?}");
        assert_eq!(has(&rows, "cacheline", "line", 8), bare_lines(), "{rows:?}");
    }
}

#[test]
fn tune_prints_a_crossover_for_each_setting() {
    let stdout = strait(&["tune", "--samples=2", "--json"]).expect_success();
    let rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found = rows.iter().filter(|row| row["tune"].is_string());
    let found: Vec<&Value> = found.map(|row| &row["variable"]).collect();
    assert_eq!(found, ["STRAIT_FASTBOX_MAX", "STRAIT_EAGER_MAX", "STRAIT_PARCEL_MAX"]);
    let people = strait(&["tune", "--samples=2"]).expect_success();
    assert!(people.contains("export STRAIT_EAGER_MAX="), "{people}");
}

#[test]
fn depth_goes_to_ten_thousand_for_each_queue() {
    let rows = strait(&[&["bench", "depth"], &LITTLE[..]].concat()).rows();
    let variants: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row["bench"] == "depth")
        .map(|row| row["variant"].as_str().unwrap())
        .collect();
    let queues = [
        "posted",
        "posted, wildcards",
        "unexpected",
        "unexpected, any source",
        "unexpected, any tag",
    ];
    let expected: BTreeSet<String> = [1, 10, 100, 1000, 10_000]
        .into_iter()
        .flat_map(|depth| queues.map(|queue| format!("{queue}, depth {depth}")))
        .collect();
    assert_eq!(variants, expected.iter().map(String::as_str).collect());
    assert_eq!(has(&rows, "cacheline", "line", 8), bare_lines(), "{rows:?}");
}

#[test]
fn the_bare_device_is_measured_in_each_mode() {
    let rows = strait(&[&["bench", "hca", "--bytes=8,20K"], &LITTLE[..]].concat()).rows();
    for device in ["soft-inline", "soft-engine"] {
        for (variant, metric) in [
            ("write", "latency"),
            ("read", "latency"),
            ("send", "latency"),
            ("fetch-and-add", "latency"),
            ("writes", "bandwidth"),
        ] {
            let is_it = |row: &Value| {
                row["transport"] == device && row["variant"] == variant && row["metric"] == metric
            };
            assert!(rows.iter().any(is_it), "{device}, {variant}: {rows:?}");
        }
    }
}

const ON_NODE: (&str, &str) = ("--nodes=1", "shm");
const BETWEEN_NODES: (&str, &str) = ("--nodes=2", "soft-engine");

/// Every setting: rows that are not there, data that are wrong and ranks that wait for ever are what this finds. One sample of
/// each, however long it takes.
fn rendezvous_bench(bench: &str, places: &[(&str, &str)], cases: &[&str], metrics: &[&str]) {
    for &(nodes, transport) in places {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.args(["bench", bench, nodes, "--bytes=40K", "--iterations=2", "--json"]);
        // Computations as short as this.
        command.args(["--samples=1", "--seconds=0.001"]);
        command.env_remove("STRAIT_HCA").env_remove("STRAIT_LMT");
        let ended = run(&mut command);
        if !bare_lines() {
            assert_eq!(ended.code, Some(1));
            assert!(ended.stderr.starts_with("strait: this bench needs two processors"));
            return;
        }
        let rows = ended.rows();
        for (case, setting) in
            cases.iter().flat_map(|case| Rendezvous::ALL.map(|setting| (case, setting.name())))
        {
            let variant = format!("{case}, {setting}");
            for metric in metrics {
                let is_it = |row: &Value| {
                    (&row["bench"], &row["metric"]) == (&bench.into(), &(*metric).into())
                        && (&row["variant"], &row["transport"])
                            == (&variant[..].into(), &transport.into())
                };
                let found = rows.iter().filter(|row| is_it(row)).count();
                let expected = usize::from(is_of_plain(metric) || setting != "plain");
                assert_eq!(found, expected, "{variant}, {metric}: {rows:?}");
            }
        }
    }
}

/// Whether the plain rendezvous has a row of this, which is held against it and sends no RTR.
fn is_of_plain(metric: &str) -> bool {
    !["ratio", "sent", "heard", "used", "dropped"].contains(&metric)
}

const BOTH: [(&str, &str); 2] = [ON_NODE, BETWEEN_NODES];

const ROLES: [&str; 4] = [
    "receiver computes, sender first",
    "receiver computes, receiver first",
    "sender computes, sender first",
    "sender computes, receiver first",
];

#[test]
fn overlap_has_both_sides_and_both_orders() {
    rendezvous_bench("overlap", &BOTH, &ROLES, &["time", "overlap", "stolen"]);
}

#[test]
fn progress_has_each_amount_of_computation() {
    let cases: Vec<String> = ["0", "0.5", "1", "1.5", "2", "3"]
        .iter()
        .flat_map(|part| ROLES.map(|roles| format!("{roles}, {part} of its time")))
        .collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    rendezvous_bench("progress", &[ON_NODE], &cases, &["time", "left"]);
}

#[test]
fn exchange_has_each_model_and_ratio() {
    let cases: Vec<String> = ["no computation", "4", "2", "1", "0.8", "0.5", "0.2"]
        .iter()
        .flat_map(|ratio| ["model 1", "model 2", "halo"].map(|model| format!("{model}, {ratio}")))
        .collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    rendezvous_bench("exchange", &[ON_NODE], &cases, &["time", "ratio", "sent", "used"]);
}

#[test]
fn kernels_have_their_waits() {
    let cases: Vec<String> = ["CG", "BT", "LU", "RADIX"]
        .iter()
        .flat_map(|kernel| ["iteration", "waits"].map(|what| format!("{kernel}, {what}")))
        .collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    rendezvous_bench("kernels", &BOTH, &cases, &["time", "ratio"]);
}

#[test]
fn overhead_has_messages_that_cross() {
    rendezvous_bench(
        "overhead",
        &[BETWEEN_NODES],
        &["there and back", "crossing"],
        &["time", "ratio"],
    );
}

#[test]
fn every_bench_has_the_bare_line_before_and_after() {
    let rows = strait(&[&["bench", "rate"], &LITTLE[..]].concat()).rows();
    let bare: Vec<&Value> =
        rows.iter().filter(|row| row["bench"] == "cacheline").map(|row| &row["variant"]).collect();
    let expected: &[&str] = if bare_lines() { &["before", "after"] } else { &[] };
    assert_eq!(bare, expected);
}

#[test]
fn the_bare_hardware_has_its_own_bench() {
    let ended = strait(&[&["bench", "cacheline"], &LITTLE[..]].concat());
    if !bare_lines() {
        assert_eq!(ended.code, Some(1));
        assert!(
            ended.stderr.starts_with("strait: this bench needs two processors"),
            "{}",
            ended.stderr
        );
        return;
    }
    let rows = ended.rows();
    for variant in ["store + spin", "store + spin with pause", "compare-and-swap"] {
        assert!(rows.iter().any(|row| row["variant"] == variant), "{variant}: {rows:?}");
    }
    assert!(has(&rows, "cacheline", "gap", 8), "{rows:?}");
}

#[test]
fn impossible_options_are_refused() {
    for (option, text) in [
        ("--bytes=8,x", "such as 8, 64K or 1M"),
        ("--bytes=65M", "at most 64M"),
        ("--bytes=", "such as 8, 64K or 1M"),
        ("-n3", "ranks talk in pairs"),
        ("--samples=0", "--samples"),
        ("--seconds=0", "above 0"),
    ] {
        strait(&["bench", "latency", option]).expect_usage_error(text);
    }
    for tiles in ["--tiles=1", "--tiles=2,x", "--tiles=4097", "--tiles="] {
        strait(&["bench", "halo", tiles]).expect_usage_error("from 2 to 4096");
    }
    strait(&["demo", "-n1"]).expect_usage_error("2..=64");
    strait(&["bench"]).expect_usage_error("Usage");
    strait(&["sing"]).expect_usage_error("unrecognized subcommand 'sing'");
}

#[test]
fn a_bad_variable_ends_a_bench_with_its_name() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["bench", "latency", "--bytes=8"]).env("STRAIT_FASTBOX_MAX", "many");
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("strait: environment variable STRAIT_FASTBOX_MAX is \"many\""));
}

#[test]
fn a_rank_by_hand_is_told_to_use_the_launcher() {
    let ended = strait(&["__rank", "--scratch=9", "demo"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.starts_with("strait: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("strait run"), "{}", ended.stderr);
}

/// The value of each named fact.
fn facts(command: &mut Command) -> impl Fn(&str) -> String + use<> {
    let stdout = run(command).expect_success();
    let facts: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    move |name| {
        let fact = facts.iter().find(|fact| fact["name"] == name);
        fact.unwrap_or_else(|| panic!("{name} is missing"))["value"].as_str().unwrap().to_owned()
    }
}

#[test]
fn info_has_the_numbers_in_force() {
    let info = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.args(["info", "--json"]).env_remove("STRAIT_FASTBOX_MAX");
        command
    };
    let fact = facts(&mut info());
    let Config { cells_per_rank, cell_payload, fastbox_lines, .. } = Config::new(2);
    assert_eq!(fact("fastbox_max"), format!("{} B", Tuning::default().fastbox_max));
    assert_eq!(fact("cells_per_rank"), cells_per_rank.to_string());
    assert_eq!(fact("cell_payload"), format!("{cell_payload} B"));
    assert_eq!(fact("fastbox_lines"), fastbox_lines.to_string());
    assert_eq!(fact("strait"), env!("CARGO_PKG_VERSION"));
    assert_eq!(fact("memfd, sealed"), "usable");
    assert!(fact("processors").starts_with(&format!("{} (", topology::allowed_cpu_count())));

    let fact = facts(info().env("STRAIT_FASTBOX_MAX", "500"));
    assert_eq!((fact("fastbox_max"), fact("STRAIT_FASTBOX_MAX")), ("500 B".into(), "500".into()));
    let fact = facts(info().env("STRAIT_FASTBOX_MAX", "many"));
    assert_eq!(fact("fastbox_max"), "unusable");
}

#[test]
fn info_for_people_has_everything_too() {
    let stdout = strait(&["info"]).expect_success();
    for name in strait::env::VARIABLES.iter().map(|variable| variable.name) {
        assert!(stdout.contains(name), "{name} is missing in {stdout}");
    }
    for name in [
        "process_vm_readv",
        "huge pages, allocated",
        "heap_bytes",
        "ibverbs",
        "cell_payload",
        "segment layout",
    ] {
        assert!(stdout.contains(name), "{name} is missing in {stdout}");
    }
}
