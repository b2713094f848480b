//! Messages that are written to the memory of a peer on another node.

use super::exposure::{Exposure, Exposures};
use super::{Begun, Channel, Direct};
use crate::buffer::{Cursor, Direction, Part};
use crate::hca::RemoteAddress;
use crate::memory::Memory;
#[cfg(test)]
use crate::wire::Turn;
use crate::wire::{RtrId, StreamHead};

/// The place where a receive on another node wants its message.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct There {
    pub(super) to: RemoteAddress,
    pub(super) capacity: usize,
    pub(super) asked: RtrId,
}

#[cfg(test)]
impl There {
    /// Returns an RTR for the message of `turn` to no memory.
    pub(in crate::engine) fn anywhere(turn: Turn) -> Self {
        let to = RemoteAddress { address: 0, key: 0 };
        Self { to, capacity: 0, asked: RtrId { place: 0, turn } }
    }
}

/// A message that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) destination: u32,
    /// The request of its send.
    pub(super) request: u32,
    pub(super) exposure: Exposure,
    /// The region in which `rest` begins, or one before it.
    region: Option<u32>,
    /// The bytes without a transfer yet, and others behind them that the receive has no room for.
    rest: Cursor,
    /// Number of the bytes without a transfer yet.
    left: usize,
    /// The address to which `rest` goes.
    to: RemoteAddress,
    /// The control message that reports the end.
    pub(super) end: StreamHead,
    /// The last transfer.
    pub(super) last: u64,
    /// The place of that control message, until it is sent. `None` also if the head of the message
    /// has reported the end.
    pub(super) word: Option<u32>,
}

impl Writing {
    /// Returns a message of which no byte is written: `data`, which is exposed, goes `to` a buffer
    /// of `capacity` bytes.
    pub(super) fn new(
        (destination, request): (u32, u32),
        (data, exposure): (Cursor, Exposure),
        (to, capacity): (RemoteAddress, usize),
        end: StreamHead,
    ) -> Self {
        let (region, left) = (exposure.first(), data.remaining().min(capacity));
        let (last, word) = (0, None);
        Self { destination, request, exposure, region, rest: data, left, to, end, last, word }
    }

    pub(super) const fn destination(&self) -> u32 {
        self.destination
    }

    /// Returns whether a transfer of every byte has started.
    pub(super) const fn is_begun(&self) -> bool {
        self.left == 0
    }

    /// Starts as many transfers as the channel takes now. Returns whether it took any. A channel
    /// that breaks reports that to the reading side.
    pub(super) fn go_on<M: Memory>(
        &mut self,
        exposures: &Exposures<M>,
        channel: &mut impl Channel,
    ) -> bool {
        let before = self.left;
        while self.left > 0 {
            let Some(Part { base, length }) = self.rest.first() else { break };
            let near = Part { base, length: length.min(self.left) };
            let Some((region, key)) = exposures.find(self.region, near) else { break };
            let direct = Direct { direction: Direction::Write, near, key, far: self.to };
            // SAFETY: the part is registered, and the message is claimed until its request is over.
            // That is when the last transfer is done, or the streams are closed.
            let Ok(Some(Begun { number, bytes })) =
                (unsafe { channel.transfer(self.destination, &direct) })
            else {
                break;
            };
            (self.last, self.region) = (number, Some(region));
            self.rest = self.rest.after(bytes);
            self.left -= bytes;
            self.to.address = self.to.address.wrapping_add(bytes as u64);
        }
        self.left < before
    }
}
