//! Before the first message and after the last: a job that cannot start reports why, and a job that
//! succeeds prints nothing.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, test_kill_process};
use strait::boot::{KeyValueStore, Launch, RankExit, SegmentConfig, StoreError};
use strait::{Warning, World};
use strait_core::layout::{AttachError, LAYOUT_VERSION, Segment};
use strait_core::shm::{FastboxReceiver, FastboxSender};
use strait_core::wire::{Key, PacketKind, Sequence};
use strait_tests::{Arena, NONCE, Ranks, shape, traffic};

#[test]
fn a_process_without_a_launcher_explains_how_to_get_one() {
    let error = World::init().unwrap_err().to_string();
    assert!(error.contains("strait run -n N PROGRAM"), "{error}");
}

#[test]
#[ignore = "the process that `an_environment_that_cannot_be_is_named` starts"]
fn join_in_a_given_environment() {
    println!("[{}]", World::init().unwrap_err());
}

#[test]
fn an_environment_that_cannot_be_is_named() {
    let good = [("STRAIT_BOOT_FD", "77"), ("STRAIT_RANK", "0"), ("STRAIT_SIZE", "2")];
    for (variable, value, expected) in [
        ("STRAIT_RANK", "2", "STRAIT_RANK is \"2\""),
        ("STRAIT_RANK", "-1", "STRAIT_RANK is \"-1\""),
        ("STRAIT_RANK", "one", "STRAIT_RANK is \"one\""),
        ("STRAIT_SIZE", "0", "STRAIT_SIZE is \"0\""),
        ("STRAIT_SIZE", "", "STRAIT_SIZE is \"\""),
        ("STRAIT_BOOT_FD", "2", "STRAIT_BOOT_FD is \"2\""),
        ("STRAIT_BOOT_FD", "77", "descriptor 77 (STRAIT_BOOT_FD) is not the launcher's socket"),
        ("STRAIT_FASTBOX_MAX", "1000000", "STRAIT_FASTBOX_MAX is \"1000000\""),
        // These settings matter later or never, but are checked before anything begins.
        ("STRAIT_WINDOW_LOCK", "spin", "STRAIT_WINDOW_LOCK is \"spin\""),
        (
            "STRAIT_WINDOW_LOCK",
            "hybrid:history:3:2",
            "STRAIT_WINDOW_LOCK is \"hybrid:history:3:2\"",
        ),
        ("STRAIT_WINDOW", "", "STRAIT_WINDOW is \"\""),
        ("STRAIT_PACK_MAX", "many", "STRAIT_PACK_MAX is \"many\""),
        ("STRAIT_HCA_GID", "256", "STRAIT_HCA_GID is \"256\""),
        ("STRAIT_RING", "round", "STRAIT_RING is \"round\""),
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "join_in_a_given_environment", "--ignored", "--nocapture"])
            .envs(good)
            .env(variable, value)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(expected), "{variable}={value}: {text}");
        assert!(output.status.success(), "{text}");
    }
}

#[test]
fn a_segment_that_is_not_ours_is_refused_with_what_is_wrong() {
    let arena = Arena::new(shape::tiny(2, 1));
    let attach = |length, nonce, rank| {
        // SAFETY: the arena is page-aligned, at least `length` long and outlives the call.
        unsafe { Segment::attach(arena.base(), length, nonce, rank) }.map(drop)
    };
    let length = arena.length();
    assert_eq!(attach(length, NONCE, 1), Ok(()));
    assert_eq!(attach(length, NONCE, 2), Err(AttachError::Rank { rank: 2, ranks: 2 }));
    assert_eq!(attach(8, NONCE, 1), Err(AttachError::TooShort { mapped: 8 }));
    let other = AttachError::Nonce { found: NONCE, expected: NONCE + 1 };
    assert_eq!(attach(length, NONCE + 1, 1), Err(other));
    assert!(matches!(attach(length - 1, NONCE, 1), Err(AttachError::Length { .. })));

    arena.scribble(8, &(LAYOUT_VERSION + 1).to_ne_bytes());
    let error = attach(length, NONCE, 1).unwrap_err();
    assert_eq!(error, AttachError::Version { found: LAYOUT_VERSION + 1 });
    assert!(error.to_string().contains("same version of strait"), "{error}");
    arena.scribble(8, &LAYOUT_VERSION.to_ne_bytes());

    arena.scribble(0, b"#!/bin/s");
    let found = u64::from_le_bytes(*b"#!/bin/s");
    assert_eq!(attach(length, NONCE, 1), Err(AttachError::Magic { found }));
}

/// For any content of the header, attaching returns a result and does not crash.
#[test]
fn a_damaged_header_is_an_error_or_harmless() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let arena = Arena::new(shape::tiny(2, 1));
        for _ in 0..rng.usize(1..4) {
            let value = [rng.u32(..), rng.u32(0..100), u32::MAX, 0][rng.usize(0..4)];
            arena.scribble(rng.usize(0..12) * 4, &value.to_ne_bytes());
        }
        // SAFETY: the arena is page-aligned, has its stated length and outlives the view.
        let attached = unsafe { Segment::attach(arena.base(), arena.length(), NONCE, 1) };
        if let Ok(segment) = attached {
            assert!(segment.plan().total_bytes() <= arena.length());
        }
    }
}

#[test]
fn a_segment_that_does_not_fit_the_machine_is_refused() {
    let huge =
        SegmentConfig { cells_per_rank: 1 << 20, cell_payload: 1 << 20, ..SegmentConfig::new(64) };
    for error in [
        Launch { config: huge, ..Launch::new(64, "true") }.spawn().unwrap_err().to_string(),
        World::builder().segment(huge).in_process(64).unwrap_err().to_string(),
    ] {
        assert!(error.contains("shared memory is short"), "{error}");
        assert!(error.contains("MiB needed") && error.contains("use fewer"), "{error}");
    }
    let endless = SegmentConfig { cells_per_rank: u32::MAX, ..SegmentConfig::new(u32::MAX) };
    let error = World::builder().segment(endless).in_process(u32::MAX).unwrap_err().to_string();
    assert!(error.contains("does not fit the address space"), "{error}");
    let error = World::in_process(0).unwrap_err().to_string();
    assert!(error.contains("at least 1 rank"), "{error}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let error = Launch::new(2, "no-such-program").spawn().unwrap_err().to_string();
    assert!(error.contains("\"no-such-program\" as rank 0"), "{error}");
    assert!(error.contains("in PATH"), "{error}");
}

#[test]
fn a_working_run_says_nothing() {
    let ended = Ranks::new(2, "a_working_run_says_nothing").run(|world| {
        let endpoint = world.endpoint();
        for length in [0, 8, 1000, 100_000] {
            let (bytes, mut room) = (vec![7_u8; length], vec![0_u8; length]);
            let peer = 1 - world.rank();
            endpoint.sendrecv(&bytes, peer, 0, &mut room, peer, 0).unwrap();
            assert_eq!(bytes, room);
        }
        world.finalize().unwrap();
    });
    assert_eq!(ended.stderr, ["", ""]);
    for stdout in ended.stdout {
        // The test runner's own output, which depends on its version and options.
        let said = |line: &&str| !line.is_empty() && !line.starts_with("running 1 test");
        let lines: Vec<_> = stdout.lines().filter(said).collect();
        assert!(lines.iter().all(|line| line.starts_with("test a_working_run_says")), "{lines:?}");
    }
}

/// The store of a job of one rank.
#[derive(Debug)]
struct OwnStore(HashMap<String, Vec<u8>>);

impl KeyValueStore for OwnStore {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.0.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn fence(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        std::process::exit(code);
    }
}

#[test]
#[ignore = "the process that `a_mistyped_variable_is_a_warning_and_is_not_printed` starts"]
fn take_warnings() {
    let world = World::init_with(0, 1, Box::new(OwnStore(HashMap::new())), None).unwrap();
    let warnings = world.take_warnings();
    let [Warning::UnknownVariable(unknown)] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!((&*unknown.name, unknown.nearest), ("STRAIT_EAGR_MAX", Some("STRAIT_EAGER_MAX")));
    assert_eq!(world.take_warnings(), []);
    world.finalize().unwrap();
}

#[test]
fn a_mistyped_variable_is_a_warning_and_is_not_printed() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "take_warnings", "--ignored"])
        .env("STRAIT_EAGR_MAX", "1")
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let mut launch = Launch::new(3, std::env::current_exe().unwrap());
    launch.args = ["--exact", "abort_the_job", "--ignored"].map(Into::into).to_vec();
    let outcome = launch.spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.code(), 7, "{outcome}");
    assert_eq!(outcome.first_failure().map(|first| first.rank), Some(1));
    assert!(outcome.to_string().ends_with("aborted the job with code 7"), "{outcome}");
}

#[test]
#[ignore = "a rank of `an_abort_ends_the_job_with_its_code`"]
fn abort_the_job() {
    let world = World::init().unwrap();
    if world.rank() == 1 {
        world.abort(7);
    }
    let told = world.endpoint().recv(&mut [0_u8], 1, 0);
    assert!(told.is_err(), "a rank that aborts is dead for its peers");
    std::thread::sleep(core::time::Duration::from_secs(60));
}

/// A launcher that a test kills. It prints the processes of its ranks.
#[test]
#[ignore = "the process that `a_killed_launcher_takes_its_ranks_along` starts"]
fn launch_until_killed() {
    let mut launch = Launch::new(2, std::env::current_exe().unwrap());
    let select = ["--exact", "talk_until_killed", "--ignored"];
    launch.args = select.map(Into::into).to_vec();
    let mut job = launch.spawn().unwrap();
    println!("\nranks {} {}", job.pid(0).unwrap(), job.pid(1).unwrap());
    job.wait().unwrap();
}

#[test]
#[ignore = "a rank of `launch_until_killed`"]
fn talk_until_killed() {
    let world = World::init().unwrap();
    loop {
        traffic::run(&world, 0, 10, 10_000);
    }
}

#[test]
fn a_killed_launcher_takes_its_ranks_along() {
    let mut launcher = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "launch_until_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    let ranks: Vec<Pid> = lines
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("ranks ").map(str::to_owned))
        .expect("the launcher names its ranks")
        .split(' ')
        .map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap())
        .collect();
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    let deadline = std::time::Instant::now() + core::time::Duration::from_secs(60);
    for rank in ranks {
        while is_running(rank) {
            assert!(std::time::Instant::now() < deadline, "{rank:?} survived its launcher");
            std::thread::yield_now();
        }
    }
    strait_tests::assert_no_segment_has_a_name();
}

/// Returns whether a process exists and is no zombie: the process that inherited it reaps it in its
/// own time.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    let zombie = stat
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')));
    test_kill_process(pid).is_ok() && !zombie
}

/// The paper's fastbox: one line in each direction and no baton. The fastbox lies in the place of
/// the baton.
#[test]
fn without_a_baton_no_message_counts_as_the_batons() {
    let arena = Arena::new(SegmentConfig { baton_lines: 0, ..shape::tiny(2, 1) });
    // SAFETY: the arena is page-aligned, long enough, and outlives the segment.
    let segment = unsafe { Segment::attach(arena.base(), arena.length(), NONCE, 1) }.unwrap();
    let mut sender = FastboxSender::new(segment.fastbox(0, 1));
    let receiver = FastboxReceiver::new(segment.fastbox(0, 1));
    let first = Sequence::first(0, 1);
    assert_eq!(sender.send(first, PacketKind::Eager, Key::new(0, 0), 0, |_, _, _| {}), Ok(true));
    assert_eq!(segment.baton(1, 0).peek(first), None);
    assert!(receiver.peek(first).is_some());
}

#[test]
#[ignore = "a rank of `a_death_at_the_start_is_reported_as_one`"]
fn join_while_another_dies() {
    if std::env::var("STRAIT_RANK").as_deref() == Ok("1") {
        strait_tests::die();
    }
    let error = World::init().map(drop).unwrap_err().to_string();
    assert!(error.contains("rank 1 has ended"), "{error}");
    assert!(!error.contains("no network") && !error.contains("STRAIT_HCA"), "{error}");
    // The launcher must not take this exit for the first failure.
    std::process::exit(1);
}

#[test]
fn a_death_at_the_start_is_reported_as_one() {
    let mut launch =
        Launch { nodes: 3, keep_going: true, ..Launch::new(3, std::env::current_exe().unwrap()) };
    launch.args = ["--exact", "join_while_another_dies", "--ignored"].map(Into::into).to_vec();
    let outcome = launch.spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.first_failure().map(|first| first.rank), Some(1), "{outcome}");
    let codes: Vec<_> = outcome.exits().iter().map(RankExit::code).collect();
    assert_eq!(codes, [1, 137, 1], "101: an assertion failed");
}

#[test]
#[ignore = "a rank of `ranks_with_devices_of_different_kinds_are_refused`"]
fn join_with_another_device() {
    println!("[{}]", World::init().map(drop).unwrap_err());
    std::process::exit(3);
}

/// Sets the devices of ranks 0 and 1, and of the others. An empty word sets none.
const DEVICES: &str = "case $STRAIT_RANK in 0) hca=$1 ;; 1) hca=$2 ;; *) hca=$3 ;; esac
    [ -z \"$hca\" ] || export STRAIT_HCA=$hca
    out=$4.$STRAIT_RANK; shift 4; exec \"$@\" > $out";

#[test]
fn ranks_with_devices_of_different_kinds_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (devices, nodes, expected) in [
        (["none", "soft-inline", "none"], 2, "soft on node 0 (rank 1)"),
        (["verbs", "verbs", "soft-inline"], 2, "verbs on node 0 (ranks 0-1), soft on node 1"),
        (["", "", "verbs:rxe0"], 2, "soft because it is not set on node 0 (ranks 0-1), verbs"),
        (["soft-engine", "none", "none"], 4, "soft on node 0 (rank 0), none on nodes 1-3"),
    ] {
        let mut launch = Launch { nodes, keep_going: true, ..Launch::new(4, "sh") };
        let output = directory.path().join("said");
        let program = std::env::current_exe().unwrap();
        let select = ["--exact", "join_with_another_device", "--ignored", "--nocapture"];
        let words = ["-c", DEVICES, "sh"].into_iter().chain(devices).map(Into::into);
        launch.args = words.chain([output.clone().into(), program.into()]).collect();
        launch.args.extend(select.map(Into::into));
        let outcome = launch.spawn().unwrap().wait().unwrap();
        for exit in outcome.exits() {
            let said = output.with_extension(exit.rank.to_string());
            let said = std::fs::read_to_string(said).unwrap();
            assert!(said.contains(expected) && said.contains("same kind"), "{exit}: {said}");
            assert_eq!(exit.code(), 3, "{exit}: {said}");
        }
    }
}
