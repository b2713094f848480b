//! The software HCA passes the suite that every device must pass: with two threads, and with two
//! processes.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;

use rustix::io::{FdFlags, fcntl_setfd};
use strait::World;
use strait::hca::cq::{EventDriven as _, Events};
use strait::hca::soft::{Fabric, SoftHca, SoftMode, TimeModel};
use strait_core::hca::fault::{Faults, Faulty};
use strait_core::hca::trace::{TraceEvent, Traced};
use strait_core::hca::{Atomics, Hca};
use strait_tests::Ranks;
use strait_tests::conformance::hca::{Habits, Line, Outcome, Party, Pipe, pipes, run};

const LIMIT: Duration = Duration::from_secs(60);

/// A party on a thread of its own.
struct Thread<D> {
    rank: u32,
    device: D,
    /// The descriptor that reports the device's events, if they are reliable.
    events: Option<Events>,
    pipe: Pipe,
}

impl<D: Hca> Party for Thread<D> {
    type Device = D;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn device(&mut self) -> &mut D {
        &mut self.device
    }

    fn exchange(&mut self, mine: &[u8]) -> Vec<u8> {
        self.pipe.exchange(mine)
    }

    fn wait_for_event(&mut self) -> bool {
        self.events.as_ref().is_some_and(wait)
    }

    fn habits(&self) -> Habits {
        // Without atomics, as on iWARP, a rank does not connect to itself.
        let loops = self.device.capabilities().atomics != Atomics::None;
        Habits { loops, ..Habits::default() }
    }
}

/// Sleeps until the event has arrived, with any number of spurious wake-ups.
fn wait(events: &Events) -> bool {
    while !events.wait(Duration::from_secs(1)).expect("waiting") {}
    true
}

/// Runs the suite on two threads with the unmodified devices. Returns the result of each check.
fn on_threads(modes: [SoftMode; 2]) -> Vec<Line> {
    on_threads_with(modes, |device| {
        let events = device.events();
        (device, Some(events))
    })
}

/// Runs the suite on two threads with a wrapper around the devices.
fn on_threads_with<D: Hca>(
    modes: [SoftMode; 2],
    wrap: impl Fn(SoftHca) -> (D, Option<Events>) + Copy + Send + 'static,
) -> Vec<Line> {
    let fabric = Fabric::create(2).expect("a fabric");
    let (says, heard) = mpsc::channel();
    for (rank, (mode, pipe)) in (0..).zip(modes.into_iter().zip(pipes())) {
        let fabric: OwnedFd = fabric.try_clone().expect("a descriptor");
        let says = says.clone();
        thread::spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let (device, events) =
                    wrap(SoftHca::attach(&fabric, rank, mode).expect("a device"));
                let mut lines = Vec::new();
                run(&mut Thread { rank, device, events, pipe }, |line| lines.push(*line));
                lines
            }));
            // The receiver is gone if the other party failed first.
            let _ = says.send(ended.ok());
        });
    }
    let [one, two] = [(); 2].map(|()| {
        let ended = heard.recv_timeout(LIMIT).expect("the parties hang");
        ended.expect("a check failed")
    });
    assert_eq!(one.len(), two.len());
    one
}

fn all_hold_but(lines: &[Line], names: &[&str]) {
    let others: Vec<_> =
        lines.iter().filter(|line| line.outcome != Outcome::Holds).map(|line| line.name).collect();
    assert_eq!(others, names);
    assert!(lines.len() > 20, "{lines:?}");
}

#[test]
fn inline_on_two_threads() {
    all_hold_but(&on_threads([SoftMode::Inline; 2]), &["the_dead_are_unreachable"]);
}

#[test]
fn engines_on_two_threads() {
    let engine = SoftMode::Engine(TimeModel::INFINIBAND_2004);
    all_hold_but(&on_threads([engine; 2]), &["the_dead_are_unreachable"]);
}

#[test]
fn what_iwarp_has_on_two_threads() {
    let lacks = [
        "a_write_brings_a_number",
        "atomics_change_one_word",
        "atomics_exclude_each_other",
        "the_dead_are_unreachable",
    ];
    all_hold_but(&on_threads([SoftMode::Iwarp; 2]), &lacks);
}

#[test]
fn an_engine_and_an_inline_device() {
    let modes = [SoftMode::Engine(TimeModel::NONE), SoftMode::Inline];
    all_hold_but(&on_threads(modes), &["the_dead_are_unreachable"]);
}

/// With a wrapper that delays completions and traces, every property holds that does not need
/// events.
#[test]
fn late_completions_keep_every_promise() {
    let faults = Faults { seed: 7, delay: 300_000, delay_polls: 20, ..Faults::default() };
    let lines =
        on_threads_with([SoftMode::Inline, SoftMode::Engine(TimeModel::NONE)], move |device| {
            let lengths = |event: &TraceEvent| assert!(!event.to_string().is_empty());
            (Traced::new(Faulty::new(device, faults), lengths), None)
        });
    all_hold_but(&lines, &["an_armed_device_wakes", "the_dead_are_unreachable"]);
}

/// Environment variable with the fabric's descriptor, for the ranks of a job.
const FABRIC: &str = "STRAIT_TEST_FABRIC";

const TAG: u32 = 1;

/// A party that is a process.
struct Process<'a> {
    world: &'a World,
    device: SoftHca,
}

impl Party for Process<'_> {
    type Device = SoftHca;

    fn rank(&self) -> u32 {
        self.world.rank()
    }

    fn device(&mut self) -> &mut SoftHca {
        &mut self.device
    }

    fn exchange(&mut self, mine: &[u8]) -> Vec<u8> {
        let (endpoint, peer) = (self.world.endpoint(), 1 - self.world.rank());
        let mut theirs = vec![0; 1024];
        let status = endpoint.sendrecv(mine, peer, TAG, &mut theirs, peer, TAG).expect("the peer");
        theirs.truncate(status.bytes);
        theirs
    }

    fn wait_for_event(&mut self) -> bool {
        wait(&self.device.events())
    }

    fn die(&mut self) {
        strait_tests::die();
    }

    fn habits(&self) -> Habits {
        Habits { mortal: true, ..Habits::default() }
    }
}

/// Creates a fabric that child processes inherit. In a rank, returns the inherited one.
fn inherited_fabric() -> OwnedFd {
    if let Ok(number) = std::env::var(FABRIC) {
        let number = number.parse().expect("a descriptor");
        // SAFETY: the test runner left the descriptor open for this rank, and nothing else takes
        // it.
        return unsafe { OwnedFd::from_raw_fd(number) };
    }
    let fabric = Fabric::create(2).expect("a fabric");
    fcntl_setfd(&fabric, FdFlags::empty()).expect("to be inherited");
    fabric
}

/// Runs the suite in two processes, of which the second dies at the end.
fn in_processes(name: &'static str, mode: SoftMode) {
    let fabric = inherited_fabric();
    let job = Ranks::new(2, name).with(FABRIC, fabric.as_raw_fd()).with_deaths(&[1]);
    let ended = job.run(|world| {
        let device = SoftHca::attach(&fabric, world.rank(), mode).expect("a device");
        let mut party = Process { world: &world, device };
        run(&mut party, |line| {
            println!("{line}");
            assert_eq!(line.outcome, Outcome::Holds, "{line}");
        });
    });
    assert!(ended.stdout[0].contains("the_dead_are_unreachable"), "{:?}", ended.stdout);
}

#[test]
fn inline_in_two_processes() {
    in_processes("inline_in_two_processes", SoftMode::Inline);
}

#[test]
fn engines_in_two_processes() {
    let mode = SoftMode::Engine(TimeModel::INFINIBAND_2004);
    in_processes("engines_in_two_processes", mode);
}
