//! The registrations of a message that its receiver may read, or that this rank writes.
//!
//! A message in one part has one region. A message in several parts has one for each of its
//! [runs](Runs), and its receiver needs their addresses. They are in a list in the engine's memory,
//! which the receiver reads by RDMA before it reads the message.

use super::Channel;
use crate::buffer::{Cursor, Part, Runs};
use crate::engine::message_buffers::{MessageBuffers, OwnedBuffer};
use crate::engine::wait_list::WaitList;
use crate::hca::{Access, Region, RemoteAddress};
use crate::memory::{Memory, Slab};
use crate::wire::{MessageAddress, StridedRun};

/// Number of regions that are registered for receivers at a time. Further messages are offered
/// without a registration. So some of a device's room for regions is always left. Otherwise a
/// receiver that reads this rank's memory before it receives would wait for ever.
const REGIONS_MAX: u32 = 512;

/// A region of a message, or of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExposedRegion {
    region: Region,
    next: Option<u32>,
}

/// The registrations of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exposure {
    /// The regions of the message, in the order of its bytes, and that of the list behind them.
    regions: WaitList,
    /// The list that the receiver reads, if the message lies in several parts.
    list: Option<OwnedBuffer>,
    /// The location of the message, for its receiver.
    pub(super) address: MessageAddress,
}

impl Exposure {
    /// Returns the engine's memory that the receiver may read.
    pub(super) const fn list(&self) -> Option<OwnedBuffer> {
        self.list
    }

    /// Returns the first region of the message.
    pub(super) fn first(&self) -> Option<u32> {
        self.regions.first()
    }
}

/// Returns the number of runs of a message, if it goes beside the stream.
///
/// A message in several parts does where that is cheaper than packets. Each run costs a
/// registration, so it holds at least `stream_max` bytes on average, as many as a packet may. Each
/// block costs a request, so it holds at least a quarter of that.
fn count_runs(data: Cursor, stream_max: usize) -> Option<usize> {
    let bytes = data.remaining();
    let blocks_most = (bytes / (stream_max / 4).max(1)).max(1);
    // A message may have a block for each number in it. Not all of those are visited in vain.
    if bytes == 0 || !Runs::has_at_most(data, blocks_most) {
        return None;
    }
    let runs = Runs::of(data).count();
    let is_worth_it = Runs::has_at_most(data, 1) || bytes / runs >= stream_max;
    (is_worth_it && runs <= StridedRun::MOST as usize).then_some(runs)
}

/// The registrations of all messages.
#[derive(Debug)]
pub(super) struct Exposures<M: Memory> {
    regions: Slab<ExposedRegion, M>,
}

impl<M: Memory> Exposures<M> {
    pub(super) const fn new(memory: M) -> Self {
        Self { regions: Slab::new(memory) }
    }

    /// Finds the region of `part`: `from` or one behind it. The parts of a message are looked for
    /// in their order. Returns its number and its local key.
    pub(super) fn find(&self, mut from: Option<u32>, part: Part) -> Option<(u32, u32)> {
        let start = part.base.addr().get() as u64;
        loop {
            let number = from?;
            let ExposedRegion { region, next } = self.regions.get(number)?;
            let end = region.base + region.length;
            if region.base <= start && start + part.length as u64 <= end {
                return Some((number, region.local_key));
            }
            from = *next;
        }
    }

    /// Lets peers read `data`. Returns `None` if it is to go through the stream: its parts are
    /// short for a message above `stream_max`, or the system refuses, or there is no memory.
    ///
    /// # Safety
    ///
    /// The data stay valid until [`Exposures::end`]. Until then the peers have stopped reading.
    pub(super) unsafe fn expose(
        &mut self,
        data: Cursor,
        stream_max: usize,
        buffers: &MessageBuffers<M>,
        channel: &mut impl Channel,
    ) -> Option<Exposure> {
        let runs = count_runs(data, stream_max)?;
        let is_listed = runs > 1 || Runs::of(data).next()?.count > 1;
        if self.regions.len() + runs as u32 + u32::from(is_listed) > REGIONS_MAX {
            return None;
        }
        let list = match is_listed {
            true => Some(buffers.take(runs * StridedRun::LENGTH).ok()?),
            false => None,
        };
        let address = MessageAddress::One(RemoteAddress { address: 0, key: 0 });
        let mut exposure = Exposure { regions: WaitList::default(), list, address };
        // SAFETY: the caller guarantees that the data stay valid (contract of `expose`). The list
        // has room for all runs.
        let address = unsafe { self.expose_runs(&mut exposure, data, runs as u32, channel) };
        let Some(address) = address else {
            self.end(exposure, buffers, channel);
            return None;
        };
        Some(Exposure { address, ..exposure })
    }

    /// Registers the runs of `data`, and describes them in the list, if there is one. Returns the
    /// location of the message. Returns `None` if that fails, with some runs registered perhaps.
    ///
    /// # Safety
    ///
    /// The data stay valid until the exposure ends. The list has room for all `runs`.
    unsafe fn expose_runs(
        &mut self,
        exposure: &mut Exposure,
        data: Cursor,
        runs: u32,
        channel: &mut impl Channel,
    ) -> Option<MessageAddress> {
        for (place, run) in Runs::of(data).enumerate() {
            // SAFETY: each page of the extent holds bytes of the data, which stay valid (contract
            // of `expose_runs`). The device is asked for no byte between them.
            let first = unsafe { self.register(exposure, run.extent(), channel) }?;
            let Some(list) = exposure.list else { return Some(MessageAddress::One(first)) };
            let (length, stride) = (run.block.length as u64, run.stride as u64);
            let description = StridedRun { first, length, stride, count: run.count as u32 };
            // SAFETY: the list has room for all runs (contract of `expose_runs`), and is private
            // until it is registered.
            unsafe {
                let to = list.base.add(place * StridedRun::LENGTH);
                to.cast().write(description.pack());
            }
        }
        let OwnedBuffer { base, length } = exposure.list?;
        // SAFETY: the list stays allocated, and is not written, until the exposure ends.
        let list = unsafe { self.register(exposure, Part { base, length }, channel) }?;
        Some(MessageAddress::Listed(list, runs))
    }

    /// Lets peers read `part`. Returns its location, or `None` if the system refuses.
    ///
    /// # Safety
    ///
    /// The pages of the part stay in memory until the exposure ends.
    unsafe fn register(
        &mut self,
        exposure: &mut Exposure,
        part: Part,
        channel: &mut impl Channel,
    ) -> Option<RemoteAddress> {
        self.regions.reserve().ok()?;
        let access = Access { remote_read: true, ..Access::LOCAL_READ };
        // SAFETY: the caller guarantees that the pages stay (contract of `register`).
        let region = unsafe { channel.register(part, access) }?;
        let number = self.regions.insert(ExposedRegion { region, next: None }).ok()?;
        let before = exposure.regions.push(number);
        if let Some(before) = before.and_then(|before| self.regions.get_mut(before)) {
            before.next = Some(number);
        }
        // The region may be that of a longer part, which was registered before.
        Some(RemoteAddress { address: part.base.addr().get() as u64, key: region.remote_key })
    }

    /// Ends the registrations of a message that no peer reads any more.
    pub(super) fn end(
        &mut self,
        mut exposure: Exposure,
        buffers: &MessageBuffers<M>,
        channel: &mut impl Channel,
    ) {
        while let Some(ExposedRegion { region, next }) =
            exposure.regions.first().and_then(|number| self.regions.remove(number))
        {
            channel.release(region);
            exposure.regions.pop(next);
        }
        exposure.list.into_iter().for_each(|list| buffers.put_back(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;
    use std::vec::Vec;

    /// Returns the number of runs of `count` parts of `length` bytes behind gaps of `gap` bytes, if
    /// a message in these goes beside a stream for messages up to 1000 bytes.
    fn runs_of(count: usize, length: usize, gap: usize) -> Option<usize> {
        let mut memory = std::vec![0_u8; count * (length + gap)];
        let base = NonNull::from(memory.as_mut_slice()).cast::<u8>();
        // SAFETY: every part lies in the memory.
        let part = |at| Part { base: unsafe { base.add(at * (length + gap)) }, length };
        let parts: Vec<_> = (0..count).map(part).collect();
        // SAFETY: the parts outlive the cursor.
        count_runs(unsafe { Cursor::parts(&parts) }, 1000)
    }

    #[test]
    fn messages_in_short_parts_go_through_the_stream() {
        assert_eq!(runs_of(1, 10, 0), Some(1), "it was found large by others");
        assert_eq!(runs_of(8, 250, 8), Some(1));
        assert_eq!(runs_of(8, 249, 8), None, "each block is a request");
        assert_eq!(runs_of(8, 1000, 5000), Some(8));
        assert_eq!(runs_of(8, 999, 5000), None, "each run is a registration");
        assert_eq!(runs_of(256, 1000, 5000), Some(256));
        assert_eq!(runs_of(257, 1000, 5000), None, "the list is too long");
        assert_eq!(runs_of(3, 0, 8), None);
    }
}
