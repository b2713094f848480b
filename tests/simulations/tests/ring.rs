//! The RDMA channel over the simulated fabric, with thousands of seeds for each design.

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

use fastrand::Rng;
use strait_core::hca::{Connection, WorkError};
use strait_core::ring::{Design, LinkConfig};
use strait_sim::{Mesh, Rig};
use strait_sim::{Model, SimDevice, SimFabric};
use strait_tests::conformance::ring::drained;
use strait_tests::conformance::ring::faults::{break_one, lose_one};
use strait_tests::conformance::ring::streams::{Stream, Traffic};
use strait_tests::traffic;

struct Simulated(SimFabric);

impl Rig for Simulated {
    type Device = SimDevice;

    fn device(&self, rank: u32) -> SimDevice {
        self.0.device(rank)
    }

    fn pass(&self) -> bool {
        self.0.advance()
    }
}

/// Runs `scenario` for each design and many seeds, or for the single seed in `STRAIT_TEST_SEED`.
fn for_each_seed(seeds: u64, scenario: impl Fn(u64, Design)) {
    let one = std::env::var("STRAIT_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    for design in Design::ALL {
        for seed in one.map_or_else(|| traffic::simulated_seeds(seeds), |seed| seed..seed + 1) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(seed, design))) {
                eprintln!("{} fails; play it again with STRAIT_TEST_SEED={seed}", design.name());
                resume_unwind(panic);
            }
        }
    }
}

/// Creates small rings of a shape drawn from the seed, between `ranks` ranks.
fn mesh(seed: u64, design: Design, ranks: u32) -> Mesh<Simulated> {
    mesh_of(seed, design, ranks, Model::drawn(seed))
}

fn mesh_of(seed: u64, design: Design, ranks: u32, model: Model) -> Mesh<Simulated> {
    let mut rng = Rng::with_seed(!seed);
    let least = if design == Design::Basic { 1 } else { 3 };
    let (chunk, slots) = (8 * rng.u32(least..32), rng.u32(1..9));
    let config = LinkConfig { design, chunk, slots, large: rng.u32(1..400) };
    Mesh::new(Simulated(SimFabric::new(seed, ranks, model)), ranks, config)
}

#[test]
fn bytes_come_out_as_they_went_in() {
    for_each_seed(800, |seed, design| {
        let mut mesh = mesh(seed, design, 2);
        let mut traffic = Traffic::drawn(seed, 2, 2000, 400);
        traffic.play(&mut mesh);
        traffic.drain(&mut mesh);
    });
}

#[test]
fn many_links_do_not_disturb_each_other() {
    for_each_seed(40, |seed, design| {
        let mut mesh = mesh(seed, design, 5);
        let mut traffic = Traffic::drawn(seed, 5, 1000, 200);
        traffic.play(&mut mesh);
        traffic.drain(&mut mesh);
    });
}

/// Checks this also where a completion says nothing of the peer's memory, as on iWARP.
#[test]
fn what_is_drained_is_there() {
    for_each_seed(100, |seed, design| {
        let mut model = Model::drawn(seed);
        model.capabilities.acknowledged = seed.is_multiple_of(2);
        let config = LinkConfig { chunk: 64, slots: 8, ..LinkConfig::new(design) };
        let mut mesh = Mesh::new(Simulated(SimFabric::new(seed, 2, model)), 2, config);
        drained::is_there(&mut mesh);
    });
}

/// Breaks the link between ranks 0 and 1 of three.
fn broken(
    seed: u64,
    design: Design,
    strike: impl FnOnce(&mut Mesh<Simulated>, &mut Rng),
) -> Traffic {
    let mut rng = Rng::with_seed(seed ^ 0xfa11);
    let mut mesh = mesh(seed, design, 3);
    let mut traffic = Traffic::drawn(seed, 3, 2000, 400);
    let turns = rng.u32(..2000);
    break_one(&mut mesh, &mut traffic, (0, 1), turns, |mesh| strike(mesh, &mut rng));
    traffic
}

fn connection(mesh: &mut Mesh<Simulated>, rank: u32, peer: u32) -> Connection {
    mesh.end(rank, peer).0.connection()
}

#[test]
fn a_request_that_fails_ends_its_link() {
    for_each_seed(60, |seed, design| {
        broken(seed, design, |mesh, rng| {
            let errors = [WorkError::LocalAccess, WorkError::Device { code: 7 }];
            let at = connection(mesh, 0, 1);
            mesh.rig.0.fail(0, at, *rng.choice(&errors).unwrap());
        });
    });
}

#[test]
fn a_revoked_key_ends_its_link() {
    for_each_seed(60, |seed, design| {
        broken(seed, design, |mesh, _| {
            let key = mesh.nodes[0].links[1].as_ref().unwrap().region.local_key;
            mesh.rig.0.revoke(0, key);
        });
    });
}

#[test]
fn a_peer_that_dies_ends_its_links() {
    for_each_seed(60, |seed, design| {
        let mut rng = Rng::with_seed(seed ^ 0xdead);
        let mut mesh = mesh(seed, design, 3);
        let mut traffic = Traffic::drawn(seed, 3, 2000, 400);
        let turns = rng.u32(..2000);
        lose_one(&mut mesh, &mut traffic, 1, turns, |mesh| mesh.rig.0.kill(1));
    });
}

/// Returns whether flags are seen before their bytes, on a device that promises an order within a
/// write, and keeps the promise or not.
fn is_deceived(seed: u64, design: Design, faithful: bool) -> bool {
    let mut model = Model::drawn(seed);
    (model.capabilities.ordered_bytes, model.faithful) = (true, faithful);
    let mut mesh = mesh_of(seed, design, 2, model);
    let mut traffic = Traffic::drawn(seed, 2, 2000, 400);
    for _ in 0..5000 {
        traffic.turn(&mut mesh);
    }
    let wrong = |stream: &Stream| {
        !stream.is_right() || stream.get_error.is_some() || stream.put_error.is_some()
    };
    traffic.streams.iter().any(wrong)
}

/// The simulated device detects the fault: where it breaks its promise, flags that travel with
/// their bytes arrive too early. Only `basic` has no such flags.
#[test]
fn a_flag_in_a_write_without_order_is_believed_too_soon() {
    for design in Design::ALL {
        let deceives = |faithful| (0..20).any(|seed| is_deceived(seed, design, faithful));
        assert!(!deceives(true), "{}", design.name());
        assert_eq!(deceives(false), design != Design::Basic, "{}", design.name());
    }
}

/// The behaviour of a rank when nothing moves.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Sleeper {
    /// Sleeps when the link permits it.
    Careful,
    /// Sleeps as soon as it has requested wake-ups.
    Hasty,
}

/// Ranks sleep while nothing moves for them, until their device has an event for them. Returns how
/// often they slept before all bytes arrived. Returns `None` if all ranks sleep and nothing is
/// under way that could wake one.
fn sleeps(seed: u64, design: Design, sleeper: Sleeper) -> Option<usize> {
    const RANKS: u32 = 3;
    let mut rng = Rng::with_seed(seed ^ 0x51ee);
    let mut mesh = mesh(seed, design, RANKS);
    let mut traffic = Traffic::drawn(seed, RANKS, 1000, 200);
    let (mut asleep, mut slept) = ([false; RANKS as usize], 0);
    while !traffic.streams.iter().all(Stream::has_ended) {
        let rank = rng.u32(..RANKS);
        let is_asleep = &mut asleep[rank as usize];
        *is_asleep &= !mesh.nodes[rank as usize].device.take_event();
        if !*is_asleep {
            let polled = mesh.poll(rank);
            *is_asleep = !(traffic.visit(&mut mesh, rank) | polled)
                && mesh.ask(rank, sleeper == Sleeper::Hasty)
                && !mesh.poll(rank)
                && !traffic.visit(&mut mesh, rank);
            slept += usize::from(*is_asleep);
        }
        // A rank that is awake may compute meanwhile.
        let passed = (0..rng.u32(..6)).fold(false, |passed, _| mesh.rig.pass() || passed);
        let event = |rank: usize| mesh.nodes[rank].device.has_event();
        let all_sleep = (0..RANKS as usize).all(|rank| asleep[rank] && !event(rank));
        if all_sleep && !passed && !mesh.rig.pass() {
            return None;
        }
    }
    traffic.drain(&mut mesh);
    Some(slept)
}

#[test]
fn no_rank_sleeps_while_data_arrive() {
    let often = Cell::new(0);
    for_each_seed(200, |seed, design| {
        let slept = sleeps(seed, design, Sleeper::Careful).expect("a rank to be awake");
        often.set(often.get() + slept);
    });
    assert!(often.get() > 0, "no rank sleeps");
}

/// The simulation detects the fault: data under way when the peer learned that this rank sleeps
/// cause no event.
#[test]
fn a_rank_that_sleeps_as_soon_as_it_has_asked_sleeps_on() {
    for design in Design::ALL {
        let sleeps_on = |seed| sleeps(seed, design, Sleeper::Hasty).is_none();
        assert!((0..300).any(sleeps_on), "{}", design.name());
    }
}

/// Returns the number of requests for a message of 8 bytes, when each message is answered by
/// another.
fn requests_per_message(design: Design, ordered_bytes: bool) -> f64 {
    const ROUNDS: u64 = 20;
    let mut model = Model::drawn(1);
    (model.capabilities.ordered_bytes, model.capabilities.depth, model.refuse) =
        (ordered_bytes, 64, 0);
    let config = LinkConfig { chunk: 64, slots: 8, ..LinkConfig::new(design) };
    let mut mesh = Mesh::new(Simulated(SimFabric::new(1, 2, model)), 2, config);
    for round in 0..ROUNDS {
        for way in [(0, 1), (1, 0)] {
            let (out, mut into) = (round.to_ne_bytes(), [0; 8]);
            assert_eq!(mesh.put(way, &out, &[]), Ok(8));
            while mesh.get(way, &mut into, &[]) == Ok(0) {
                assert!(mesh.rig.pass() | mesh.poll(0) | mesh.poll(1), "nothing happens");
            }
            assert_eq!(into, out);
        }
    }
    let requests = [(0, 1), (1, 0)].map(|(rank, peer)| mesh.end(rank, peer).0.operations().total());
    requests.iter().sum::<u64>() as f64 / (2 * ROUNDS) as f64
}

#[test]
fn a_message_takes_as_many_requests_as_its_design_says() {
    for design in Design::ALL {
        let [one_write, two_writes] = if design == Design::Basic { [3.0; 2] } else { [1.0, 2.0] };
        assert_eq!(requests_per_message(design, true), one_write, "{}", design.name());
        assert_eq!(requests_per_message(design, false), two_writes, "{}", design.name());
    }
}
