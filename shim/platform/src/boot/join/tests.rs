//! Both sides of the exchange in one process, over a real socket pair.

use super::*;
use crate::boot::JoinRefusal;
use crate::boot::greet::{Greeted, Greeter, socket_pair};
use crate::segment::SegmentError;
use std::thread;
use strait_core::layout::{AttachError, Life, SegmentConfig};

const NONCE: u64 = 99;
const SHORT: Duration = Duration::from_millis(1);

fn map() -> SegmentMap {
    let config = SegmentConfig { cells_per_rank: 2, cell_payload: 1024, ..SegmentConfig::new(2) };
    SegmentMap::create(config, NONCE).unwrap()
}

/// What a rank gets that joins: the segment and the nodes.
type Joined = Result<(SegmentMap, Nodes), BootError>;

/// Joins as `rank` of `size` with a launcher that serves rank 1 in a job with the nonce `nonce`, on
/// 2 nodes.
fn exchange(rank: u32, size: u32, nonce: u64) -> (SegmentMap, Joined) {
    exchange_on(2, rank, size, nonce)
}

fn exchange_on(nodes: u32, rank: u32, size: u32, nonce: u64) -> (SegmentMap, Joined) {
    let map = map();
    let (ours, theirs) = socket_pair().unwrap();
    let joined = thread::scope(|scope| {
        let joining = scope.spawn(move || join_over(&theirs, rank, size, TIMEOUT));
        let mut greeter = Greeter::new(ours, 1);
        await_answer(greeter.socket(), TIMEOUT).unwrap();
        assert_eq!(greeter.answer(&map, nonce, nodes), Greeted::Open);
        joining.join().unwrap()
    });
    (map, joined)
}

#[test]
fn a_rank_joins_and_is_alive() {
    let (map, joined) = exchange(1, 2, NONCE);
    let (attached, nodes) = joined.unwrap();
    assert_eq!((attached.ranks(), nodes), (2, Nodes::blocks(2, 2).unwrap()));
    let segment = map.view();
    let liveness = &segment.rank_block(1).liveness;
    assert_eq!(liveness.state(), Life::Alive);
    let other = &segment.rank_block(0).liveness;
    assert_eq!(other.state(), Life::Unborn);
    crate::liveness::attach_self(other);
    assert_eq!(liveness.process(), other.process());
    assert_eq!(liveness.process().0, std::process::id());
}

#[test]
fn disagreement_is_named() {
    let (_, joined) = exchange(0, 2, NONCE);
    assert!(
        matches!(joined, Err(BootError::Refused(JoinRefusal::Rank { expected: 1 }))),
        "{joined:?}"
    );

    let (_, joined) = exchange(1, 3, NONCE);
    assert!(matches!(joined, Err(BootError::Size { environment: 3, launcher: 2 })), "{joined:?}");

    for nodes in [0, 3] {
        let (_, joined) = exchange_on(nodes, 1, 2, NONCE);
        assert!(matches!(joined, Err(BootError::Malformed { .. })), "{joined:?}");
    }

    let (map, joined) = exchange(1, 2, NONCE + 1);
    let nonce = AttachError::Nonce { found: NONCE, expected: NONCE + 1 };
    assert!(
        matches!(joined, Err(BootError::Segment(SegmentError::Attach(error))) if error == nonce),
        "{joined:?}"
    );
    assert_eq!(map.rank_block(1).liveness.state(), Life::Unborn, "not joined");
}

#[test]
fn one_process_is_taken_per_rank() {
    let map = map();
    let (ours, theirs) = socket_pair().unwrap();
    let mut greeter = Greeter::new(ours, 1);
    for expected in [Ok(()), Err(JoinRefusal::Taken { pid: 5 })] {
        let hello = Hello::new(1, 5).encode();
        rustix::net::send(&theirs, &hello, SendFlags::empty()).unwrap();
        assert_eq!(greeter.answer(&map, NONCE, 1), Greeted::Open);
        let (reply, file) = receive(&theirs).unwrap();
        match expected {
            Ok(()) => assert!(matches!(reply, Reply::Welcome { .. }) && file.is_some()),
            Err(refusal) => assert_eq!((reply, file.is_some()), (Reply::Refused(refusal), false)),
        }
    }
}

#[test]
fn versions_are_distinguished() {
    let map = map();
    let (ours, theirs) = socket_pair().unwrap();
    let mut greeter = Greeter::new(ours, 1);
    let mut other_protocol = Hello::new(1, 5).encode();
    other_protocol[8] += 1;
    let mut other_layout = Hello::new(1, 5).encode();
    other_layout[12] += 1;
    for (hello, expected) in [
        (other_protocol, JoinRefusal::Protocol { launcher: super::super::message::PROTOCOL }),
        (other_layout, JoinRefusal::Layout { launcher: strait_core::layout::LAYOUT_VERSION }),
    ] {
        rustix::net::send(&theirs, &hello, SendFlags::empty()).unwrap();
        assert_eq!(greeter.answer(&map, NONCE, 1), Greeted::Open);
        assert_eq!(receive(&theirs).unwrap().0, Reply::Refused(expected));
    }
    rustix::net::send(&theirs, b"good morning", SendFlags::empty()).unwrap();
    assert_eq!(greeter.answer(&map, NONCE, 1), Greeted::Closed, "not a Strait program");
}

#[test]
fn a_launcher_that_is_gone_or_silent_is_an_error() {
    let (ours, theirs) = socket_pair().unwrap();
    let silent = join_over(&theirs, 0, 1, SHORT);
    assert!(matches!(silent, Err(BootError::Silent { .. })), "{silent:?}");
    drop(ours);
    let gone = join_over(&theirs, 0, 1, SHORT);
    assert!(matches!(gone, Err(BootError::LauncherGone)), "{gone:?}");

    let (ours, theirs) = socket_pair().unwrap();
    thread::scope(|scope| {
        let joining = scope.spawn(move || join_over(&theirs, 0, 1, TIMEOUT));
        await_answer(&ours, TIMEOUT).unwrap();
        drop(ours);
        let gone = joining.join().unwrap();
        assert!(matches!(gone, Err(BootError::LauncherGone)), "{gone:?}");
    });
}

#[test]
fn a_descriptor_that_is_no_launcher_s_socket_is_an_error() {
    use std::os::fd::AsRawFd;
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let refused = inspect(reader.as_raw_fd());
    assert!(matches!(refused, Err(BootError::NotASocket { error: Some(Errno::NOTSOCK), .. })));
    let (datagrams, _) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let refused = inspect(datagrams.as_raw_fd());
    assert!(matches!(refused, Err(BootError::NotASocket { error: None, .. })), "{refused:?}");
    let refused = inspect(RawFd::MAX);
    assert!(matches!(refused, Err(BootError::NotASocket { error: Some(Errno::BADF), .. })));
}

#[test]
fn a_process_without_a_launcher_gets_an_error_with_the_remedy() {
    let error = join().unwrap_err();
    assert!(matches!(error, BootError::NotStarted), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("strait run -n N PROGRAM") && text.contains("mpiexec.hydra"), "{text}");
}
