//! Two ranks that only write into each other's memory.

use core::ptr::NonNull;

use strait_core::hca::{
    Access, Completion, Connection, Done, Hca, Operation, Readiness, Region, RemoteAddress, Sge,
    WorkRequest,
};
use strait_core::ring::Counter;

use super::{Play, RingWork};
use crate::{Block, SimDevice, SimFabric};

/// Number of messages that have a source word for their number.
const MESSAGES: usize = 1024;

/// Offset of the bytes. Before them lie the word that the peer writes, and the source words of this
/// side.
const BYTES: usize = 8 * (MESSAGES + 1);

/// A connection with memory for a message and its number at both ends.
pub(super) struct RawPair([RawSide; 2]);

struct RawSide {
    device: SimDevice,
    connection: Connection,
    memory: Block,
    region: Region,
    far: RemoteAddress,
    sent: u64,
    awaited: u64,
}

impl RawPair {
    pub(super) fn new(fabric: &SimFabric, bytes: usize) -> Self {
        let opened = [0, 1].map(|rank| {
            let mut device = fabric.device(rank);
            let memory = Block::new(BYTES + bytes);
            // SAFETY: the block is valid, and only a device writes to it later.
            unsafe { memory.base().write_bytes(0, memory.length()) };
            // SAFETY: the block is dropped with the device, after which nothing happens on the
            // fabric.
            let region = unsafe { device.register(memory.base(), memory.length(), Access::ALL) };
            let (connection, address) = device.open(1 - rank).expect("a connection");
            (device, connection, address, memory, region.expect("a region"))
        });
        let (addresses, regions) =
            (opened.each_ref().map(|side| side.2), opened.each_ref().map(|side| side.4));
        let mut peer = 2;
        Self(opened.map(|(mut device, connection, _, memory, region)| {
            peer -= 1;
            let connect = |device: &mut SimDevice| device.connect(connection, &addresses[peer]);
            while connect(&mut device).expect("a peer") == Readiness::Pending {}
            let far = RemoteAddress { address: regions[peer].base, key: regions[peer].remote_key };
            RawSide { device, connection, memory, region, far, sent: 0, awaited: 0 }
        }))
    }
}

impl RawSide {
    fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the block has these bytes.
        unsafe { self.memory.base().add(offset) }
    }

    fn write(&mut self, from: usize, to: usize, length: usize) {
        let key = self.region.local_key;
        let piece = Sge { base: self.at(from), length: length as u32, key };
        let to = RemoteAddress { address: self.far.address + to as u64, key: self.far.key };
        let request = WorkRequest {
            id: 0,
            operation: Operation::Write { from: &[piece], to },
            signaled: true,
            inline: false,
            fenced: false,
        };
        // SAFETY: the bytes never change, and each word is the source of one request only.
        unsafe { self.device.post(self.connection, &request) }.expect("room in the queue");
    }
}

impl Play for RawPair {
    fn go_on(&mut self, rank: u32, op: RingWork, next: Option<RingWork>) -> Option<bool> {
        self.settle(rank);
        let side = &mut self.0[rank as usize];
        match (op, next) {
            (RingWork::Put(length), next) => {
                let is_last = !matches!(next, Some(RingWork::Put(_)));
                if length > 8 || !is_last {
                    side.write(BYTES, BYTES, length);
                }
                if is_last {
                    side.sent += 1;
                    let word = 8 * side.sent as usize;
                    // SAFETY: the word lies in the block, aligned, and no request has named it yet.
                    unsafe { side.at(word).cast::<u64>().write(side.sent) };
                    side.write(word, 0, 8);
                }
                Some(true)
            }
            (RingWork::Get(_), Some(RingWork::Get(_))) => Some(true),
            (RingWork::Get(_), _) => {
                // SAFETY: the word lies in the block, aligned, and a device writes it.
                let arrived = unsafe { side.at(0).cast::<Counter>().as_ref() }.read();
                let done = arrived > side.awaited;
                side.awaited += u64::from(done);
                done.then_some(true)
            }
        }
    }

    fn settle(&mut self, rank: u32) -> Option<bool> {
        let none = Completion { id: 0, connection: Connection(0), result: Ok(Done::Write) };
        let mut completions = [none; 64];
        let count = self.0[rank as usize].device.poll(&mut completions).expect("a device");
        assert!(completions[..count].iter().all(|completion| completion.result.is_ok()));
        Some(true)
    }
}
