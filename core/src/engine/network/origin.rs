//! The location of a message that is read from the memory of a peer on another node.
//!
//! A message in several parts is described by a list in its sender's memory. The list is read
//! first, into memory of the engine. It is checked when the device no longer writes it, and used
//! then.

use core::ptr::NonNull;

use super::{Begun, Channel, Direct};
use crate::buffer::{Direction, Part};
use crate::engine::message_buffers::{MessageBuffers, OwnedBuffer};
use crate::hca::{Access, Region, RemoteAddress};
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{MessageAddress, StridedRun};

/// The location of the next bytes of a message that is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// The rest lies in one part, from here on.
    One(RemoteAddress),
    /// The message lies in several parts.
    Listed(RunList),
}

/// The runs of a message that lies in several parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunList {
    /// The location of the list in the sender's memory.
    from: RemoteAddress,
    /// Number of runs in it.
    runs: u32,
    /// The engine's memory for the list. `None` before it is read.
    list: Option<OwnedBuffer>,
    state: ListState,
    /// The place of the next bytes: run, block in it, and byte in that.
    next: (u32, u32, u64),
}

#[derive(Clone, Copy, Debug)]
enum ListState {
    /// Not all transfers have started: so many bytes have one. The region is that of the engine's
    /// memory.
    Reading { begun: usize, region: Option<Region>, last: u64 },
    /// The list is here and makes sense.
    Here,
}

/// The progress of reading a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lookup {
    /// The location of the message is known.
    Known,
    /// The device has yet to read the list.
    Pending,
    /// The system does not register the engine's memory.
    Refused,
    /// The list describes no such message.
    Nonsense,
}

impl Origin {
    pub(super) const fn of(address: MessageAddress) -> Self {
        match address {
            MessageAddress::One(from) => Self::One(from),
            MessageAddress::Listed(from, runs) => {
                let state = ListState::Reading { begun: 0, region: None, last: 0 };
                Self::Listed(RunList { from, runs, list: None, state, next: (0, 0, 0) })
            }
        }
    }

    /// Returns the engine's memory in which the list is.
    pub(super) const fn list(&self) -> Option<OwnedBuffer> {
        match self {
            Self::One(_) => None,
            Self::Listed(runs) => runs.list,
        }
    }

    /// Returns whether the device may still write the list.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Listed(RunList { state: ListState::Reading { region: Some(_), .. }, .. })
        )
    }

    /// Finds the location of a message of `total` bytes from `source`: reads the list of its runs.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: there is no memory for the list.
    pub(super) fn look_up<M: Memory>(
        &mut self,
        (source, total): (u32, u64),
        buffers: &MessageBuffers<M>,
        channel: &mut impl Channel,
    ) -> Result<Lookup, OutOfMemory> {
        match self {
            Self::One(_) => Ok(Lookup::Known),
            Self::Listed(runs) => runs.read(source, total, buffers, channel),
        }
    }

    /// Ends the registration of the list if the device no longer writes it, or never will. With
    /// `closed` streams it never will.
    pub(super) fn settle(&mut self, source: u32, closed: bool, channel: &mut impl Channel) {
        if let Self::Listed(RunList { state: ListState::Reading { region, last, .. }, .. }) = self
            && let Some(lent) = *region
            && (closed || channel.is_done(source, *last))
        {
            channel.release(lent);
            *region = None;
        }
    }

    /// Returns the location of the next bytes, and the number of bytes that lie there. Returns
    /// `None` while it is not known.
    pub(super) fn next(&self) -> Option<(RemoteAddress, usize)> {
        match self {
            Self::One(from) => Some((*from, usize::MAX)),
            Self::Listed(runs) => runs.next(),
        }
    }

    /// Moves on by `bytes` bytes, which lie in one block.
    pub(super) fn advance(&mut self, bytes: usize) {
        match self {
            Self::One(from) => from.address = from.address.wrapping_add(bytes as u64),
            Self::Listed(runs) => runs.advance(bytes as u64),
        }
    }
}

impl RunList {
    const fn length(&self) -> usize {
        self.runs as usize * StridedRun::LENGTH
    }

    /// Reads the list, as far as the channel takes transfers now.
    fn read<M: Memory>(
        &mut self,
        source: u32,
        total: u64,
        buffers: &MessageBuffers<M>,
        channel: &mut impl Channel,
    ) -> Result<Lookup, OutOfMemory> {
        let length = self.length();
        let ListState::Reading { begun, region, last } = &mut self.state else {
            return Ok(Lookup::Known);
        };
        let list = match self.list {
            Some(list) => list,
            None => *self.list.insert(buffers.take(length)?),
        };
        let lent = match *region {
            Some(lent) => lent,
            None => {
                let part = Part { base: list.base, length };
                // SAFETY: the engine keeps the list until the registration has ended.
                let lent = unsafe { channel.register(part, Access::LOCAL) };
                let Some(lent) = lent else { return Ok(Lookup::Refused) };
                *region.insert(lent)
            }
        };
        while *begun < length {
            // SAFETY: the list has `length` bytes.
            let base = unsafe { list.base.add(*begun) };
            let near = Part { base, length: length - *begun };
            let address = self.from.address.wrapping_add(*begun as u64);
            let far = RemoteAddress { address, ..self.from };
            let direct = Direct { direction: Direction::Read, near, key: lent.local_key, far };
            // SAFETY: the list is registered, and nothing accesses it until the transfer is done.
            // It is released after that, or when the streams are closed.
            let begin = unsafe { channel.transfer(source, &direct) };
            // A channel that breaks reports that once all bytes that had arrived are taken.
            let Ok(Some(Begun { number, bytes })) = begin else { return Ok(Lookup::Pending) };
            (*last, *begun) = (number, *begun + bytes);
        }
        if !channel.is_done(source, *last) {
            return Ok(Lookup::Pending);
        }
        channel.release(lent);
        self.state = ListState::Here;
        Ok(if self.is_sound(total) { Lookup::Known } else { Lookup::Nonsense })
    }

    /// Returns whether all runs make sense, and have `total` bytes together.
    fn is_sound(&self, total: u64) -> bool {
        let bytes = (0..self.runs)
            .try_fold(0_u64, |bytes, number| bytes.checked_add(self.run(number)?.bytes()?));
        bytes == Some(total)
    }

    /// Returns a run of the list, which is here.
    fn run(&self, number: u32) -> Option<StridedRun> {
        let (list, ListState::Here) = (self.list?, self.state) else { return None };
        if number >= self.runs {
            return None;
        }
        let place: NonNull<[u8; StridedRun::LENGTH]> = list.base.cast();
        // SAFETY: the list has room for all runs. The device has written each byte of it and writes
        // none any more, since the registration has ended.
        StridedRun::parse(&unsafe { place.add(number as usize).read() }).ok()
    }

    fn next(&self) -> Option<(RemoteAddress, usize)> {
        let (run, block, byte) = self.next;
        let (at, left) = self.run(run)?.at(block, byte)?;
        Some((at, usize::try_from(left).unwrap_or(usize::MAX)))
    }

    fn advance(&mut self, bytes: u64) {
        let (run, block, byte) = self.next;
        let Some(StridedRun { length, count, .. }) = self.run(run) else { return };
        self.next = match (byte + bytes < length, block + 1 < count) {
            (true, _) => (run, block, byte + bytes),
            (false, true) => (run, block + 1, 0),
            (false, false) => (run + 1, 0, 0),
        };
    }
}
