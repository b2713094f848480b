//! The RDMA channel over libibverbs: all ranks of a mesh in one thread, each with a device of its own where there are so many.

use core::ptr::NonNull;
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use strait::World;
use strait::hca::cq::EventDriven as _;
use strait::hca::verbs::{Config as Opening, Verbs};
use strait_core::hca::{Access, Completion, Connection, Done, Hca as _, Readiness};
use strait_core::progress::Part;
use strait_core::regcache::{Cached, Limits, Unwatched};
use strait_core::ring::{Card, Cause, Config, Design, Lent, Link};
use strait_tests::conformance::ring::Block;
use strait_tests::conformance::ring::drained;
use strait_tests::conformance::ring::faults::break_one;
use strait_tests::conformance::ring::knocks::wake_each_time;
use strait_tests::conformance::ring::streams::{Stream, Traffic};
use strait_tests::conformance::ring::{Mesh, Rig};
use strait_tests::{Ledger, Ranks, die, payload};

const LIMIT: Duration = Duration::from_secs(100);
const RANKS: u32 = 3;

struct Devices;

impl Rig for Devices {
    type Device = Cached<Verbs, Unwatched, Ledger>;

    fn device(&self, rank: u32) -> Self::Device {
        let names = Verbs::names().expect("devices");
        let device = names.get(rank as usize % names.len().max(1)).cloned();
        let device = Verbs::open(&Opening { device, ..Opening::default() }).expect("a device");
        let limits = Limits { entries: 16, bytes: 1 << 20 };
        // SAFETY: the mesh is dropped before the streams whose memory its devices register.
        unsafe { Cached::new(device, Unwatched, Ledger::default(), limits) }.expect("memory")
    }

    /// The devices work by themselves, in their own time.
    fn pass(&self) -> bool {
        thread::sleep(Duration::from_micros(10));
        false
    }
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn every_design_brings_the_bytes_over() {
    let (says, heard) = mpsc::channel();
    thread::spawn(move || {
        for (seed, design) in (1..).zip(Design::ALL) {
            let config = Config { design, chunk: 256, slots: 4, large: 1000 };
            // Dropped after the mesh, whose devices have its memory registered.
            let mut traffic = Traffic::drawn(seed, RANKS, 20_000, 5000);
            let mut mesh = Mesh::new(Devices, RANKS, config);
            traffic.play(&mut mesh);
            traffic.drain(&mut mesh);
            println!("{design:?} is through");
        }
        let _ = says.send(());
    });
    heard.recv_timeout(LIMIT).expect("the ranks hang, or one of them has failed");
}

/// Takes the memory of rank 0's end of its link to rank 1 from the device: requests of both sides complete with an error, and both
/// queue pairs go to error.
fn revoke(mesh: &mut Mesh<Devices>) {
    let region = mesh.nodes[0].links[1].as_ref().unwrap().region;
    let device = &mut mesh.nodes[0].device;
    device.invalidate(region.base, region.length).expect("no error of the device");
    device.deregister(region).expect("the region was registered");
}

/// Takes rank 0's end of that link down behind its back: rank 1 finds nobody.
fn close(mesh: &mut Mesh<Devices>) {
    let (link, device) = mesh.end(0, 1);
    let connection = link.connection();
    device.close(connection).expect("the connection was open");
}

/// Traffic that is under way: with the designs that move large parts, in the middle of one from rank 1 to rank 0.
fn under_way(design: Design, seeds: &mut impl Iterator<Item = u64>) -> (Traffic, Mesh<Devices>) {
    let config = Config { design, chunk: 256, slots: 4, large: 1000 };
    // What rank 1 has to say may be short.
    loop {
        let mut traffic = Traffic::drawn(seeds.next().unwrap(), RANKS, 20_000, 5000);
        let mut mesh = Mesh::new(Devices, RANKS, config);
        (0..100).for_each(|_| traffic.turn(&mut mesh));
        while !traffic.streams.iter().all(Stream::has_ended) {
            if design == Design::Pipeline || mesh.end(0, 1).0.holds_get() {
                return (traffic, mesh);
            }
            traffic.turn(&mut mesh);
        }
    }
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn a_fault_ends_one_link_and_names_its_peer() {
    let (says, heard) = mpsc::channel();
    thread::spawn(move || {
        let strikes: [fn(&mut Mesh<Devices>); 2] = [revoke, close];
        let designs = [Design::Pipeline, Design::ZeroCopy, Design::RendezvousWrite];
        let mut seeds = 10..;
        for (design, strike) in designs.into_iter().flat_map(|design| strikes.map(|s| (design, s)))
        {
            let (mut traffic, mut mesh) = under_way(design, &mut seeds);
            break_one(&mut mesh, &mut traffic, (0, 1), 0, strike);
            let failed =
                |stream: &&Stream| stream.put_error.is_some() || stream.get_error.is_some();
            assert!(traffic.streams.iter().filter(failed).count() > 0, "nobody noticed");
            println!("{design:?} ends one link");
        }
        let _ = says.send(());
    });
    heard.recv_timeout(LIMIT).expect("the ranks hang, or one of them has failed");
}

/// One end of a link, of a rank with a process of its own.
struct Wire {
    link: Link,
    /// Registered with the device as long as that is open.
    _memory: Block,
}

impl Wire {
    fn new(world: &World, device: &mut Verbs, peer: u32) -> Self {
        let config =
            Config { design: Design::ZeroCopy, chunk: 4096, slots: 4, large: PART as u32 / 2 };
        let memory = Block::new(config.bytes());
        // SAFETY: the ranks drop the device before the memory, which the link and its peer alone reach.
        let region = unsafe { device.register(memory.base(), memory.length(), Access::ALL) };
        let region = region.unwrap();
        let lent = Lent {
            base: memory.base(),
            local_key: region.local_key,
            remote_key: region.remote_key,
        };
        // SAFETY: as above.
        let (mut link, card) = unsafe { Link::init(device, peer, config, lent) }.unwrap();
        let (mine, mut theirs) = (card.to_bytes(), card.to_bytes());
        world.endpoint().sendrecv(&mine, peer, 0, &mut theirs, peer, 0).unwrap();
        let card = Card::from_bytes(theirs);
        while link.connect(device, &card).unwrap() == Readiness::Pending {
            thread::yield_now();
        }
        Self { link, _memory: memory }
    }
}

/// Takes completions to their links, and leaves the processor to the devices, which are software.
fn poll<'a>(device: &mut Verbs, wires: impl IntoIterator<Item = &'a mut Wire>) {
    let nothing = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
    let mut completions = [nothing; 8];
    let count = device.poll(&mut completions).unwrap();
    for wire in wires {
        let own = wire.link.connection();
        let own = completions[..count].iter().filter(|it| it.connection == own);
        own.for_each(|it| wire.link.handle(it));
    }
    thread::sleep(Duration::from_micros(10));
}

/// What is read at a time, and how often.
const PART: usize = 1 << 20;
const PARTS: usize = 4;

/// Rank 0 reads what ranks 1 and 2 put.
fn read_from_both(world: &World, device: &mut Verbs) {
    let mut wires = [1, 2].map(|peer| Wire::new(world, device, peer));
    let mut rooms = [vec![0_u8; PART], vec![0_u8; PART]];
    let (mut got, mut told) = ([0; 2], false);
    let mut lost = None;
    while lost.is_none() || got[1] < PARTS * PART {
        for (at, (wire, room)) in wires.iter_mut().zip(&mut rooms).enumerate() {
            let through = [lost.is_some(), got[1] == PARTS * PART];
            if through[at] {
                continue;
            }
            let begin = got[at] % PART;
            let rest = NonNull::from(&mut room[begin..]);
            let part = Part { base: rest.cast(), length: rest.len() };
            // SAFETY: the room stays, and is left alone until it is full or the link has failed.
            match unsafe { wire.link.get(device, &[part]) } {
                Ok(bytes) => got[at] += bytes,
                Err(error) => lost = Some((at, error)),
            }
            if begin > 0 && got[at].is_multiple_of(PART) {
                assert_eq!(payload::first_difference(at as u64 + 1, room), None, "rank {}", at + 1);
            }
        }
        poll(device, &mut wires);
        if told {
            // Whoever only waits for it would not hear of its end. An error is met again by the next call.
            let _ = wires[0].link.probe(device);
        }
        // Now its device is answering a read, and there are more to come.
        if got[0] >= PART && wires[0].link.holds_get() && !core::mem::replace(&mut told, true) {
            world.endpoint().send(&[0_u8], 1, 1).unwrap();
        }
    }
    let (at, error) = lost.unwrap();
    assert_eq!((at, error.peer), (0, 1), "{error}");
    assert!(matches!(error.cause, Cause::Failed(_) | Cause::Refused(_)), "{error}");
    world.endpoint().send(&[0_u8], 2, 1).unwrap();
}

/// Ranks 1 and 2 put, one for ever, one until all is through.
fn be_read(world: &World, device: &mut Verbs) {
    let rank = world.rank();
    let data = payload::of(rank.into(), PART);
    let mut wire = Wire::new(world, device, 0);
    let mut put = 0;
    while world.endpoint().iprobe(0, 1).unwrap().is_none() {
        let rest = &data[put % PART..];
        let part = Part { base: NonNull::from(rest).cast(), length: rest.len() };
        if rank == 1 || put < PARTS * PART {
            // SAFETY: the data stay.
            put += unsafe { wire.link.put(device, &[part]) }.unwrap();
        }
        poll(device, [&mut wire]);
    }
    if rank == 1 {
        die();
    }
}

/// A rank dies while its device answers reads. The reader hears who it was, and what it reads from another is not concerned.
#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn who_is_read_dies() {
    let job = Ranks::new(3, "who_is_read_dies").within(LIMIT).with_deaths(&[1]);
    job.run(|world| {
        let names = Verbs::names().expect("devices");
        let device = names.get(world.rank() as usize % names.len().max(1)).cloned();
        let mut device = Verbs::open(&Opening { device, ..Opening::default() }).expect("a device");
        match world.rank() {
            0 => read_from_both(&world, &mut device),
            _ => be_read(&world, &mut device),
        }
        drop(device);
        world.finalize().unwrap();
    });
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn who_sleeps_is_knocked() {
    for design in Design::ALL {
        let mut mesh = Mesh::new(Devices, 2, Config { slots: 4, ..Config::new(design) });
        wake_each_time(&mut mesh, |device| device.events().wait(LIMIT) == Ok(true));
        println!("{design:?} knocks");
    }
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn what_is_drained_is_there() {
    for design in Design::ALL {
        // Several times, since the devices may be quick.
        for _ in 0..5 {
            let config = Config { chunk: 64, slots: 8, ..Config::new(design) };
            drained::is_there(&mut Mesh::new(Devices, 2, config));
        }
    }
}
