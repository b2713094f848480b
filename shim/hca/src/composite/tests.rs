//! A composite of two software devices: one key for both, a device for each peer, receives at both.

use core::time::Duration;

use strait_core::hca::{Done, Operation, RemoteAddress};

use super::*;
use crate::soft::{Fabric, SoftMode};

/// Rank 0 with a composite, between a near peer 1 with a composite and a far peer 2 with a plain
/// device.
struct Three {
    own: Composite<SoftHca>,
    near: Composite<SoftHca>,
    far: SoftHca,
    /// The connections of rank 0 to ranks 1 and 2, and those back.
    links: [Connection; 4],
    memory: Box<[u64; 8]>,
}

impl Three {
    fn new() -> Self {
        let file = Fabric::create(3).unwrap();
        let job = |rank| SoftHca::attach(&file, rank, SoftMode::Inline).unwrap();
        let composite = |rank| {
            let alone = SoftHca::alone(SoftMode::Inline).unwrap();
            Composite::new(alone, job(rank), Box::new([true, true, false])).unwrap()
        };
        let (mut own, mut near, mut far) = (composite(0), composite(1), job(2));
        let (to_near, a) = own.open(1).unwrap();
        let (to_far, b) = own.open(2).unwrap();
        let (from_near, c) = near.open(0).unwrap();
        let (from_far, d) = far.open(0).unwrap();
        for _ in 0..2 {
            own.connect(to_near, &c).unwrap();
            own.connect(to_far, &d).unwrap();
            near.connect(from_near, &a).unwrap();
            far.connect(from_far, &b).unwrap();
        }
        assert_eq!((Side::of(to_near).0, Side::of(to_far).0), (Side::Near, Side::Far));
        let links = [to_near, to_far, from_near, from_far];
        Self { own, near, far, links, memory: Box::new([0; 8]) }
    }

    fn place(&mut self, word: usize) -> Sge {
        Sge { base: NonNull::from(&mut self.memory[word]).cast(), length: 8, key: 0 }
    }
}

fn poll(device: &mut impl Hca) -> Vec<Completion> {
    let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
    let mut some = [none; 8];
    let count = device.poll(&mut some).unwrap();
    some[..count].to_vec()
}

/// Posts a request of a peer, which succeeds, and returns its completion.
fn post(device: &mut impl Hca, connection: Connection, operation: Operation<'_>) -> Done {
    let request = WorkRequest { id: 9, operation, signaled: true, inline: false, fenced: false };
    // SAFETY: the pieces are in memory that outlives the request, which completes below.
    unsafe { device.post(connection, &request) }.unwrap();
    let [completion] = poll(device)[..] else { panic!("no completion") };
    assert_eq!((completion.id, completion.connection), (9, connection));
    completion.result.unwrap()
}

#[test]
fn one_key_serves_peers_of_both_devices() {
    let mut three = Three::new();
    let [.., from_near, from_far] = three.links;
    let target = three.place(0);
    // SAFETY: the memory outlives the device, and the test alone accesses it.
    let region = unsafe { three.own.register(target.base, 8, Access::ALL) }.unwrap();
    let to = RemoteAddress { address: region.base, key: region.remote_key };
    let source = three.place(1);
    for value in 1..20 {
        three.memory[1] = value;
        // SAFETY: as above. Each registration has another key.
        let mine = unsafe { three.near.register(source.base, 8, Access::LOCAL) }.unwrap();
        let from = [Sge { key: mine.local_key, ..source }];
        assert_eq!(
            post(&mut three.near, from_near, Operation::Write { from: &from, to }),
            Done::Write
        );
        assert_eq!(three.memory[0], value);
        three.near.deregister(mine).unwrap();
    }
    three.memory[1] = 77;
    // SAFETY: as above.
    let theirs = unsafe { three.far.register(source.base, 8, Access::LOCAL) }.unwrap();
    let from = [Sge { key: theirs.local_key, ..source }];
    assert_eq!(post(&mut three.far, from_far, Operation::Write { from: &from, to }), Done::Write);
    assert_eq!(three.memory[0], 77);
    let add = Operation::FetchAndAdd { result: from[0], target: to, addend: 1 };
    let add = WorkRequest { id: 1, operation: add, signaled: true, inline: false, fenced: false };
    // SAFETY: the request is refused.
    let refused = unsafe { three.own.post(three.links[1], &add) };
    assert_eq!(refused, Err(PostError::Unsupported));
    three.own.deregister(region).unwrap();
    let write = Operation::Write { from: &from, to };
    let write =
        WorkRequest { id: 2, operation: write, signaled: true, inline: false, fenced: false };
    // SAFETY: the pieces outlive the request, which has failed after the poll.
    unsafe { three.far.post(from_far, &write) }.unwrap();
    assert!(poll(&mut three.far)[0].result.is_err(), "the key is revoked");
}

#[test]
fn a_receive_takes_a_message_of_either_device() {
    let mut three = Three::new();
    let [to_near, to_far, from_near, from_far] = three.links;
    let nothing = Sge { length: 0, ..three.place(0) };
    let send = || Operation::Send { from: &[] };
    for turn in 0..2000_u64 {
        // SAFETY: the receive has no bytes.
        unsafe { three.own.post_receive(turn, nothing) }.unwrap();
        three.own.arm().unwrap();
        assert!(poll(&mut three.own).is_empty());
        let expected = if turn.is_multiple_of(3) {
            assert_eq!(post(&mut three.near, from_near, send()), Done::Send);
            to_near
        } else {
            assert_eq!(post(&mut three.far, from_far, send()), Done::Send);
            to_far
        };
        assert_eq!(three.own.events().wait(Duration::from_secs(60)), Ok(true));
        let [completion] = poll(&mut three.own)[..] else { panic!("no completion") };
        assert_eq!((completion.id, completion.connection), (turn, expected));
        assert_eq!(completion.result, Ok(Done::Receive { length: 0 }));
    }
    let piece = three.place(0);
    // SAFETY: the receive is refused.
    assert_eq!(unsafe { three.own.post_receive(0, piece) }, Err(PostError::Unsupported));
}
