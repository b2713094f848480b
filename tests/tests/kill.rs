//! Kills a rank at every named step ([`Step`]), in a job that does a bit of everything. The
//! survivors learn of the death, their messages to each other arrive, and nothing is lost. A build
//! without debug assertions has no steps, hence no such tests.
#![cfg(debug_assertions)]

use core::time::Duration;
use std::thread;

use strait::boot::SegmentConfig;
use strait::{Endpoint, Error, Fault, Request, Scope, World, wait_all};
use strait_core::sync::Step;
use strait_tests::{Ranks, die_at, payload, report};

const RANKS: u32 = 4;

/// The rank that is killed. It leads every other group.
const VICTIM: u32 = 1;

/// Rounds before its death.
const BEFORE: u64 = 3;

/// Environment variable with the step, as a number in [`Step::ALL`].
const STEP: &str = "STRAIT_TEST_STEP";

/// Tags of messages with the victim, among the survivors, and of their last ones.
const TAG: u32 = 5;
const SIDE: u32 = 6;
const LAST: u32 = 7;

/// Tag of large messages with receives that are posted first.
const ASKED: u32 = 8;

/// Memory for unexpected messages: shorter messages go eagerly, longer ones are offered.
const BUDGET: usize = 10_000;

/// Messages that both ranks of a pair send at once, on every path: one answered by the baton,
/// several behind each other in the fastbox, by cells, large, and offered.
const LENGTHS: [&[usize]; 5] =
    [&[8], &[8, 8, 600, 8], &[3000, 9000], &[100_000, 70_000], &[12_000]];

fn id(from: u32, number: u64) -> u64 {
    u64::from(from) << 32 | number
}

/// Exchanges messages between the victim and a survivor, and checks the data.
fn exchange(endpoint: Endpoint<'_>, me: u32, peer: u32) -> Result<(), Error> {
    for lengths in LENGTHS {
        let data: Vec<_> = lengths.iter().map(|length| payload::of(id(me, 0), *length)).collect();
        let mut rooms: Vec<_> = lengths.iter().map(|length| vec![0; *length]).collect();
        if let [length] = lengths[..] {
            // The ranks take turns, so that the answer takes the path of the question.
            let mut room = vec![0; length];
            for _ in 0..3 {
                if me == VICTIM {
                    endpoint.recv(&mut room, peer, TAG)?;
                }
                if me == VICTIM {
                    endpoint.send(&data[0], peer, TAG)?;
                } else {
                    // The victim answers these.
                    endpoint.ssend(&data[0], peer, TAG)?;
                    endpoint.recv(&mut room, peer, TAG)?;
                }
            }
        }
        endpoint.scope(|scope| {
            let mut requests = Vec::new();
            for data in &data {
                requests.push(scope.isend(data, peer, TAG)?);
            }
            for room in &mut rooms {
                requests.push(scope.irecv(room, peer, TAG)?);
            }
            wait_all(&mut requests)
        })?;
        for room in &rooms {
            assert_eq!(payload::first_difference(id(peer, 0), room), None, "from {peer}");
        }
    }
    ask(endpoint, me, peer)
}

/// Exchanges a large message that the receiver has requested, and another one that it cancels.
fn ask(endpoint: Endpoint<'_>, me: u32, peer: u32) -> Result<(), Error> {
    const LENGTH: usize = 150_000;
    let (data, mut room, mut other) =
        (payload::of(id(me, 0), LENGTH), vec![0; LENGTH], vec![0; LENGTH]);
    endpoint.scope(|scope| {
        let receive = scope.irecv(&mut room, peer, ASKED)?;
        let mut unwanted = scope.irecv(&mut other, peer, ASKED)?;
        assert!(unwanted.cancel());
        // Both ranks have sent an RTR.
        endpoint.sendrecv(&[0_u8], peer, TAG, &mut [0_u8], peer, TAG)?;
        let send = scope.isend(&data, peer, ASKED)?;
        wait_all(&mut [send, receive])
    })?;
    assert_eq!(payload::first_difference(id(peer, 0), &room), None, "from {peer}");
    Ok(())
}

/// All ranks meet in a group of their own, which the victim or another rank leads.
fn meet(world: &World, round: u64) -> Result<(), Error> {
    let members = if round.is_multiple_of(2) { [VICTIM, 0, 2, 3] } else { [0, 2, VICTIM, 3] };
    let context = u32::try_from(round % 1000).unwrap() + 1;
    let group = world.endpoint().with_context(context).group(&members).unwrap();
    group.barrier()?;
    group.barrier()
}

/// Runs one round of the victim.
fn live(world: &World, round: u64, step: Step) -> Result<(), Error> {
    for peer in (0..RANKS).filter(|peer| *peer != VICTIM) {
        if step == Step::BellRung {
            // The survivors sleep.
            thread::sleep(Duration::from_millis(5));
        }
        exchange(world.endpoint(), VICTIM, peer)?;
    }
    meet(world, round)
}

/// Runs the victim until it is killed at exactly this step.
fn live_and_die(world: &World, step: Step) -> ! {
    (0..BEFORE).for_each(|round| live(world, round, step).unwrap());
    die_at(step);
    for round in BEFORE.. {
        live(world, round, step).unwrap();
    }
    unreachable!("rounds do not end");
}

/// The messages of the survivors to each other, beside their work with the victim.
struct Beside<'scope> {
    sends: Vec<Request<'scope>>,
    sent: u64,
}

/// Works with the victim until it dies. Every round begins with a message to each other survivor.
fn survive<'scope>(
    world: &'scope World,
    scope: &'scope Scope<'scope, '_>,
    data: &'scope [u8],
) -> Beside<'scope> {
    let (endpoint, me) = (world.endpoint(), world.rank());
    let mut beside = Beside { sends: Vec::new(), sent: 0 };
    for round in 0.. {
        report(format_args!("round {round}"));
        for other in survivors(me) {
            beside.sends.push(scope.isend(data, other, SIDE).unwrap());
        }
        beside.sent += 1;
        let outcome = exchange(endpoint, me, VICTIM).and_then(|()| meet(world, round));
        if let Err(error) = outcome {
            let died = matches!(error, Error::Fault(Fault::PeerFailed { rank: VICTIM, .. }));
            assert!(died, "{error:?}");
            assert!(round >= BEFORE, "too early");
            break;
        }
    }
    beside
}

fn survivors(me: u32) -> impl Iterator<Item = u32> {
    (0..RANKS).filter(move |rank| *rank != me && *rank != VICTIM)
}

/// The survivors receive all messages from each other, meet, and check that nothing was lost.
fn settle(world: &World, mut beside: Beside<'_>) {
    let (endpoint, me) = (world.endpoint(), world.rank());
    for other in survivors(me) {
        let mut theirs = [0_u64];
        endpoint.sendrecv(&[beside.sent], other, LAST, &mut theirs, other, LAST).unwrap();
        for _ in 0..theirs[0] {
            let mut room = [0; 2000];
            endpoint.recv(&mut room, other, SIDE).unwrap();
            assert_eq!(payload::first_difference(id(other, 1), &room), None, "from {other}");
        }
    }
    wait_all(&mut beside.sends).unwrap();
    let members: Vec<_> = (0..RANKS).filter(|rank| *rank != VICTIM).collect();
    let group = endpoint.group(&members).unwrap();
    group.barrier().unwrap();
    assert!(format!("{group:?}").contains("Slot"), "no slot for the survivors");
    let mut sum = [1_u32];
    group.allreduce(&mut sum, strait::Op::Sum).unwrap();
    assert_eq!(sum, [RANKS - 1]);
    // Messages that the victim sent before its death may have arrived. They are discarded.
    while endpoint.iprobe(VICTIM, strait::ANY_TAG).is_ok_and(|found| found.is_some()) {
        let mut room = vec![0_u8; 200_000];
        endpoint.recv(&mut room, VICTIM, strait::ANY_TAG).unwrap();
    }
    group.barrier().unwrap();
    endpoint.progress().unwrap();
    let left = world.in_use().unwrap();
    report(format_args!("{left:?}"));
    assert_eq!((left.requests, left.transfers, left.descriptors), (0, 0, 0), "{left:?}");
    assert_eq!(left.cells, 0, "{left:?}");
}

fn killed_at(name: &'static str, config: SegmentConfig, step: usize) {
    let job = Ranks::new(RANKS, name).shaped(config).with_deaths(&[VICTIM]);
    let transfer = match Step::ALL[step] {
        Step::RingFilled | Step::RingRead => "copy_ring",
        _ => "cma_shared",
    };
    let job = job.with(STEP, step).with("STRAIT_UNEXPECTED_MAX", BUDGET);
    let job = job.with("STRAIT_LMT", transfer).with("STRAIT_RENDEZVOUS", "speculative");
    job.run(|world| {
        // Every rank enters the first of a test's jobs, to whichever job it belongs.
        let step: usize = std::env::var(STEP).unwrap().parse().unwrap();
        let step = Step::ALL[step];
        report(format_args!("{step:?}"));
        if world.rank() == VICTIM {
            live_and_die(&world, step);
        }
        let data = payload::of(id(world.rank(), 1), 2000);
        world.endpoint().scope(|scope| {
            let beside = survive(&world, scope, &data);
            settle(&world, beside);
        });
        world.finalize().unwrap();
    });
}

#[test]
fn killed_at_every_step() {
    (0..Step::ALL.len()).for_each(|step| {
        killed_at("killed_at_every_step", SegmentConfig::new(RANKS), step);
    });
}

#[test]
fn killed_at_every_step_with_little_room() {
    let config =
        SegmentConfig { cells_per_rank: 4, cell_payload: 4096, ..SegmentConfig::new(RANKS) };
    (0..Step::ALL.len()).for_each(|step| {
        killed_at("killed_at_every_step_with_little_room", config, step);
    });
}
