//! Jobs with two devices between nodes: a software device in each host, and another between hosts.
//! The job's nodes act as two hosts. `cargo xtask vm` runs these tests over RDMA devices, too.

use core::time::Duration;

use strait::{Assert, LockDesign, LockType, Window, World, wait_all};
use strait_tests::{Ranks, die, one_sided, payload, traffic};

/// The device of a job for which `STRAIT_HCA` names none.
const DEVICE: &str = "soft-inline+soft-inline";

/// Returns a job of 6 ranks on 4 nodes: 0-1, 2-3, 4, 5. Of each rank, the next node and the two
/// others are reached by different devices.
fn job(name: &'static str) -> Ranks {
    let job = Ranks::new(6, name).on_nodes(4).within(Duration::from_secs(120) * traffic::times());
    match std::env::var("STRAIT_HCA") {
        Ok(_) => job,
        Err(_) => job.with("STRAIT_HCA", DEVICE),
    }
    .with("STRAIT_HCA_HOSTS", 2)
}

#[test]
fn traffic_goes_by_both_devices() {
    for design in ["zero_copy", "pipeline", "rendezvous_write"] {
        job("traffic_goes_by_both_devices").with("STRAIT_RING", design).run(|world| {
            traffic::seeds(100, 2).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
            world.finalize().unwrap();
        });
    }
}

/// Every rank sends the same buffer to every other at once, so one registration serves both
/// devices.
#[test]
fn messages_of_all_lengths_cross() {
    job("messages_of_all_lengths_cross").run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        for (id, length) in (0..).zip([0, 1, 48, 1000, 16_384, 16_385, 100_000, 3_000_000]) {
            let data = payload::of(id, length);
            let mut rooms = vec![vec![0; length]; world.size() as usize];
            endpoint.scope(|scope| {
                let others = || (0..world.size()).filter(|other| *other != rank);
                let mut requests: Vec<_> =
                    others().map(|to| scope.isend(&data, to, 1).unwrap()).collect();
                let rooms = (0..).zip(&mut rooms).filter(|(from, _)| *from != rank);
                requests.extend(rooms.map(|(from, room)| scope.irecv(room, from, 1).unwrap()));
                wait_all(&mut requests).unwrap();
            });
            for (from, room) in (0..).zip(&rooms).filter(|(from, _)| *from != rank) {
                assert_eq!(payload::first_difference(id, room), None, "{length} bytes of {from}");
            }
        }
        world.finalize().unwrap();
    });
}

/// Random programs of puts, gets, accumulates, epochs and locks.
#[test]
fn windows_span_both_devices() {
    for private in [false, true] {
        job("windows_span_both_devices").run(|world| {
            for seed in traffic::seeds(300_000, 2) {
                one_sided::run(&world, private, seed, 8, 20_000);
            }
            world.finalize().unwrap();
        });
    }
}

/// The devices' atomics are not atomic with each other, so lock managers and targets do the work.
#[test]
fn locks_exclude_members_of_both_devices() {
    const TURNS: u64 = 10;
    job("locks_exclude_members_of_both_devices").run(|world| {
        // The threads of two designs poll, for which a virtual machine has too few processors.
        let polls = [LockDesign::Thread, LockDesign::ThreadPerWindow];
        for design in LockDesign::ALL.into_iter().filter(|design| !polls.contains(design)) {
            let endpoint = world.endpoint();
            let builder = Window::builder(endpoint).unit(8).locks(design);
            let window = builder.allocate(64).unwrap();
            let needs = [LockDesign::TestAndSet, LockDesign::Mcs, LockDesign::Hybrid];
            let made = if needs.contains(&design) { LockDesign::TwoSided } else { design };
            assert_eq!(window.lock_design(), made);
            for turn in 0..TURNS {
                let target = (turn % 2) as u32 * 5;
                window.lock(LockType::Exclusive, target, Assert::NONE).unwrap();
                let mut value = [0_u64];
                window.get(&mut value, target, 0).unwrap();
                window.flush(target).unwrap();
                value[0] += 1;
                window.put(&value, target, 0).unwrap();
                window.unlock(target).unwrap();
            }
            endpoint.barrier().unwrap();
            for target in [0, 5] {
                let mut value = [0_u64];
                window.lock(LockType::Shared, target, Assert::NONE).unwrap();
                window.get(&mut value, target, 0).unwrap();
                window.unlock(target).unwrap();
                assert_eq!(value, [TURNS / 2 * u64::from(world.size())], "{design:?}");
            }
            window.free().unwrap();
        }
        world.finalize().unwrap();
    });
}

/// No launcher reports the death, so peers of both devices learn of it by these.
#[test]
fn a_death_is_known_by_both_devices() {
    let job = job("a_death_is_known_by_both_devices").by_pmi().with_deaths(&[5]);
    job.run(|world| {
        let endpoint = world.endpoint();
        (0..3).for_each(|_| endpoint.barrier().unwrap());
        if world.rank() == 5 {
            // The others may still be in the barrier that this rank has left.
            (0..5).for_each(|rank| _ = endpoint.recv(&mut [0_u8], rank, 0).unwrap());
            die();
        }
        endpoint.send(&[0_u8], 5, 0).unwrap();
        assert!(endpoint.recv(&mut [0_u8], 5, 1).is_err());
        assert!(endpoint.send(&[0_u8; 100_000], 5, 1).is_err());
        survive(&world);
        world.finalize().unwrap();
    });
}

fn survive(world: &World) {
    let living = world.endpoint().group(&[0, 1, 2, 3, 4]).unwrap();
    (0..3).for_each(|_| living.barrier().unwrap());
}

/// Ranks with the other device alone join a job with composite devices.
#[test]
fn composite_and_plain_devices_mix() {
    let far = std::env::var("STRAIT_HCA").unwrap_or_else(|_| DEVICE.to_owned());
    // In rank 4 it is that device already.
    let far = far.split_once('+').map_or(&*far, |(_, far)| far).to_owned();
    let job = job("composite_and_plain_devices_mix").with_in(4, "STRAIT_HCA", &far);
    job.run(|world| {
        traffic::seeds(100, 1).for_each(|seed| traffic::run(&world, seed, 4, 1 << 20));
        one_sided::run(&world, false, 400_000, 4, 20_000);
        world.finalize().unwrap();
    });
}
