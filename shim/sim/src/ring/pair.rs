//! Two ranks and a link.

use strait_core::ring::LinkConfig;

use super::{Play, RingWork};
use crate::{Mesh, Rig, SimDevice, SimFabric};

/// A link, and the bytes of the message under way at each of its ends.
pub(super) struct RingPair {
    mesh: Mesh<Simulated>,
    sides: [PairSide; 2],
}

#[derive(Default)]
struct PairSide {
    out: Vec<u8>,
    arrived: Vec<u8>,
    /// Bytes of the message that are done.
    done: usize,
    /// Number of messages put and got.
    messages: [u64; 2],
}

/// The devices of a fabric, as a rig.
pub(super) struct Simulated(pub(super) SimFabric);

impl Rig for Simulated {
    type Device = SimDevice;

    fn device(&self, rank: u32) -> SimDevice {
        self.0.device(rank)
    }

    fn pass(&self) -> bool {
        self.0.advance()
    }
}

impl RingPair {
    pub(super) fn new(fabric: SimFabric, config: LinkConfig) -> Self {
        Self { mesh: Mesh::new(Simulated(fabric), 2, config), sides: Default::default() }
    }
}

impl Play for RingPair {
    fn go_on(&mut self, rank: u32, op: RingWork, _next: Option<RingWork>) -> Option<bool> {
        let polled = self.mesh.poll(rank);
        let side = &mut self.sides[rank as usize];
        let (bytes, length) = match op {
            RingWork::Put(length) => {
                if side.done == 0 {
                    side.out.clear();
                    side.out.resize(length, side.messages[0] as u8);
                }
                (self.mesh.put((rank, 1 - rank), &side.out[side.done..], &[]), length)
            }
            RingWork::Get(length) => {
                side.arrived.resize(length, !0);
                (self.mesh.get((1 - rank, rank), &mut side.arrived[side.done..], &[]), length)
            }
        };
        let bytes = bytes.expect("the link works");
        side.done += bytes;
        let done = side.done == length;
        if done {
            side.done = 0;
            let got = matches!(op, RingWork::Get(_));
            let number = &mut side.messages[usize::from(got)];
            let right = !got || side.arrived == vec![*number as u8; length];
            assert!(right, "message {number} arrived damaged");
            *number += 1;
        }
        (polled || bytes > 0).then_some(done)
    }

    fn settle(&mut self, rank: u32) -> Option<bool> {
        let polled = self.mesh.poll(rank);
        let (link, device) = self.mesh.end(rank, 1 - rank);
        let drained = link.drain(device).expect("the link works");
        (polled || drained).then_some(drained)
    }
}
