//! The RDMA channel over libibverbs: all ranks of a mesh in one thread, each with a device of its own where there are so many.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use strait::hca::cq::EventDriven as _;
use strait::hca::verbs::{Config as Opening, Verbs};
use strait_core::hca::Hca as _;
use strait_core::regcache::{Cached, Limits, Unwatched};
use strait_core::ring::{Config, Design};
use strait_tests::Ledger;
use strait_tests::conformance::ring::drained;
use strait_tests::conformance::ring::faults::break_one;
use strait_tests::conformance::ring::knocks::wake_each_time;
use strait_tests::conformance::ring::streams::{Stream, Traffic};
use strait_tests::conformance::ring::{Mesh, Rig};

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

#[test]
#[ignore = "needs RDMA devices: cargo xtask vm"]
fn a_fault_ends_one_link_and_names_its_peer() {
    let (says, heard) = mpsc::channel();
    thread::spawn(move || {
        let strikes: [fn(&mut Mesh<Devices>); 2] = [revoke, close];
        for (seed, strike) in (10..).zip(strikes) {
            let design = Design::ZeroCopy;
            let config = Config { design, chunk: 256, slots: 4, large: 1000 };
            let mut traffic = Traffic::drawn(seed, RANKS, 20_000, 5000);
            let mut mesh = Mesh::new(Devices, RANKS, config);
            break_one(&mut mesh, &mut traffic, (0, 1), 100, strike);
            let failed =
                |stream: &&Stream| stream.put_error.is_some() || stream.get_error.is_some();
            assert!(traffic.streams.iter().filter(failed).count() > 0, "nobody noticed");
        }
        let _ = says.send(());
    });
    heard.recv_timeout(LIMIT).expect("the ranks hang, or one of them has failed");
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
