//! libibverbs passes the suite that every device has to pass: two threads, and two processes. They take one device each where
//! there are two.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;

use strait::World;
use strait::hca::cq::{EventDriven as _, Events as _};
use strait::hca::verbs::{Config, Verbs};
use strait_tests::Ranks;
use strait_tests::conformance::hca::{Habits, Line, Party, Pipe, pipes, run};

/// An emulated processor takes its time, and a device some to give up.
const LIMIT: Duration = Duration::from_secs(100);

const TAG: u32 = 1;

/// The device of this rank.
fn open(rank: u32) -> Verbs {
    let names = Verbs::names().expect("devices");
    let device = names.get(rank as usize % names.len().max(1)).cloned();
    Verbs::open(&Config { device, ..Config::default() }).expect("a device")
}

/// A party, whose way beside the device is `exchange`.
struct Member<E> {
    rank: u32,
    device: Verbs,
    exchange: E,
    mortal: bool,
}

impl<E: FnMut(&[u8]) -> Vec<u8>> Party for Member<E> {
    type Device = Verbs;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn device(&mut self) -> &mut Verbs {
        &mut self.device
    }

    fn exchange(&mut self, mine: &[u8]) -> Vec<u8> {
        (self.exchange)(mine)
    }

    fn wait_for_event(&mut self) -> bool {
        let events = self.device.events();
        while !events.wait(Duration::from_secs(1)).expect("waiting") {}
        true
    }

    fn die(&mut self) {
        strait_tests::die();
    }

    fn habits(&self) -> Habits {
        // A sender waits for ever for a receive. Soft RoCE flushes a request whose own piece it cannot read, and calls a
        // receive that is too short an error of the queue pair.
        Habits { gives_up: false, explains: false, mortal: self.mortal, ..Habits::default() }
    }
}

fn on_a_thread(rank: u32, pipe: &Pipe) -> Vec<Line> {
    let exchange = |mine: &[u8]| pipe.exchange(mine);
    let mut lines = Vec::new();
    let mut member = Member { rank, device: open(rank), exchange, mortal: false };
    run(&mut member, |line| {
        println!("{rank}: {line}");
        lines.push(*line);
    });
    lines
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn on_two_threads() {
    let (says, heard) = mpsc::channel();
    for (rank, pipe) in (0..).zip(pipes()) {
        let says = says.clone();
        thread::spawn(move || {
            // Nobody listens any more when the other failed first.
            let _ = says.send(catch_unwind(AssertUnwindSafe(|| on_a_thread(rank, &pipe))).ok());
        });
    }
    let [one, two] = [(); 2].map(|()| {
        let ended = heard.recv_timeout(LIMIT).expect("the parties hang");
        ended.expect("a check failed")
    });
    assert!(one.len() > 20 && one.len() == two.len(), "{one:?}");
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn in_two_processes() {
    let job = Ranks::new(2, "in_two_processes").within(LIMIT).with_deaths(&[1]);
    let ended = job.run(|world: World| {
        let (rank, peer) = (world.rank(), 1 - world.rank());
        let exchange = |mine: &[u8]| {
            let mut theirs = vec![0; 1024];
            let endpoint = world.endpoint();
            let status =
                endpoint.sendrecv(mine, peer, TAG, &mut theirs, peer, TAG).expect("the peer");
            theirs.truncate(status.bytes);
            theirs
        };
        let mut member = Member { rank, device: open(rank), exchange, mortal: true };
        run(&mut member, |line| println!("{line}"));
    });
    assert!(ended.stdout[0].contains("the_dead_are_unreachable"), "{:?}", ended.stdout);
}
