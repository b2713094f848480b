//! Messages that are read from the memory of a peer on another node.

use super::origin::{Lookup, Origin};
use super::{Begun, Broken, Channel, Direct};
use crate::buffer::{Cursor, Direction, Part};
use crate::engine::message_buffers::MessageBuffers;
use crate::hca::{Access, Region};
use crate::layout::{Call, Wait};
use crate::lmt::Chosen;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::Offer;

/// Number of parts of a buffer that are registered at a time.
pub(super) const PARTS: usize = 4;

/// A message that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) source: u32,
    pub(super) tag: u32,
    pub(super) offer: Offer,
    /// The location of the next bytes in the sender's memory.
    pub(super) from: Origin,
    /// The whole buffer.
    pub(super) buffer: Cursor,
    /// The place of the next bytes.
    pub(super) rest: Cursor,
    /// Bytes to be read.
    pub(super) wanted: usize,
    /// Bytes with a transfer that has started.
    pub(super) begun: usize,
    pub(super) lent: [Option<ReadBuffer>; PARTS],
    /// Whether the system refused to register a part.
    pub(super) refused: bool,
    /// The receive's request. `None` after the receive was dropped.
    pub(super) request: Option<u32>,
    /// The place of the control message that will answer the sender.
    pub(super) word: u32,
    pub(super) chosen: Chosen,
    /// The time of the first attempt to start a transfer, if the message is measured.
    pub(super) began: Option<u64>,
    pub(super) next: Option<u32>,
}

/// A part of the buffer that the device may write.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadBuffer {
    pub(super) region: Region,
    /// The last transfer into it.
    pub(super) last: u64,
}

impl ReadBuffer {
    /// Returns whether all of `part` lies in it. The region of one part may reach into the next
    /// part, if it is the region of a longer part that was registered before.
    pub(super) fn holds(&self, part: Part) -> bool {
        let (at, Region { base, length, .. }) = (part.base.addr().get() as u64, self.region);
        base <= at && at + part.length as u64 <= base + length
    }
}

impl Reading {
    /// Returns what the receive waits for.
    pub(super) fn wait(&self) -> Wait {
        let (tag, bytes) = (Some(self.tag), Some(self.wanted as u64));
        Wait { tag, bytes, ..Wait::on(Call::Recv, self.source) }
    }

    /// Returns the place of the next bytes: the rest of one part of the buffer. Returns `None` when
    /// all transfers have started.
    pub(super) fn next_part(&self) -> Option<Part> {
        let left = self.wanted - self.begun;
        let Part { base, length } = self.rest.first().filter(|_| left > 0)?;
        Some(Part { base, length: length.min(left) })
    }

    /// Ends the registrations of parts that the device does not write any more.
    pub(super) fn settle(&mut self, channel: &mut impl Channel) {
        if self.begun == self.wanted {
            self.from.settle(self.source, false, channel);
        }
        let next = self.next_part();
        for place in &mut self.lent {
            let over = place.filter(|lent| {
                channel.is_done(self.source, lent.last)
                    && !next.is_some_and(|part| lent.holds(part))
            });
            if let Some(ReadBuffer { region, .. }) = over {
                channel.release(region);
                *place = None;
            }
        }
    }

    /// Finds the location of the message, unless no more of it is wanted.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub(super) fn look_up<M: Memory>(
        &mut self,
        buffers: &MessageBuffers<M>,
        channel: &mut impl Channel,
    ) -> Result<Lookup, OutOfMemory> {
        if self.begun == self.wanted {
            return Ok(Lookup::Known);
        }
        let found = self.from.look_up((self.source, self.offer.total), buffers, channel)?;
        if found == Lookup::Refused {
            self.refuse();
        }
        Ok(found)
    }

    /// Notes that the system refuses to register memory, so that no further transfer can start.
    const fn refuse(&mut self) {
        self.refused = true;
        self.wanted = self.begun;
    }

    /// Starts as many transfers as the channel takes now. Returns whether it took any.
    pub(super) fn go_on(&mut self, channel: &mut impl Channel) -> Result<bool, Broken> {
        if self.chosen.is_measured() && self.began.is_none() {
            self.began = Some(channel.now());
        }
        let mut moved = false;
        while let Some(part) = self.next_part() {
            let Some((far, length)) = self.from.next() else { break };
            let Some((place, key)) = self.lend(part, channel) else { break };
            let near = Part { length: part.length.min(length), ..part };
            let direct = Direct { direction: Direction::Read, near, key, far };
            // SAFETY: the part is registered, and belongs to a receive that claims it. The claim
            // lasts until no part is lent any more, or until the streams are closed.
            let Some(Begun { number, bytes }) =
                (unsafe { channel.transfer(self.source, &direct) })?
            else {
                break;
            };
            if let Some(lent) = &mut self.lent[place] {
                lent.last = number;
            }
            self.begun += bytes;
            self.from.advance(bytes);
            self.rest = self.rest.after(bytes);
            moved = true;
        }
        Ok(moved)
    }

    /// Registers the part. Returns its index in `lent` and its key, or `None` if it cannot be
    /// registered now or ever.
    pub(super) fn lend(&mut self, part: Part, channel: &mut impl Channel) -> Option<(usize, u32)> {
        let held = |lent: &Option<ReadBuffer>| lent.filter(|lent| lent.holds(part));
        let found = self.lent.iter().enumerate().find_map(|(at, lent)| Some((at, held(lent)?)));
        if let Some((place, lent)) = found {
            return Some((place, lent.region.local_key));
        }
        let place = self.lent.iter().position(Option::is_none)?;
        // SAFETY: the part belongs to a receive that claims it until no part is lent any more, or
        // until the streams are closed.
        let region = unsafe { channel.register(part, Access::LOCAL) };
        self.lent[place] = region.map(|region| ReadBuffer { region, last: 0 });
        if region.is_none() {
            self.refuse();
        }
        region.map(|region| (place, region.local_key))
    }

    /// Returns whether the device writes no part of the buffer.
    pub(super) fn is_quiet(&self) -> bool {
        self.lent.iter().all(Option::is_none)
    }

    pub(super) fn is_over(&self) -> bool {
        self.begun == self.wanted && self.is_quiet() && !self.from.is_busy()
    }
}
