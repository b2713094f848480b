//! Messages that are written to the memory of a peer on another node.

use super::{Begun, Channel, Direct};
use crate::buffer::{Direction, Part};
use crate::hca::{Region, RemoteAddress};
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
    pub(super) region: Region,
    /// The bytes without a transfer yet.
    pub(super) rest: Part,
    /// The address to which `rest` goes.
    pub(super) to: RemoteAddress,
    /// The control message that reports the end.
    pub(super) end: StreamHead,
    /// The last transfer.
    pub(super) last: u64,
    /// The place of that control message, until it is sent. `None` also if the head of the message
    /// has reported the end.
    pub(super) word: Option<u32>,
}

impl Writing {
    pub(super) const fn destination(&self) -> u32 {
        self.destination
    }

    /// Starts as many transfers as the channel takes now. Returns whether it took any. A channel
    /// that breaks reports that to the reading side.
    pub(super) fn go_on(&mut self, channel: &mut impl Channel) -> bool {
        let before = self.rest.length;
        while self.rest.length > 0 {
            let Self { destination, rest, to, region, .. } = *self;
            let direct =
                Direct { direction: Direction::Write, near: rest, key: region.local_key, far: to };
            // SAFETY: the part is registered, and the message is claimed until its request is over.
            // That is when the last transfer is done, or the streams are closed.
            let Ok(Some(Begun { number, bytes })) =
                (unsafe { channel.transfer(destination, &direct) })
            else {
                break;
            };
            self.last = number;
            // SAFETY: the channel moves no more bytes than there are.
            let base = unsafe { rest.base.add(bytes) };
            self.rest = Part { base, length: rest.length - bytes };
            self.to.address = to.address.wrapping_add(bytes as u64);
        }
        self.rest.length < before
    }
}
