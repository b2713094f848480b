//! The RDMA channel over libibverbs: all ranks of a mesh in one thread, each with a device of its
//! own if there are enough.

use core::ptr::NonNull;
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use strait::World;
use strait::hca::cq::EventDriven as _;
use strait::hca::verbs::{Verbs, VerbsConfig as Opening};
use strait_core::buffer::Part;
use strait_core::hca::{Access, Completion, Connection, Done, Hca as _, Readiness};
use strait_core::regcache::{CacheLimits, Cached, Unwatched};
use strait_core::ring::{Cause, Design, Link, LinkAddress, LinkConfig, LinkMemory};
use strait_sim::Block;
use strait_sim::{Mesh, Rig};
use strait_tests::conformance::ring::drained;
use strait_tests::conformance::ring::faults::break_one;
use strait_tests::conformance::ring::knocks::wake_each_time;
use strait_tests::conformance::ring::streams::{Stream, Traffic};
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
        let limits = CacheLimits { entries: 16, bytes: 1 << 20 };
        // SAFETY: the mesh is dropped before the streams, and its devices have registered only
        // memory of the streams.
        unsafe { Cached::new(device, Unwatched, Ledger::default(), limits) }.expect("memory")
    }

    /// Waits, because the devices work by themselves, in their own time.
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
            let config = LinkConfig { design, chunk: 256, slots: 4, large: 1000 };
            // Dropped after the mesh, because its devices have registered memory of the traffic.
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

/// Deregisters the memory of rank 0's end of its link to rank 1. Requests of both sides complete
/// with an error, and both queue pairs go to the error state.
fn revoke(mesh: &mut Mesh<Devices>) {
    let region = mesh.nodes[0].links[1].as_ref().unwrap().region;
    let device = &mut mesh.nodes[0].device;
    device.invalidate(region.base, region.length).expect("no error of the device");
    device.deregister(region).expect("the region was registered");
}

/// Closes rank 0's end of that link without notice: rank 1 finds no peer.
fn close(mesh: &mut Mesh<Devices>) {
    let (link, device) = mesh.end(0, 1);
    let connection = link.connection();
    device.close(connection).expect("the connection was open");
}

/// Returns traffic that is under way. With the designs that move large parts, it is in the middle
/// of one from rank 1 to rank 0.
fn under_way(design: Design, seeds: &mut impl Iterator<Item = u64>) -> (Traffic, Mesh<Devices>) {
    let config = LinkConfig { design, chunk: 256, slots: 4, large: 1000 };
    // The data of rank 1 may be short, so other seeds are tried.
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
            assert!(traffic.streams.iter().filter(failed).count() > 0, "no rank noticed");
            println!("{design:?} ends one link");
        }
        let _ = says.send(());
    });
    heard.recv_timeout(LIMIT).expect("the ranks hang, or one of them has failed");
}

/// One end of a link of a rank with its own process.
struct Wire {
    link: Link,
    /// The device has this memory registered as long as it is open.
    _memory: Block,
}

impl Wire {
    fn new(world: &World, device: &mut Verbs, peer: u32) -> Self {
        let config =
            LinkConfig { design: Design::ZeroCopy, chunk: 4096, slots: 4, large: PART as u32 / 2 };
        let memory = Block::new(config.bytes());
        // SAFETY: the ranks drop the device before the memory, which only the link and its peer
        // access.
        let region = unsafe { device.register(memory.base(), memory.length(), Access::ALL) };
        let region = region.unwrap();
        let lent = LinkMemory {
            base: memory.base(),
            local_key: region.local_key,
            remote_key: region.remote_key,
        };
        // SAFETY: the ranks drop the device before the lent memory, which only the link and its
        // peer access.
        let (mut link, address) = unsafe { Link::init(device, peer, config, lent) }.unwrap();
        let (mine, mut theirs) = (address.to_bytes(), address.to_bytes());
        world.endpoint().sendrecv(&mine, peer, 0, &mut theirs, peer, 0).unwrap();
        let address = LinkAddress::from_bytes(theirs);
        while link.connect(device, &address).unwrap() == Readiness::Pending {
            thread::yield_now();
        }
        Self { link, _memory: memory }
    }
}

/// Passes completions to their links, and yields the processor to the software devices.
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

/// The bytes of one read, and the number of reads.
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
            // A reader that only waits for the peer would not learn of its end. The next call
            // returns an error again.
            let _ = wires[0].link.probe(device);
        }
        // Now the peer's device is answering a read, and more reads follow.
        if got[0] >= PART && wires[0].link.holds_get() && !core::mem::replace(&mut told, true) {
            world.endpoint().send(&[0_u8], 1, 1).unwrap();
        }
    }
    let (at, error) = lost.unwrap();
    assert_eq!((at, error.peer), (0, 1), "{error}");
    assert!(matches!(error.cause, Cause::Failed(_) | Cause::Refused(_)), "{error}");
    world.endpoint().send(&[0_u8], 2, 1).unwrap();
}

/// Ranks 1 and 2 put, one for ever, one until all data have been read.
fn be_read(world: &World, device: &mut Verbs) {
    let rank = world.rank();
    let data = payload::of(rank.into(), PART);
    let mut wire = Wire::new(world, device, 0);
    let mut put = 0;
    while world.endpoint().iprobe(0, 1).unwrap().is_none() {
        let rest = &data[put % PART..];
        let part = Part { base: NonNull::from(rest).cast(), length: rest.len() };
        if rank == 1 || put < PARTS * PART {
            // SAFETY: the data stay valid.
            put += unsafe { wire.link.put(device, &[part]) }.unwrap();
        }
        poll(device, [&mut wire]);
    }
    if rank == 1 {
        die();
    }
}

/// A rank dies while its device answers reads. The reader learns which rank died, and its reads
/// from another rank are not affected.
#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn a_rank_that_is_read_dies() {
    let job = Ranks::new(3, "a_rank_that_is_read_dies").within(LIMIT).with_deaths(&[1]);
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
fn a_sleeping_rank_is_woken() {
    for design in Design::ALL {
        let mut mesh = Mesh::new(Devices, 2, LinkConfig { slots: 4, ..LinkConfig::new(design) });
        wake_each_time(&mut mesh, |device| device.events().wait(LIMIT) == Ok(true));
        println!("{design:?} knocks");
    }
}

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn what_is_drained_is_there() {
    for design in Design::ALL {
        // Repeats several times, since the devices may be quick.
        for _ in 0..5 {
            let config = LinkConfig { chunk: 64, slots: 8, ..LinkConfig::new(design) };
            drained::is_there(&mut Mesh::new(Devices, 2, config));
        }
    }
}
