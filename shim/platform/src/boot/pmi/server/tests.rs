//! Tests the launcher's side: against lines of text, and against ranks.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::boot::join::join_by_pmi;

/// Makes a space with a rank for each node, and returns the ranks' ends.
fn space(ranks: u32) -> (Space, Vec<UnixStream>) {
    let mut space = Space::new(&Nodes::one(ranks));
    let ends = (0..ranks).map(|_| {
        let (ours, theirs) = socket_pair().unwrap();
        space.add(ours);
        theirs.into()
    });
    let ends = ends.collect();
    (space, ends)
}

fn say(space: &mut Space, end: &mut UnixStream, rank: u32, words: &str) -> Said {
    end.write_all(words.as_bytes()).unwrap();
    space.hear(rank)
}

fn line(end: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(end).read_line(&mut line).unwrap();
    line
}

#[test]
fn what_one_puts_the_other_gets() {
    let (mut space, mut ends) = space(2);
    say(&mut space, &mut ends[0], 0, "cmd=put kvsname=strait key=a value=b=c\n");
    assert_eq!(line(&ends[0]), "cmd=put_result rc=0 msg=success\n");
    say(&mut space, &mut ends[1], 1, "cmd=get key=a kvsname=strait\n");
    assert_eq!(line(&ends[1]), "cmd=get_result rc=0 msg=success value=b=c\n");
    say(&mut space, &mut ends[1], 1, "cmd=get kvsname=strait key=PMI_process_mapping\n");
    assert_eq!(line(&ends[1]), "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
}

#[test]
fn what_cannot_be_is_refused_and_the_rank_goes_on() {
    let (mut space, mut ends) = space(1);
    let long = "k".repeat(64);
    let value = "v".repeat(1024);
    for (words, refusal) in [
        ("cmd=put kvsname=strait key=PMI_process_mapping value=x".to_owned(), "put_result"),
        (format!("cmd=put kvsname=strait key={long} value=x"), "put_result"),
        (format!("cmd=put kvsname=strait key=k value={value}"), "put_result"),
        ("cmd=put kvsname=strait value=x".into(), "put_result"),
        ("cmd=put kvsname=other key=k value=x".into(), "put_result"),
        ("cmd=get kvsname=strait key=k".into(), "get_result"),
        ("cmd=get kvsname=other key=PMI_process_mapping".into(), "get_result"),
        ("cmd=init pmi_version=2 pmi_subversion=0".into(), "response_to_init"),
        ("cmd=lookup_name service=s".into(), "lookup_name_result"),
        ("mcmd=spawn\nnprocs=1\nendcmd".into(), "spawn_result"),
    ] {
        assert_eq!(say(&mut space, &mut ends[0], 0, &format!("{words}\n")), Said::Answered);
        let answer = line(&ends[0]);
        assert!(answer.starts_with(&format!("cmd={refusal} rc=-1 ")), "{words}: {answer}");
    }
}

#[test]
fn a_barrier_opens_when_all_have_come() {
    let (mut space, mut ends) = space(2);
    say(&mut space, &mut ends[0], 0, "cmd=barrier_in\n");
    assert!(is_silent(&ends[0]));
    say(&mut space, &mut ends[1], 1, "cmd=barrier_in\n");
    assert_eq!(
        (line(&ends[0]), line(&ends[1])),
        ("cmd=barrier_out rc=0\n".into(), "cmd=barrier_out rc=0\n".into())
    );
}

/// Returns whether no bytes have come.
fn is_silent(end: &UnixStream) -> bool {
    rustix::net::recv(end, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_err()
}

#[test]
fn a_rank_that_waits_for_an_ended_rank_gets_an_error() {
    let (mut space, mut ends) = space(3);
    say(&mut space, &mut ends[0], 0, "cmd=barrier_in\n");
    drop(ends.remove(2));
    space.hear(2);
    assert_eq!(line(&ends[0]), "cmd=barrier_out rc=-1 msg=rank_2_has_ended\n");
    say(&mut space, &mut ends[1], 1, "cmd=barrier_in\n");
    assert_eq!(line(&ends[1]), "cmd=barrier_out rc=-1 msg=rank_2_has_ended\n");
}

#[test]
fn an_abort_ends_the_job() {
    let (mut space, mut ends) = space(1);
    let said = say(&mut space, &mut ends[0], 0, "cmd=abort exitcode=3\n");
    assert_eq!(said, Said::Abort { code: 3 });
    assert_eq!(say(&mut space, &mut ends[0], 0, "cmd=abort\n"), Said::Abort { code: 1 });
}

#[test]
fn a_rank_that_never_ends_its_line_is_hung_up_on() {
    let (mut space, mut ends) = space(1);
    for _ in 0..5 {
        say(&mut space, &mut ends[0], 0, &"x".repeat(1000));
    }
    assert!(space.socket(0).is_none());
}

#[test]
fn a_rank_that_does_not_listen_is_hung_up_on_and_not_waited_for() {
    let (mut space, mut ends) = space(1);
    while space.socket(0).is_some() {
        say(&mut space, &mut ends[0], 0, "cmd=get_maxes\n");
    }
}

/// Ranks with nothing but a PMI-1 socket join, exchange data, and leave twice.
fn join_by_pmi_alone(mut space: Space, nodes: &Nodes) {
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..5)
            .map(|rank| {
                let (ours, theirs) = socket_pair().unwrap();
                space.add(ours);
                scope.spawn(move || {
                    let mut member = join_by_pmi(theirs, rank, 5).unwrap();
                    member.store.put(&format!("card-{rank}"), &[rank as u8; 3000]).unwrap();
                    member.store.fence().unwrap();
                    let next = member.store.get(&format!("card-{}", (rank + 1) % 5)).unwrap();
                    member.store.finalize().unwrap();
                    member.store.finalize().unwrap();
                    (member.nodes, next)
                })
            })
            .collect();
        serve(&mut space, 5);
        for (rank, joined) in (0..).zip(ranks) {
            let (found, next) = joined.join().unwrap();
            assert_eq!(found, *nodes);
            assert_eq!(next, Some(vec![(rank + 1) % 5; 3000]));
        }
    });
}

#[test]
fn ranks_join_by_pmi_alone() {
    let nodes = Nodes::blocks(5, 2).unwrap();
    join_by_pmi_alone(Space::new(&nodes), &nodes);
}

#[test]
fn ranks_find_their_nodes_without_a_mapping() {
    for said in [None, Some(String::new())] {
        let mut space = Space::new(&Nodes::one(5));
        space.values.remove(mapping::KEY);
        space.values.extend(said.map(|said| (mapping::KEY.to_owned(), said)));
        join_by_pmi_alone(space, &Nodes::one(5));
    }
}

/// Answers until all ranks have closed their sockets.
fn serve(space: &mut Space, ranks: u32) {
    loop {
        let open: Vec<u32> = (0..ranks).filter(|rank| space.socket(*rank).is_some()).collect();
        if open.is_empty() {
            return;
        }
        let sockets = open.iter().filter_map(|rank| space.socket(*rank));
        let mut fds: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        poll(&mut fds, None).unwrap();
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (rank, _) in open.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            assert_eq!(space.hear(rank), Said::Answered);
        }
    }
}
