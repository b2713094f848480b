//! Listeners and the processes that connect to them: threads in the place of ranks.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::*;
use crate::boot::InProcess;

const SHORT: Duration = Duration::from_millis(20);

/// No rank is dead.
const fn all_live(_: Rank) -> bool {
    false
}

/// Makes a file that contains `text`.
fn file(text: &str) -> OwnedFd {
    let file = rustix::fs::memfd_create("shared", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::io::pwrite(&file, text.as_bytes(), 0).unwrap();
    file
}

fn contents(file: &OwnedFd) -> String {
    let mut bytes = [0; 64];
    let length = rustix::io::pread(file, &mut bytes, 0).unwrap();
    str::from_utf8(&bytes[..length]).unwrap().to_owned()
}

/// Makes the store of a job of one rank, so that its fence never waits.
fn store() -> InProcess {
    InProcess::new(1)
}

/// Returns the address of the listener `name`: the socket's number and the nonce.
fn offered(store: &mut InProcess, name: &str) -> (u64, u64) {
    let value = String::from_utf8(store.get(&key(name)).unwrap().unwrap()).unwrap();
    let (number, nonce) = value.split_once(' ').unwrap();
    (u64::from_str_radix(number, 16).unwrap(), u64::from_str_radix(nonce, 16).unwrap())
}

fn wakeup(number: u64, rank: Rank, nonce: u64) -> Result<(Reply, Option<OwnedFd>), BootError> {
    attempt(number, &Hello { nonce, ..Hello::new(rank, std::process::id()) }, TIMEOUT)
}

#[test]
fn all_ranks_get_what_the_first_made() {
    let made = AtomicU32::new(0);
    let store = InProcess::new(5);
    let shared = |rank| {
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(file("the same for all"))
        };
        contents(&share(&mut store.clone(), "fabric", (rank, 5), all_live, make).unwrap())
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..5).map(|rank| scope.spawn(move || shared(rank))).collect();
        for rank in ranks {
            assert_eq!(rank.join().unwrap(), "the same for all");
        }
    });
    assert_eq!(made.into_inner(), 1, "made once");
}

#[test]
fn a_job_of_one_rank_shares_with_no_rank() {
    let shared = share(&mut store(), "alone", (0, 1), all_live, || Ok(file("mine"))).unwrap();
    assert_eq!(contents(&shared), "mine");
}

/// A rank dies between the fence and its fetch, and the launcher tells of it.
#[test]
fn nobody_waits_for_a_rank_that_has_died() {
    let store = InProcess::new(1);
    (1..3).for_each(|rank| introduce(&mut store.clone(), "fabric", rank).unwrap());
    let died = AtomicU32::new(0);
    let is_dead = |rank| rank == 2 && died.load(Ordering::Relaxed) == 1;
    thread::scope(|scope| {
        let sharing = scope.spawn(|| {
            share(&mut store.clone(), "fabric", (0, 3), is_dead, || Ok(file("for the others")))
        });
        let got = loop {
            match fetch(&mut store.clone(), "fabric", 1, TIMEOUT) {
                Ok((_, got)) => break got,
                Err(error) => assert!(matches!(error, BootError::NotOffered { .. }), "{error}"),
            }
        };
        assert_eq!(contents(&got), "for the others");
        assert!(!sharing.is_finished(), "it waits for rank 2");
        died.store(1, Ordering::Relaxed);
        sharing.join().unwrap().unwrap();
    });
}

/// A rank dies between the fence and its fetch, or before the fence, and no launcher tells of it.
#[test]
fn nobody_waits_for_a_process_that_has_ended() {
    let mut store = InProcess::new(1);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let ended = format!("{} 1 {}", child.id(), crate::liveness::namespace());
    child.wait().unwrap();
    store.put(&process_key("fabric", 1), ended.as_bytes()).unwrap();
    // Rank 2 has put nothing.
    let shared = share(&mut store, "fabric", (0, 3), all_live, || Ok(file("mine"))).unwrap();
    assert_eq!(contents(&shared), "mine");
}

#[test]
fn what_cannot_be_made_is_an_error_for_all_and_not_a_hang() {
    let store = InProcess::new(2);
    thread::scope(|scope| {
        let mut theirs = store.clone();
        let other = scope.spawn(move || {
            share(&mut theirs, "fabric", (1, 2), all_live, || unreachable!("rank 0 makes it"))
        });
        let mine = share(&mut store.clone(), "fabric", (0, 2), all_live, || {
            Err(io::ErrorKind::StorageFull.into())
        });
        let (mine, other) = (mine.unwrap_err(), other.join().unwrap().unwrap_err());
        assert!(matches!(&mine, BootError::NotMade { name, .. } if name == "fabric"), "{mine}");
        assert!(matches!(&other, BootError::NotOffered { name } if name == "fabric"), "{other}");
    });
}

#[test]
fn unknown_peers_are_refused_and_disturb_no_member() {
    let mut store = store();
    let listener = DescriptorListener::open(&mut store, "door").unwrap();
    let (number, nonce) = offered(&mut store, "door");
    let file = file("for rank 2");
    thread::scope(|scope| {
        let serving = scope
            .spawn(|| listener.serve(file.as_fd(), (7, 8, 9), &[2], TIMEOUT, all_live, |_| ()));
        let refused =
            |answer| matches!(answer, Ok((Reply::Refused(JoinRefusal::UnknownPeer), None)));
        assert!(refused(wakeup(number, 2, nonce + 1)), "another nonce");
        assert!(refused(wakeup(number, 2, 0)), "no nonce");
        assert!(refused(wakeup(number, 3, nonce)), "a rank without a share");
        let silent = socket().unwrap();
        rustix::net::connect(&silent, &address(number).unwrap()).unwrap();
        let gone = socket().unwrap();
        rustix::net::connect(&gone, &address(number).unwrap()).unwrap();
        drop(gone);
        let other = socket().unwrap();
        rustix::net::connect(&other, &address(number).unwrap()).unwrap();
        rustix::net::send(&other, b"good morning", SendFlags::empty()).unwrap();
        let mut answer = [0; 8];
        let (_, length) =
            rustix::net::recv(&other, &mut answer, rustix::net::RecvFlags::empty()).unwrap();
        assert_eq!(length, 0, "a process with another protocol gets no answer");
        let mut version = Hello { nonce, ..Hello::new(2, 5) }.encode();
        version[8] += 1;
        let other = socket().unwrap();
        rustix::net::connect(&other, &address(number).unwrap()).unwrap();
        rustix::net::send(&other, &version, SendFlags::empty()).unwrap();
        let told = receive(&other).unwrap().0;
        assert_eq!(told, Reply::Refused(JoinRefusal::Protocol { launcher: PROTOCOL }));

        let (reply, mine) = fetch(&mut store.clone(), "door", 2, TIMEOUT).unwrap();
        assert_eq!(reply, Reply::Welcome { nonce: 7, length: 8, ranks: 9, nodes: 0 });
        assert_eq!(contents(&mine), "for rank 2");
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn a_rank_is_one_process_and_may_ask_again() {
    let mut store = store();
    let listener = DescriptorListener::open(&mut store, "door").unwrap();
    let (number, nonce) = offered(&mut store, "door");
    let file = file("");
    thread::scope(|scope| {
        let serving = scope
            .spawn(|| listener.serve(file.as_fd(), (0, 0, 0), &[1, 2], TIMEOUT, all_live, |_| ()));
        for _ in 0..3 {
            let answer = wakeup(number, 1, nonce).unwrap();
            assert!(matches!(answer, (Reply::Welcome { .. }, Some(_))), "{answer:?}");
        }
        wakeup(number, 2, nonce).unwrap();
        serving.join().unwrap().unwrap();
    });
    let hello = Hello { nonce, ..Hello::new(1, 5) }.encode();
    let (ours, theirs) = greet::socket_pair().unwrap();
    let judge = |done: &[Served]| {
        rustix::net::send(&theirs, &hello, SendFlags::empty()).unwrap();
        listener.judge(&ours, &[1], done, 10).unwrap()
    };
    let first = Served { rank: 1, pid: 10, own_pid: 5 };
    assert_eq!(judge(&[]), Ok(first));
    assert_eq!(judge(&[first]), Ok(first));
    let other = Served { rank: 1, pid: 11, own_pid: 5 };
    assert_eq!(judge(&[other]), Err(JoinRefusal::Taken { pid: 11 }));
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let mut store = store();
    let listener = DescriptorListener::open(&mut store, "door").unwrap();
    let (number, nonce) = offered(&mut store, "door");
    let caller = socket().unwrap();
    rustix::net::connect(&caller, &address(number).unwrap()).unwrap();
    let hello = Hello { nonce, ..Hello::new(2, std::process::id()) }.encode();
    rustix::net::send(&caller, &hello, SendFlags::empty()).unwrap();
    let served = listener.serve(file("").as_fd(), (0, 0, 0), &[1, 2, 3], SHORT, all_live, |_| ());
    let error = served.unwrap_err();
    assert!(matches!(&error, BootError::Absent { ranks, .. } if *ranks == [1, 3]), "{error}");
    assert!(error.to_string().contains("[1, 3]"), "{error}");
}

#[test]
fn a_listener_that_is_shut_or_never_was_is_an_error() {
    let mut store = store();
    drop(DescriptorListener::open(&mut store, "door").unwrap());
    let error = fetch(&mut store, "door", 1, TIMEOUT).unwrap_err();
    assert!(matches!(&error, BootError::Withdrawn { name } if name == "door"), "{error}");
    let error = fetch(&mut store, "window", 1, TIMEOUT).unwrap_err();
    assert!(matches!(&error, BootError::NotOffered { name } if name == "window"), "{error}");
    store.put(&key("wall"), b"nowhere").unwrap();
    let error = fetch(&mut store, "wall", 1, TIMEOUT).unwrap_err();
    assert!(matches!(&error, BootError::Malformed { .. }), "{error}");
}

#[test]
fn a_listener_that_does_not_answer_is_an_error_in_the_end() {
    let mut store = store();
    let _listener = DescriptorListener::open(&mut store, "door").unwrap();
    let error = fetch(&mut store, "door", 1, SHORT).unwrap_err();
    assert!(matches!(&error, BootError::Silent { .. }), "{error}");
}
