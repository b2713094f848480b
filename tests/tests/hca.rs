//! The software HCA passes the suite that every device has to pass: two threads, and two processes.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;

use rustix::io::{FdFlags, fcntl_setfd};
use strait::World;
use strait::hca::cq::{EventDriven as _, Events};
use strait::hca::soft::{Fabric, Mode, SoftHca, TimeModel};
use strait_core::hca::fault::{Faults, Faulty};
use strait_core::hca::trace::{Event, Traced};
use strait_core::hca::{Atomics, Hca};
use strait_tests::Ranks;
use strait_tests::conformance::hca::{Habits, Line, Outcome, Party, Pipe, pipes, run};

const LIMIT: Duration = Duration::from_secs(60);

/// A party on a thread of its own.
struct Thread<D> {
    rank: u32,
    device: D,
    /// Where the device's events come in, if they can be relied on.
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
        // Where there are no atomics, as on iWARP, no rank connects to itself.
        let loops = self.device.capabilities().atomics != Atomics::None;
        Habits { loops, ..Habits::default() }
    }
}

/// Sleeps until the event has come, however often the sleep ends before it.
fn wait(events: &Events) -> bool {
    while !events.wait(Duration::from_secs(1)).expect("waiting") {}
    true
}

/// Runs the suite on two threads with the devices as they are; what each check came to.
fn on_threads(modes: [Mode; 2]) -> Vec<Line> {
    on_threads_with(modes, |device| {
        let events = device.events();
        (device, Some(events))
    })
}

/// The same with something around the devices.
fn on_threads_with<D: Hca>(
    modes: [Mode; 2],
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
            // Nobody listens any more when the other failed first.
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
    all_hold_but(&on_threads([Mode::Inline; 2]), &["the_dead_are_unreachable"]);
}

#[test]
fn engines_on_two_threads() {
    let engine = Mode::Engine(TimeModel::INFINIBAND_2004);
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
    all_hold_but(&on_threads([Mode::Iwarp; 2]), &lacks);
}

#[test]
fn an_engine_and_an_inline_device() {
    let modes = [Mode::Engine(TimeModel::NONE), Mode::Inline];
    all_hold_but(&on_threads(modes), &["the_dead_are_unreachable"]);
}

/// Around a device whose completions are late, and which is traced, everything holds that does not need events.
#[test]
fn late_completions_keep_every_promise() {
    let faults = Faults { seed: 7, delay: 300_000, delay_polls: 20, ..Faults::default() };
    let lines = on_threads_with([Mode::Inline, Mode::Engine(TimeModel::NONE)], move |device| {
        let lengths = |event: &Event| assert!(!event.to_string().is_empty());
        (Traced::new(Faulty::new(device, faults), lengths), None)
    });
    all_hold_but(&lines, &["an_armed_device_wakes", "the_dead_are_unreachable"]);
}

/// Names the fabric's descriptor to the ranks of a job.
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

/// A fabric that the processes started from here inherit. In a rank: the one inherited.
fn inherited_fabric() -> OwnedFd {
    if let Ok(number) = std::env::var(FABRIC) {
        let number = number.parse().expect("a descriptor");
        // SAFETY: the test runner left it open for this rank, and nobody else takes it.
        return unsafe { OwnedFd::from_raw_fd(number) };
    }
    let fabric = Fabric::create(2).expect("a fabric");
    fcntl_setfd(&fabric, FdFlags::empty()).expect("to be inherited");
    fabric
}

/// Runs the suite in two processes, of which the second dies in the end.
fn in_processes(name: &'static str, mode: Mode) {
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
    in_processes("inline_in_two_processes", Mode::Inline);
}

#[test]
fn engines_in_two_processes() {
    let mode = Mode::Engine(TimeModel::INFINIBAND_2004);
    in_processes("engines_in_two_processes", mode);
}
