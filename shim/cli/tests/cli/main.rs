//! Tests of the `strait` program as users and programs run it: real ranks, little work. No test
//! depends on a time.

mod figures;
mod patterns;
mod program;
mod rendezvous;
mod windows;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use strait::boot::SegmentConfig;
use strait::{Tuning, topology};

use program::{LITTLE, bare_lines, has, run, strait};

#[test]
fn strait_alone_is_the_demo() {
    let stdout = strait(&[]).expect_success();
    // There are two ranks. A payload of 0, 1, 8, 56, 57, 1024 and 1025 bytes is sent 50 times, the
    // others 4, 3 and 1 times.
    assert!(stdout.contains(": 2 ranks on processor"), "{stdout}");
    assert!(stdout.contains("verified 720 payloads"), "{stdout}");
    for text in ["fastbox", "parcels", "GB/s", "bare cache line"] {
        assert!(stdout.contains(text), "{text} is missing in {stdout}");
    }
}

/// Tests an odd number of ranks, more than there are processors on most test machines.
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
    // A started process inherits the binding of the thread.
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

/// Tests two ranks, which are their own neighbours in one direction, and eight, which take turns on
/// most test machines. Each tile of the larger size sends rows that travel as large messages.
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
        // Beside ranks that take turns a bare line is meaningless.
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
    let settings = ["STRAIT_FASTBOX_MAX", "STRAIT_EAGER_MAX", "STRAIT_PARCEL_MAX"];
    assert_eq!(found, [&settings[..], &["STRAIT_RING_COPY_MAX", "STRAIT_RING"]].concat());
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

#[test]
fn every_bench_has_the_bare_line_before_and_after() {
    let rows = strait(&[&["bench", "rate"], &LITTLE[..]].concat()).rows();
    let bare: Vec<&Value> =
        rows.iter().filter(|row| row["bench"] == "cacheline").map(|row| &row["variant"]).collect();
    let expected: &[&str] = if bare_lines() { &["before", "after"] } else { &[] };
    assert_eq!(bare, expected);
}

#[test]
fn many_ranks_start_and_talk_to_each_other_in_little_memory() {
    let rows = strait(&["bench", "scale", "--ranks=132", "--json"]).rows();
    let highest = |variant: &str| {
        let row = rows.iter().find(|row| row["variant"] == variant && row["bench"] == "scale");
        row.unwrap_or_else(|| panic!("{variant}: {rows:?}"))["p99"].as_f64().unwrap()
    };
    for time in ["start", "first barrier", "first all-to-all", "second all-to-all"] {
        assert!(highest(time) > 0.0, "{time}");
    }
    // 16 cells of 4 KiB, half of 1 KiB for each peer, and what a rank leaves for observers.
    let shared = highest("share of the segment, after all-to-all");
    assert!((1.0..256.0 * 1024.0).contains(&shared), "{shared}");
    assert!(highest("share of the segment, joined") < shared);
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
        ("-n3", "ranks communicate in pairs"),
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

/// Both ranks report the variable at the same time.
#[test]
fn lines_of_several_ranks_are_not_mixed_up() {
    for _ in 0..5 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        let ended = run(command.args(["demo", "-n4"]).env("STRAIT_HCA", "none of these"));
        for line in ended.stderr.lines() {
            assert!(line.starts_with("strait: ") && !line[1..].contains("strait: "), "{line}");
        }
    }
}

/// Returns the number of columns of the longest line.
fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn tables_fit_eighty_columns_where_there_is_no_terminal() {
    let latency = strait(&[&["bench", "latency", "--bytes=8"], &LITTLE[..3]].concat());
    for stdout in [latency.expect_success(), strait(&["info"]).expect_success()] {
        assert!(width(&stdout) <= 80, "{stdout}");
    }
}

#[test]
fn the_help_of_bench_lists_every_bench_in_its_group() {
    let help = strait(&["bench", "--help"]).expect_success();
    assert!(width(&help) <= 80, "{help}");
    let places =
        ["patterns:", "p2p:", "  latency ", "rma:", "  put ", "rdma:", "  ring ", "hardware:"];
    let found = places.map(|place| help.find(&format!("\n{place}")).expect(place));
    assert!(found.is_sorted(), "{help}");
}

/// Each shell's completions name the commands and benches, and no command that is internal.
#[test]
fn completions_have_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = strait(&["completions", shell]).expect_success();
        for word in ["run", "bench", "completions", "latency", "cacheline", "nodes"] {
            assert!(script.contains(word), "{word} is missing for {shell}");
        }
        assert!(!script.contains("__rank"), "{shell}");
    }
    strait(&["completions", "sh"]).expect_usage_error("possible values: bash, zsh, fish");
}

/// Asks bash, where it is installed, what it offers after `strait bench la`.
#[test]
fn bash_completes_a_bench() {
    let script = strait(&["completions", "bash"]).expect_success();
    let ask = "COMP_WORDS=(strait bench la); COMP_CWORD=2; _strait strait la bench; \
               printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-c", &format!("{script}\n{ask}")]);
    match shell.output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "latency\n"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}

#[test]
fn a_rank_without_a_launcher_names_the_launcher() {
    let ended = strait(&["__rank", "--scratch=9", "demo"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.starts_with("strait: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("strait run"), "{}", ended.stderr);
}

/// Returns a function that returns the value of each named fact.
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
    let SegmentConfig { cells_per_rank, cell_payload, fastbox_lines, .. } = SegmentConfig::new(2);
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
