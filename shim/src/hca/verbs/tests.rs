//! Two ends on the machine's own devices. They need one: `cargo xtask vm` has a kernel with soft ones.

use core::ptr::NonNull;

use strait_core::hca::{Done, Operation, Remote, WorkError};

use super::*;

/// One rank with memory of its own.
struct Node {
    verbs: Verbs,
    memory: Box<[u64; 512]>,
    region: Region,
    connection: Connection,
}

impl Node {
    fn new() -> (Self, Address) {
        let mut verbs = Verbs::open(&Config::default()).unwrap();
        let mut memory = Box::new([0_u64; 512]);
        let base = NonNull::new(memory.as_mut_ptr()).unwrap().cast();
        // SAFETY: the box lives as long as the device, and the test looks only when nothing is under way.
        let region = unsafe { verbs.register(base, 4096, Access::ALL) }.unwrap();
        let (connection, address) = verbs.open(0).unwrap();
        (Self { verbs, memory, region, connection }, address)
    }

    fn piece(&mut self, word: usize, length: u32) -> Piece {
        let base = NonNull::new(self.memory.as_mut_ptr()).unwrap();
        // SAFETY: within the array.
        Piece { base: unsafe { base.add(word) }.cast(), length, key: self.region.local_key }
    }

    fn remote(&self, word: usize) -> Remote {
        Remote { address: self.region.base + 8 * word as u64, key: self.region.remote_key }
    }

    fn run(&mut self, id: u64, operation: Operation<'_>) -> Result<Done, WorkError> {
        let request = WorkRequest { id, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: the pieces lie in this node's memory, and nobody touches them until the completion.
        unsafe { self.verbs.post(self.connection, &request) }.unwrap();
        let completion = self.next();
        assert_eq!((completion.id, completion.connection), (id, self.connection));
        completion.result
    }

    fn next(&mut self) -> Completion {
        let empty = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut into = [empty];
        while self.verbs.poll(&mut into).unwrap() == 0 {
            core::hint::spin_loop();
        }
        into[0]
    }
}

fn two() -> (Node, Node) {
    let ((mut one, to_one), (mut two, to_two)) = (Node::new(), Node::new());
    for (node, to) in [(&mut one, to_two), (&mut two, to_one)] {
        assert_eq!(node.verbs.connect(node.connection, &to), Ok(Readiness::Ready));
    }
    (one, two)
}

#[test]
#[ignore = "needs an RDMA device: cargo xtask vm"]
fn every_operation_does_what_it_says() {
    let (mut one, mut two) = two();
    one.memory[0] = 42;
    let from = [one.piece(0, 8)];
    assert_eq!(one.run(1, Operation::Write { from: &from, to: two.remote(7) }), Ok(Done::Write));
    assert_eq!(two.memory[7], 42);

    two.memory[8] = 43;
    let into = [one.piece(1, 8)];
    assert_eq!(one.run(2, Operation::Read { into: &into, from: two.remote(8) }), Ok(Done::Read));
    assert_eq!(one.memory[1], 43);

    let lent = two.piece(16, 64);
    // SAFETY: nobody touches the piece until its receive completes.
    unsafe { two.verbs.post_receive(9, lent) }.unwrap();
    assert_eq!(one.run(3, Operation::Send { from: &from }), Ok(Done::Send));
    let got = two.next();
    assert_eq!((got.id, got.result), (9, Ok(Done::Receive { length: 8 })));
    assert_eq!(two.memory[16], 42);

    let (result, target) = (one.piece(2, 8), two.remote(8));
    let swap = Operation::CompareAndSwap { result, target, expected: 43, desired: 50 };
    assert_eq!(one.run(4, swap), Ok(Done::Atomic));
    let add = Operation::FetchAndAdd { result, target, addend: 5 };
    assert_eq!((one.memory[2], one.run(5, add)), (43, Ok(Done::Atomic)));
    assert_eq!((one.memory[2], two.memory[8]), (50, 55));

    // SAFETY: as above.
    unsafe { two.verbs.post_receive(10, lent) }.unwrap();
    let write = Operation::WriteImmediate { from: &from, to: two.remote(9), immediate: 0xabcd };
    assert_eq!(one.run(6, write), Ok(Done::Write));
    let got = two.next();
    assert_eq!(got.result, Ok(Done::Immediate { immediate: 0xabcd, length: 8 }));
    assert_eq!((got.id, two.memory[9]), (10, 42));
}

#[test]
#[ignore = "needs an RDMA device: cargo xtask vm"]
fn a_wrong_key_breaks_the_connection() {
    let (mut one, two) = two();
    let from = [one.piece(0, 8)];
    let mut to = two.remote(0);
    to.key ^= 0x5a00;
    let write = Operation::Write { from: &from, to };
    assert_eq!(one.run(1, write), Err(WorkError::RemoteAccess));
    let request =
        WorkRequest { id: 2, operation: write, signaled: true, inline: false, fenced: false };
    // SAFETY: nothing is posted.
    let posted = unsafe { one.verbs.post(one.connection, &request) };
    assert_eq!(posted, Err(PostError::Broken));
}

#[test]
#[ignore = "needs an RDMA device: cargo xtask vm"]
fn a_dead_peer_is_unreachable() {
    let (mut one, mut two) = two();
    two.verbs.close(two.connection).unwrap();
    let from = [one.piece(0, 8)];
    let write = Operation::Write { from: &from, to: two.remote(0) };
    assert_eq!(one.run(1, write), Err(WorkError::Unreachable));
}

#[test]
#[ignore = "needs an RDMA device: cargo xtask vm"]
fn an_armed_device_tells_of_a_completion() {
    let (mut one, mut two) = two();
    let lent = two.piece(16, 64);
    // SAFETY: nobody touches the piece until its receive completes.
    unsafe { two.verbs.post_receive(9, lent) }.unwrap();
    two.verbs.arm().unwrap();
    assert_eq!(two.verbs.poll(&mut []), Ok(0));
    let from = [one.piece(0, 8)];
    assert_eq!(one.run(3, Operation::Send { from: &from }), Ok(Done::Send));
    while !two.verbs.events().wait(Duration::from_secs(1)).unwrap() {}
    assert_eq!(two.next().id, 9);
}
