//! The RDMA channel over the software HCA: all ranks of a mesh in one thread, with and without
//! device threads.

use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

use fastrand::Rng;
use strait::hca::cq::EventDriven as _;
use strait::hca::soft::{Fabric, SoftHca, SoftMode, TimeModel};
use strait_core::regcache::{CacheLimits, Cached, Unwatched};
use strait_core::ring::{Design, LinkConfig};
use strait_sim::{Mesh, Rig};
use strait_tests::Ledger;
use strait_tests::conformance::ring::faults::break_one;
use strait_tests::conformance::ring::knocks::wake_each_time;
use strait_tests::conformance::ring::streams::Traffic;

const LIMIT: Duration = Duration::from_secs(120);

struct Soft {
    fabric: OwnedFd,
    mode: SoftMode,
}

impl Soft {
    fn new(ranks: u32, mode: SoftMode) -> Self {
        let fabric = Fabric::create(ranks).expect("a fabric");
        Self { fabric, mode }
    }
}

type Device = Cached<SoftHca, Unwatched, Ledger>;

impl Rig for Soft {
    type Device = Device;

    fn device(&self, rank: u32) -> Device {
        let device = SoftHca::attach(&self.fabric, rank, self.mode).expect("a device");
        let limits = CacheLimits { entries: 16, bytes: 1 << 20 };
        // SAFETY: the mesh is dropped before the streams, and its devices have registered only
        // memory of the streams.
        unsafe { Cached::new(device, Unwatched, Ledger::default(), limits) }.expect("memory")
    }

    /// Waits. A device without a thread works when it is polled, one with a thread needs real time.
    fn pass(&self) -> bool {
        if matches!(self.mode, SoftMode::Engine(_)) {
            thread::sleep(Duration::from_micros(10));
        }
        false
    }
}

/// Plays traffic with every design, and again with a link that breaks. Ends the test when that
/// hangs.
fn every_design_passes(mode: SoftMode, seeds: u64) {
    let (says, heard) = mpsc::channel();
    thread::spawn(move || {
        for design in Design::ALL {
            for seed in 0..seeds {
                let mut rng = Rng::with_seed(seed);
                let config = LinkConfig {
                    design,
                    chunk: 256,
                    slots: rng.u32(2..9),
                    large: rng.u32(1..3000),
                };
                // Dropped after the mesh, because its devices have registered memory of the
                // traffic.
                let mut traffic = Traffic::drawn(seed, 3, 20_000, 5000);
                let mut mesh = Mesh::new(Soft::new(3, mode), 3, config);
                if rng.bool() {
                    traffic.play(&mut mesh);
                    traffic.drain(&mut mesh);
                } else {
                    let turns = rng.u32(..500);
                    break_one(&mut mesh, &mut traffic, (0, 1), turns, revoke);
                }
            }
        }
        let _ = says.send(());
    });
    heard.recv_timeout(LIMIT).expect("the ranks hang, or one of them has failed");
}

/// Deregisters the memory of rank 0's end of its link to rank 1.
fn revoke(mesh: &mut Mesh<Soft>) {
    use strait_core::hca::Hca as _;
    let region = mesh.nodes[0].links[1].as_ref().unwrap().region;
    let device = &mut mesh.nodes[0].device;
    device.invalidate(region.base, region.length).expect("no error of the device");
    device.deregister(region).expect("the region was registered");
}

#[test]
fn the_channel_over_a_device_without_a_thread() {
    every_design_passes(SoftMode::Inline, 12);
}

#[test]
fn the_channel_over_a_device_with_a_thread() {
    every_design_passes(SoftMode::Engine(TimeModel::NONE), 4);
}

#[test]
fn a_sleeping_rank_is_woken() {
    for mode in [SoftMode::Inline, SoftMode::Engine(TimeModel::NONE)] {
        for design in Design::ALL {
            let mut mesh = Mesh::new(Soft::new(2, mode), 2, LinkConfig::new(design));
            wake_each_time(&mut mesh, |device| device.events().wait(LIMIT) == Ok(true));
        }
    }
}
