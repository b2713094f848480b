//! A rank that reads from or writes to another rank's memory in bursts.

use core::ptr::NonNull;

use strait_core::hca::{
    Access, Completion, Connection, Done, Hca, Operation, Readiness, Region, RemoteAddress, Sge,
    WorkRequest,
};

use crate::{Block, Model, SimDevice, SimFabric, Step};

/// The kind of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BareRequest {
    /// RDMA reads.
    Read,
    /// RDMA writes.
    Write,
}

/// Returns the bandwidth of bursts of bare requests in megabytes per second. A burst has as many
/// requests as take 4 MiB, at most 64.
///
/// # Panics
///
/// When a request fails.
#[must_use]
pub fn bare_bandwidth(kind: BareRequest, bytes: usize) -> f64 {
    let burst = ((4 << 20) / bytes).clamp(1, 64);
    let fabric = SimFabric::new(1, 2, Model::of_2004());
    let mut sides = [0, 1].map(|rank| ReadSide::new(&fabric, rank, bytes));
    let addresses = sides.each_ref().map(|side| side.address);
    for (side, peer) in sides.iter_mut().zip([1, 0]) {
        let connect = |side: &mut ReadSide| side.device.connect(side.connection, &addresses[peer]);
        while connect(side).expect("a peer") == Readiness::Pending {}
    }
    let far = &sides[1];
    let far = RemoteAddress { address: far.region.base, key: far.region.remote_key };
    let (mut posted, mut done) = (0, 0);
    let time = fabric.play(|rank| {
        let near = &mut sides[0];
        if rank == 1 || done == burst {
            return Step::Finished;
        }
        if posted < burst {
            near.post(kind, far, bytes);
            posted += 1;
            return Step::Moved;
        }
        let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [none; 64];
        let count = near.device.poll(&mut completions).expect("a device");
        assert!(completions[..count].iter().all(|completion| completion.result.is_ok()));
        done += count;
        if count > 0 { Step::Moved } else { Step::Waits }
    });
    (burst * bytes) as f64 * 1e3 / time as f64
}

struct ReadSide {
    device: SimDevice,
    connection: Connection,
    address: strait_core::hca::Address,
    memory: Block,
    region: Region,
}

impl ReadSide {
    fn new(fabric: &SimFabric, rank: u32, bytes: usize) -> Self {
        let mut device = fabric.device(rank);
        let memory = Block::new(bytes);
        // SAFETY: the block is dropped with the device, after which nothing happens on the fabric.
        let region = unsafe { device.register(memory.base(), memory.length(), Access::ALL) };
        let (connection, address) = device.open(1 - rank).expect("a connection");
        Self { device, connection, address, memory, region: region.expect("a region") }
    }

    fn post(&mut self, kind: BareRequest, far: RemoteAddress, bytes: usize) {
        let base: NonNull<u8> = self.memory.base();
        let piece = [Sge { base, length: bytes as u32, key: self.region.local_key }];
        let operation = match kind {
            BareRequest::Read => Operation::Read { into: &piece, from: far },
            BareRequest::Write => Operation::Write { from: &piece, to: far },
        };
        let request =
            WorkRequest { id: 0, operation, signaled: true, inline: false, fenced: false };
        // SAFETY: the block has the bytes, nothing else accesses it, and it outlives the fabric's
        // last event.
        unsafe { self.device.post(self.connection, &request) }.expect("room in the queue");
    }
}
