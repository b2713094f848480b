use super::*;
use crate::segment::SegmentMap;
use std::process::{Child, Command, Stdio};
use strait_core::layout::SegmentConfig;

fn map(ranks: u32) -> SegmentMap {
    let config =
        SegmentConfig { cells_per_rank: 2, cell_payload: 1024, ..SegmentConfig::new(ranks) };
    SegmentMap::create(config, 1).unwrap()
}

/// Starts a process that lives until its standard input ends.
fn process() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn attach(segment: &Segment, rank: u32, child: &Child) {
    let started = start_time(&child.id().to_string()).unwrap();
    segment.rank_block(rank).liveness.attach(child.id(), started);
}

#[test]
fn a_strange_program_name_does_not_shift_the_fields() {
    let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
    assert_eq!(parse_start_time(&format!("7 (a) b (c)) {rest}")), Some(4242));
    assert_eq!(parse_start_time("7 (short) S 1"), None);
    assert_eq!(parse_start_time(&format!("7 (cut) {}", &rest[..rest.len() - 4])), None);
    assert_eq!(parse_start_time(""), None);
}

#[test]
fn a_process_name_tells_of_the_end_of_its_own_process_alone() {
    let mut child = process();
    let started = start_time(&child.id().to_string()).unwrap();
    let name = ProcessName { pid: child.id(), started, namespace: namespace() };
    assert_eq!(ProcessName::parse(name.encode().as_bytes()), Some(name));
    assert_eq!(ProcessName::parse(b"7 8"), None);
    let earlier = ProcessName { started: started - 1, ..name };
    let elsewhere = ProcessName { namespace: 1, ..earlier };
    let ended = || [name, earlier, elsewhere].map(|name| name.has_ended());
    assert_eq!(ended(), [false, true, false]);
    child.kill().unwrap();
    while !name.has_ended() {}
    assert!(start_time(&child.id().to_string()).is_some(), "no process has waited for it yet");
    child.wait().unwrap();
    assert_eq!(ended(), [true, true, false]);
}

/// A rank that dies while a peer opens it is reaped before the peer has read its start time.
#[test]
fn an_end_between_the_two_looks_at_a_process_is_seen() {
    let mut child = process();
    let started = start_time(&child.id().to_string()).unwrap();
    let name = ProcessName { pid: child.id(), started, namespace: namespace() };
    let elsewhere = ProcessName { namespace: 1, ..name };
    let pid = Pid::from_child(&child);
    let open = || pidfd_open(pid, PidfdFlags::empty()).unwrap();
    assert!(matches!(name.judge(open(), Some(started)), Some(PeerWatch::Process(_))));
    assert!(matches!(name.judge(open(), None), Some(PeerWatch::Word)), "/proc is hidden");
    assert!(name.judge(open(), Some(started + 1)).is_none(), "the number is a later process's");
    assert!(matches!(elsewhere.judge(open(), Some(started + 1)), Some(PeerWatch::Word)));
    let opened = open();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(name.judge(opened, None).is_none());
}

/// The limit on descriptors is that of the whole process, so the test runs in one of its own.
#[test]
fn a_process_is_not_taken_for_dead_for_want_of_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const IN_CHILD: &str = "STRAIT_TEST_FEW_DESCRIPTORS";
    if std::env::var_os(IN_CHILD).is_none() {
        let name = "liveness::tests::a_process_is_not_taken_for_dead_for_want_of_descriptors";
        let mut test = Command::new(std::env::current_exe().unwrap());
        let ended = test.args(["--exact", name]).env(IN_CHILD, "1").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        return;
    }
    let mut child = process();
    let started = start_time(&child.id().to_string()).unwrap();
    let name = ProcessName { pid: child.id(), started, namespace: namespace() };
    assert!(!name.has_ended());
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    let has_ended = name.has_ended();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(!has_ended, "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(name.has_ended());
}

#[test]
fn a_killed_peer_is_found_once_and_marked_for_all() {
    let map = map(3);
    let segment = map.view();
    let mut peer = process();
    attach(segment, 1, &peer);

    let mut watch = LivenessWatch::new(3);
    assert!(watch.check(segment, 0).is_empty(), "rank 1 lives, rank 2 is unborn");
    assert!(watch.check(segment, 0).is_empty());
    peer.kill().unwrap();
    peer.wait().unwrap();
    assert_eq!(watch.check(segment, 0), [1]);
    assert!(watch.check(segment, 0).is_empty(), "found once");
    assert_eq!(segment.rank_block(1).liveness.state(), Life::Dead);
}

#[test]
fn a_check_begins_to_watch_a_few_peers_and_the_awaited_one() {
    const RANKS: u32 = 12;
    let (map, mut peer) = (map(RANKS), process());
    let segment = map.view();
    let word = |rank| &segment.rank_block(rank).liveness;
    (1..RANKS).for_each(|rank| attach_other(word(rank), peer.id()));
    let mut watch = LivenessWatch::new(RANKS);
    let watched = |watch: &LivenessWatch| -> Vec<u32> {
        let is_watched = |it: &&(u32, &PeerWatch)| matches!(it.1, PeerWatch::Process(_));
        (0..).zip(&watch.peers).filter(|it| is_watched(&it)).map(|it| it.0).collect()
    };
    watch.expect(2);
    assert!(watch.check(segment, 9).is_empty());
    assert_eq!(watched(&watch), [1, 2, 3, 10, 11], "those behind it, and the awaited one");
    assert!(watch.check(segment, 9).is_empty());
    assert_eq!(watched(&watch).len(), 9);
    peer.kill().unwrap();
    peer.wait().unwrap();
    let found = [watch.check(segment, 9), watch.check(segment, 9)].concat();
    assert_eq!(found.len(), RANKS as usize - 2, "all but itself and the unborn one: {found:?}");
}

#[test]
fn a_peer_that_finished_before_it_ended_is_not_dead() {
    let map = map(2);
    let segment = map.view();
    let mut peer = process();
    attach(segment, 1, &peer);
    let mut watch = LivenessWatch::new(2);
    assert!(watch.check(segment, 0).is_empty());
    segment.rank_block(1).liveness.end(Life::Finished);
    peer.kill().unwrap();
    peer.wait().unwrap();
    assert!(watch.check(segment, 0).is_empty());
    assert_eq!(segment.rank_block(1).liveness.state(), Life::Finished);
}

#[test]
fn another_process_with_the_same_number_does_not_count() {
    let map = map(2);
    let segment = map.view();
    let mut impostor = process();
    segment.rank_block(1).liveness.attach(impostor.id(), u64::MAX);
    let mut watch = LivenessWatch::new(2);
    assert!(watch.check(segment, 0).is_empty());
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    assert!(watch.check(segment, 0).is_empty(), "its end says nothing about rank 1");
    segment.rank_block(1).liveness.end(Life::Dead);
    assert_eq!(watch.check(segment, 0), [1], "the word does");
}

#[test]
fn a_peer_that_was_gone_before_the_first_look_is_dead() {
    let map = map(3);
    let segment = map.view();
    let mut peer = process();
    attach_other(&segment.rank_block(1).liveness, peer.id());
    segment.rank_block(2).liveness.set_namespace(u64::MAX);
    attach(segment, 2, &peer);
    peer.kill().unwrap();
    peer.wait().unwrap();
    let mut watch = LivenessWatch::new(3);
    let found = [watch.check(segment, 0), watch.check(segment, 0)].concat();
    assert_eq!(found, [1], "a number from elsewhere says nothing");
    assert_eq!(segment.rank_block(1).liveness.state(), Life::Dead);
    assert_eq!(segment.rank_block(2).liveness.state(), Life::Alive);
}

/// A process gives up its memory before its end can be seen. So `ESRCH` from the kernel means
/// an end, not a refusal.
#[test]
fn a_process_without_memory_is_ending() {
    let map = map(2);
    let segment = map.view();
    let mut peer = process();
    let liveness = &segment.rank_block(1).liveness;
    attach_other(liveness, peer.id());
    assert!(is_ending(liveness, libc::ESRCH));
    assert!(!is_ending(liveness, libc::EPERM), "it lives");
    peer.kill().unwrap();
    peer.wait().unwrap();
    assert!(is_ending(liveness, libc::EPERM));
}

#[test]
fn a_rank_does_not_watch_itself() {
    let map = map(1);
    map.rank_block(0).liveness.end(Life::Dead);
    assert!(LivenessWatch::new(1).check(map.view(), 0).is_empty());
}
