//! The launcher and the ranks together: this test program starts itself as a job.

use super::join::Membership;
use super::*;
use crate::liveness::LivenessWatch;
use core::time::Duration;
use strait_core::layout::Life;
use strait_core::shm::Slumber;

/// Starts a job of two ranks, each of which runs the ignored test `name` of this program.
fn job(name: &str, keep_going: bool) -> Job {
    let this = std::env::current_exe().unwrap();
    let config = SegmentConfig { cells_per_rank: 2, cell_payload: 1024, ..SegmentConfig::new(2) };
    // Discards the output of the test runner in the ranks.
    let args = [
        "-c",
        "exec \"$0\" \"$@\" > /dev/null",
        this.to_str().unwrap(),
        "--ignored",
        "--exact",
        name,
    ];
    let args = args.map(Into::into).to_vec();
    Launch { config, args, keep_going, ..Launch::new(2, "sh") }.spawn().unwrap()
}

fn life(job: &Job, rank: u32) -> Life {
    job.segment().rank_block(rank).liveness.state()
}

/// Joins, with a time limit on this process: the limit kills a process that hangs.
fn join_in_time() -> Membership {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        std::process::abort();
    });
    join().unwrap()
}

/// Waits until `rank` is marked dead.
fn watch_die(member: &Membership, rank: u32) {
    let segment = member.map.view();
    let mut watch = LivenessWatch::new(segment.ranks());
    while watch.check(segment, member.rank) != [rank] {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_rank_that_ends_without_leaving_is_dead_for_its_peers() {
    let mut job = job("boot::tests::rank_1_just_ends", false);
    let outcome = job.wait().unwrap();
    assert!(outcome.success(), "{outcome}");
    assert_eq!((life(&job, 0), life(&job, 1)), (Life::Finished, Life::Dead));
}

#[test]
#[ignore = "a rank of `a_rank_that_ends_without_leaving_is_dead_for_its_peers`"]
fn rank_1_just_ends() {
    let member = join_in_time();
    assert!(matches!(join(), Err(BootError::Twice)));
    if member.rank == 0 {
        watch_die(&member, 1);
        member.map.rank_block(0).liveness.end(Life::Finished);
    }
}

#[test]
fn the_survivor_of_a_kill_learns_of_it_and_lives() {
    let mut job = job("boot::tests::rank_1_is_killed", true);
    let segment = job.segment();
    let bell = &segment.rank_block(0).doorbell;
    bell.prepare_to_sleep(Slumber::Word, || ());
    let outcome = job.wait().unwrap();
    assert!(!bell.is_wanted(), "a rank that sleeps is woken when another dies");
    let codes: Vec<_> = outcome.exits().iter().map(RankExit::code).collect();
    assert_eq!(codes, [0, 137]);
    assert_eq!(outcome.code(), 137);
    assert_eq!((life(&job, 0), life(&job, 1)), (Life::Finished, Life::Dead));
}

#[test]
#[ignore = "a rank of `the_survivor_of_a_kill_learns_of_it_and_lives`"]
fn rank_1_is_killed() {
    let member = join_in_time();
    match member.rank {
        0 => {
            watch_die(&member, 1);
            member.map.rank_block(0).liveness.end(Life::Finished);
        }
        _ => rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap(),
    }
}

#[test]
fn a_dropped_job_leaves_no_ranks() {
    let job = Launch { args: vec!["1000".into()], ..Launch::new(3, "sleep") }.spawn().unwrap();
    let pids: Vec<_> = (0..3).map(|rank| job.pid(rank).unwrap()).collect();
    assert_eq!(job.pid(3), None);
    drop(job);
    for pid in pids {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        assert_eq!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    }
}
