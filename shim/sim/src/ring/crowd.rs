//! Several origins that send bursts to one target at the same time, `[OneSided04]` §3.4.7.

use strait_core::hca::{
    Access, Address, Completion, Connection, Done, Hca, Operation, Readiness, RemoteAddress, Sge,
    WorkRequest,
};
use strait_core::ring::{Design, LinkConfig};

use super::pair::Simulated;
use crate::{Block, Mesh, Model, SimDevice, SimFabric, Step};

/// Bytes of a message, and messages of a burst.
const BYTES: usize = 64 << 10;
const BURST: usize = 16;

/// Returns the bandwidth of all origins together in megabytes per second, where each writes a burst
/// into the target's memory.
///
/// # Panics
///
/// When a request fails.
#[must_use]
pub fn crowd_by_writes(origins: u32) -> f64 {
    let fabric = SimFabric::new(1, origins + 1, Model::of_2004());
    let mut target = fabric.device(0);
    let memory = Block::new(BYTES * origins as usize);
    // SAFETY: the block is dropped with the devices, after which nothing happens on the fabric.
    let region = unsafe { target.register(memory.base(), memory.length(), Access::ALL) };
    let region = region.expect("a region");
    let mut all: Vec<_> = (1..=origins)
        .map(|rank| {
            let mut origin = CrowdOrigin::new(&fabric, rank);
            let (connection, address) = target.open(rank).expect("a connection");
            connect(&mut target, connection, &origin.address);
            connect(&mut origin.device, origin.connection, &address);
            let offset = (rank as usize - 1) * BYTES;
            let address = region.base + offset as u64;
            (origin, RemoteAddress { address, key: region.remote_key })
        })
        .collect();
    let time = fabric.play(|rank| match rank {
        0 => Step::Finished,
        _ => {
            let (origin, far) = &mut all[rank as usize - 1];
            origin.turn(*far)
        }
    });
    rate(origins, time)
}

/// Returns the bandwidth where each origin sends its burst as messages of a link with this design,
/// which the target receives.
///
/// # Panics
///
/// When a link fails.
#[must_use]
pub fn crowd_by_messages(origins: u32, design: Design) -> f64 {
    let fabric = SimFabric::new(1, origins + 1, Model::of_2004());
    let config = LinkConfig::new(design);
    let mut mesh = Mesh::new(Simulated(fabric.clone()), origins + 1, config);
    let whole = BYTES * BURST;
    let out = vec![7; BYTES];
    let mut rooms = vec![vec![0; BYTES]; origins as usize];
    let mut put = vec![0; origins as usize];
    let mut got = vec![0; origins as usize];
    let time = fabric.play(|rank| {
        let mut moved = mesh.poll(rank);
        if let Some(own) = (rank as usize).checked_sub(1) {
            if put[own] < whole {
                let bytes = mesh.put((rank, 0), &out[put[own] % BYTES..], &[]).expect("the link");
                put[own] += bytes;
                moved |= bytes > 0;
            } else {
                let (link, device) = mesh.end(rank, 0);
                if link.drain(device).expect("the link") {
                    return Step::Finished;
                }
            }
        } else {
            for (from, room) in (1..).zip(&mut rooms) {
                let done = &mut got[from as usize - 1];
                if *done < whole {
                    let bytes =
                        mesh.get((from, 0), &mut room[*done % BYTES..], &[]).expect("the link");
                    *done += bytes;
                    moved |= bytes > 0;
                }
            }
            let mut is_drained = got.iter().all(|done| *done == whole);
            for from in 1..=origins {
                let (link, device) = mesh.end(0, from);
                is_drained &= link.drain(device).expect("the link");
            }
            if is_drained {
                return Step::Finished;
            }
        }
        if moved { Step::Moved } else { Step::Waits }
    });
    rate(origins, time)
}

fn rate(origins: u32, time: u64) -> f64 {
    (origins as usize * BURST * BYTES) as f64 * 1e3 / time as f64
}

fn connect(device: &mut SimDevice, connection: Connection, address: &Address) {
    while device.connect(connection, address).expect("a peer") == Readiness::Pending {}
}

/// A rank that writes a burst.
struct CrowdOrigin {
    device: SimDevice,
    connection: Connection,
    address: Address,
    memory: Block,
    key: u32,
    posted: usize,
    done: usize,
}

impl CrowdOrigin {
    fn new(fabric: &SimFabric, rank: u32) -> Self {
        let mut device = fabric.device(rank);
        let memory = Block::new(BYTES);
        // SAFETY: the block is dropped with the device, after which nothing happens on the fabric.
        let region = unsafe { device.register(memory.base(), memory.length(), Access::ALL) };
        let key = region.expect("a region").local_key;
        let (connection, address) = device.open(0).expect("a connection");
        Self { device, connection, address, memory, key, posted: 0, done: 0 }
    }

    fn turn(&mut self, to: RemoteAddress) -> Step {
        if self.posted < BURST {
            let from = [Sge { base: self.memory.base(), length: BYTES as u32, key: self.key }];
            let operation = Operation::Write { from: &from, to };
            let request =
                WorkRequest { id: 0, operation, signaled: true, inline: false, fenced: false };
            // SAFETY: the block has the bytes, which never change, and outlives the fabric's last
            // event.
            unsafe { self.device.post(self.connection, &request) }.expect("room in the queue");
            self.posted += 1;
            return Step::Moved;
        }
        let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [none; BURST];
        let count = self.device.poll(&mut completions).expect("a device");
        assert!(completions[..count].iter().all(|completion| completion.result.is_ok()));
        self.done += count;
        match count {
            _ if self.done == BURST => Step::Finished,
            0 => Step::Waits,
            _ => Step::Moved,
        }
    }
}
