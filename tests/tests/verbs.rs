//! libibverbs passes the suite that every device must pass: with two threads, and with two
//! processes. They use one device each if there are two. Its atomics are not atomic towards the
//! processor's.

use core::net::Ipv4Addr;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::net::TcpListener;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::{fs, thread};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use strait::World;
use strait::hca::cq::EventDriven as _;
use strait::hca::verbs::{Verbs, VerbsConfig};
use strait_core::hca::{
    Access, Address, Atomics, Completion, Connection, Done, Hca as _, HcaError, Operation,
    Readiness, Region, RemoteAddress, Sge, WorkRequest,
};
use strait_tests::conformance::hca::{Habits, Line, Party, Pipe, pipes, run, run_some};
use strait_tests::{Ended, Ranks};

/// Time limit: an emulated processor is slow, and so is a device that gives up.
const LIMIT: Duration = Duration::from_secs(100);

const TAG: u32 = 1;

/// Opens the device of this rank.
fn open(rank: u32) -> Verbs {
    let names = Verbs::names().expect("devices");
    let device = names.get(rank as usize % names.len().max(1)).cloned();
    Verbs::open(&VerbsConfig { device, ..VerbsConfig::default() }).expect("a device")
}

/// A party. `exchange` is its way to the other besides the device.
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
        // A sender waits for ever for a receive; on iWARP the connection breaks at once. Soft iWARP
        // does not check whether a region may be read. Soft RoCE flushes a request if it cannot
        // read the local piece. It reports a receive that is too short as an error of the queue
        // pair.
        let is_iwarp = !self.device.capabilities().acknowledged;
        Habits {
            patient: !is_iwarp,
            gives_up: false,
            explains: false,
            strict: !is_iwarp,
            mortal: self.mortal,
            ..Habits::default()
        }
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
            // The receiver is gone if the other party failed first.
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
    let ended = between_processes("in_two_processes", &[1], |_| true);
    assert!(ended.stdout[0].contains("the_dead_are_unreachable"), "{:?}", ended.stdout);
}

/// The checks in which data of both ranks, or answers and data, are on their way at once. A slow
/// wire gives them the time to meet.
const CROSSING: [&str; 5] = [
    "both_send_at_once",
    "a_message_comes_after_writes",
    "a_read_sees_earlier_writes",
    "reads_with_writes_behind_cross",
    "the_last_of_a_chain_speaks_for_all",
];

#[test]
#[ignore = "needs RDMA devices with a slow wire: cargo xtask vm"]
fn on_a_slow_wire() {
    let ended = between_processes("on_a_slow_wire", &[], |check| CROSSING.contains(&check));
    for check in CROSSING {
        assert!(ended.stdout[0].contains(check), "{check}: {:?}", ended.stdout);
    }
}

/// Runs the checks that are `wanted` between two ranks, of which these die.
fn between_processes(
    test: &'static str,
    deaths: &[u32],
    wanted: impl Fn(&str) -> bool + Copy,
) -> Ended {
    let job = Ranks::new(2, test).within(LIMIT).with_deaths(deaths);
    job.run(|world: World| {
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
        run_some(&mut member, wanted, |line| println!("{line}"));
    })
}

/// A limit that is too low causes an error with the numbers, when a device is opened and later.
#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn a_limit_on_locked_memory_is_an_error_with_its_numbers() {
    const LIMIT: u64 = 1 << 20;
    const MUCH: usize = 4 << 20;
    // Runs on a thread, since the right to lock any amount of memory belongs to a thread. The limit
    // belongs to the process.
    let before = getrlimit(Resource::Memlock);
    let limited = || {
        let mut sets = capabilities(None).expect("the system's word");
        sets.effective.remove(CapabilitySet::IPC_LOCK);
        set_capabilities(None, sets).expect("fewer rights");
        setrlimit(Resource::Memlock, Rlimit { current: Some(LIMIT), ..before }).expect("a limit");
        let names = Verbs::names().expect("devices");
        let open = |memory| {
            let device = names.first().cloned();
            Verbs::open(&VerbsConfig { device, memory, ..VerbsConfig::default() })
        };
        let refused = open(MUCH as u64).err().expect("too much").to_string();
        assert!(refused.contains("1048576") && refused.contains("4194304"), "{refused}");

        let mut device = open(0).expect("a device");
        let mut memory = vec![0_u8; MUCH];
        let base = NonNull::from(memory.as_mut_slice()).cast();
        // SAFETY: the memory is not registered, or is freed after the device.
        let refused = unsafe { device.register(base, MUCH, Access::ALL) };
        assert_eq!(refused, Err(HcaError::Memory { bytes: MUCH as u64 }));
        // SAFETY: the memory is freed after the device.
        let region = unsafe { device.register(base, 4096, Access::ALL) }.expect("so much");
        device.deregister(region).expect("it was registered");
    };
    let ended = thread::scope(|scope| scope.spawn(limited).join());
    setrlimit(Resource::Memlock, before).expect("the limit as it was");
    ended.expect("a check failed");
}

/// Waiting ranks leave their processors to the threads of such a device.
#[test]
#[ignore = "needs RDMA devices in software: cargo xtask vm"]
fn the_threads_of_soft_devices_are_known() {
    assert!((0..2).all(|rank| open(rank).has_threads()));
}

/// On iWARP the device with the lower address sends the request, and gets the error.
#[test]
#[ignore = "needs iWARP devices: cargo xtask vm"]
fn an_end_that_is_gone_refuses() {
    let (mut one, mut two) = (open(0), open(1));
    let ask = |one: &mut Verbs, address: &Address, meanwhile: &mut dyn FnMut()| {
        let (end, _) = one.open(1).expect("an end");
        loop {
            match one.connect(end, address) {
                Ok(Readiness::Pending) => meanwhile(),
                other => break other,
            }
        }
    };
    let (closed, address) = two.open(0).expect("an end");
    two.close(closed).expect("closing");
    let refused = ask(&mut one, &address, &mut || two.arm().expect("a device"));
    assert_eq!(refused, Err(HcaError::Refused { peer: 1 }), "it is closed");

    let (_, address) = two.open(0).expect("an end");
    drop(two);
    let refused = ask(&mut one, &address, &mut thread::yield_now);
    assert_eq!(refused, Err(HcaError::Refused { peer: 1 }), "no process listens");
    let nowhere = Address([0; Address::LENGTH]);
    let refused = ask(&mut one, &nowhere, &mut thread::yield_now);
    assert_eq!(refused, Err(HcaError::Unreachable { peer: 1 }), "no address at all");
}

/// The connection manager gives out ports that sockets have. Another one is taken, by the device
/// that listens and by the one that asks.
#[test]
#[ignore = "needs iWARP devices: cargo xtask vm"]
fn a_port_that_another_socket_has_is_passed_over() {
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    let before = fs::read_to_string(RANGE).expect("the range of ports");
    fs::write(RANGE, "40000 40063").expect("a small range");
    let taken: Vec<_> = (40000..40064)
        .step_by(2)
        .map(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a port"))
        .collect();
    let passed = catch_unwind(|| {
        for round in 0..10 {
            let (mut one, mut two) = (open(0), open(1));
            let ((from, to_one), (to, to_two)) = (one.open(1).unwrap(), two.open(0).unwrap());
            let join = |device: &mut Verbs, end, address| {
                let readiness = device.connect(end, address);
                readiness.unwrap_or_else(|error| panic!("round {round}: {error}"))
            };
            while [join(&mut one, from, &to_two), join(&mut two, to, &to_one)]
                != [Readiness::Ready; 2]
            {}
        }
    });
    drop(taken);
    fs::write(RANGE, before).expect("the range as it was");
    passed.expect("a check failed");
}

/// Checks the premise of `[HybridLock09]`: atomics of the device and of the processor on one word
/// at a time lose updates.
#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn atomics_of_the_device_are_not_the_processors() {
    /// Most rounds until an update is lost: usually a few are enough.
    const ROUNDS: u32 = 400;
    /// Additions by the device in one round.
    const ROUND: u64 = 500;
    let (mut one, mut two) = (open(0), open(1));
    assert_eq!(two.capabilities().atomics, Atomics::Hca);
    let (from, to_one) = one.open(1).expect("an end");
    let (to, to_two) = two.open(0).expect("an end");
    for (device, end, peer) in [(&mut one, from, &to_two), (&mut two, to, &to_one)] {
        assert_eq!(device.connect(end, peer), Ok(Readiness::Ready));
    }
    let (word, result) = (AtomicU64::new(0), AtomicU64::new(0));
    let target = register(&mut two, &word);
    let own = register(&mut one, &result);
    let target = RemoteAddress { address: target.base, key: target.remote_key };
    let result = Sge { base: NonNull::from(&result).cast(), length: 8, key: own.local_key };

    let lost = (0..ROUNDS).any(|_| {
        word.store(0, Relaxed);
        let stop = AtomicBool::new(false);
        let by_processor = thread::scope(|scope| {
            let adder = scope.spawn(|| {
                let mut added = 0;
                while !stop.load(Relaxed) {
                    word.fetch_add(1, Relaxed);
                    added += 1;
                }
                added
            });
            for id in 0..ROUND {
                let operation = Operation::FetchAndAdd { result, target, addend: 1 };
                perform(&mut one, from, id, operation);
            }
            stop.store(true, Relaxed);
            adder.join().expect("the adder does not panic")
        });
        let (made, left) = (ROUND + by_processor, word.load(Relaxed));
        println!("{ROUND} by the device, {by_processor} by the processor, {left} are left");
        left < made
    });
    assert!(lost, "no update was lost: are the atomics coherent?");
}

/// Registers one word as memory of the device. The word outlives the device's use of it, because
/// nothing is under way when the test ends.
fn register(device: &mut Verbs, word: &AtomicU64) -> Region {
    // SAFETY: the word is an atomic, which may change behind the borrow. All requests are complete
    // when the word is dropped.
    unsafe { device.register(NonNull::from(word).cast(), 8, Access::ALL) }.expect("a region")
}

fn perform(device: &mut Verbs, connection: Connection, id: u64, operation: Operation<'_>) {
    let request = WorkRequest { id, operation, signaled: true, inline: false, fenced: false };
    // SAFETY: the result is an atomic that only the device writes.
    unsafe { device.post(connection, &request) }.expect("room for one request");
    let mut done = [Completion { id: 0, connection, result: Ok(Done::Write) }];
    while device.poll(&mut done).expect("a device") == 0 {
        thread::yield_now();
    }
    assert_eq!((done[0].id, done[0].result), (id, Ok(Done::Atomic)));
}
