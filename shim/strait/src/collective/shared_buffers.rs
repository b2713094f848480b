//! Collective buffers: memory of each member in the segment, in which it shows vectors to the
//! others of its node.
//!
//! An operation is one step of the group ([`strait_core::shm::Steps`]). A member that shows a
//! vector copies it into its own buffer and enters the step. The others wait for that entry and
//! read the vector. A buffer is a ring: the vectors of later steps lie in other places. So a member
//! that shows vectors may be some steps ahead of those that read them. It waits for them before it
//! writes where they may still read.
//!
//! | offset | bytes | content |
//! |---:|---:|---|
//! | 0 | 32 · 64 | for each step a length in bytes, and a vector of at most 56 bytes |
//! | 2,048 | 32 · 1 KiB | vectors of at most 1 KiB |
//! | 34,816 | 8 · 16 KiB | vectors of at most 16 KiB |
//! | 165,888 | 2 · 64 KiB | vectors of at most 64 KiB |
//!
//! Buffers belong to the group's slot. A rank keeps its buffer for the next group in the slot: that
//! group gets the slot when no member of this one has a seat there, and so none reads any more. The
//! memory stays allocated until the job ends, since peers may read after its owner has left.

use strait_core::buffer::copy::{Stores, copy_cached, copy_opaque, fill};
use strait_core::shm::{BarrierSlot, FLAGS, Steps};

use super::blocks::Blocks;
use super::team::{Team, bytes_mut};
use crate::world::meeting::{BufferState, CollectiveBuffers, GroupBarrier};
use crate::{CollectiveError, Error};

/// Number of steps by which a member may be ahead of those that read its shortest vectors.
const HEADS: u64 = 32;

/// Bytes of a head: a length, and a short vector.
const HEAD_BYTES: usize = 64;

/// Bytes of the length in a head.
const LENGTH_BYTES: usize = size_of::<u64>();

/// Places for vectors of similar length in a buffer.
struct Ring {
    /// Offset of the first place in bytes.
    start: usize,
    /// Distance of two places in bytes.
    stride: usize,
    /// Longest vector, in bytes.
    longest: usize,
    places: u64,
}

/// The rings of a buffer. The places of the first are in the heads.
const RINGS: [Ring; 4] = [
    Ring {
        start: LENGTH_BYTES,
        stride: HEAD_BYTES,
        longest: HEAD_BYTES - LENGTH_BYTES,
        places: HEADS,
    },
    Ring::of(HEADS as usize * HEAD_BYTES, 1 << 10, HEADS),
    Ring::of(34_816, 16 << 10, 8),
    Ring::of(165_888, 64 << 10, 2),
];

/// Bytes of a buffer.
const BUFFER_BYTES: usize = RINGS[3].end();

/// Longest vector in a buffer, in bytes.
pub(super) const BUFFER_VECTOR_MAX: usize = RINGS[3].longest;

const _: () = {
    assert!(RINGS[1].end() == RINGS[2].start && RINGS[2].end() == RINGS[3].start);
};

/// The offset of a buffer for which its owner has no memory.
const NO_BUFFER: u64 = u64::MAX;

impl Ring {
    const fn of(start: usize, longest: usize, places: u64) -> Self {
        Self { start, stride: longest, longest, places }
    }

    const fn end(&self) -> usize {
        self.start + self.stride * self.places as usize
    }

    /// Returns the ring for vectors of this length.
    fn for_length(bytes: usize) -> &'static Self {
        let ring = RINGS.iter().find(|ring| bytes <= ring.longest);
        ring.expect("the caller chose buffers for this length")
    }

    /// Returns the offset of the place of a step.
    const fn place(&self, step: u64) -> usize {
        self.start + (step % self.places) as usize * self.stride
    }
}

/// Gives each member of a group with a slot a buffer and tells it where those of the others are.
/// All members call this together.
pub(super) fn exchange_buffers(
    team: Team<'_>,
    barrier: &GroupBarrier,
) -> Result<BufferState, Error> {
    let steps = Steps::new(team.place, team.count());
    let Some(steps) = steps.filter(|_| !barrier.barrier.uses_flags()) else {
        return Ok(BufferState::Refused);
    };
    let segment = team.world.segment();
    let mut offsets = [NO_BUFFER; FLAGS];
    let offsets = &mut offsets[..team.count() as usize];
    offsets[team.place as usize] = own_buffer(team, barrier.number).unwrap_or(NO_BUFFER);
    team.allgather(None, bytes_mut(offsets), Blocks::Equal(size_of::<u64>()))?;
    if offsets.contains(&NO_BUFFER) {
        return Ok(BufferState::Refused);
    }
    let starts = (0..).zip(&*offsets).map(|(place, offset)| {
        segment.heap_place(team.rank(place), *offset, BUFFER_BYTES).map_err(Error::Corrupt)
    });
    let starts = starts.collect::<Result<_, _>>()?;
    Ok(BufferState::Ready(CollectiveBuffers { steps, starts }))
}

/// Returns the offset in this rank's heap of its buffer for a slot. Allocates it for the first
/// group in the slot. `None`: there is no memory.
fn own_buffer(team: Team<'_>, slot: u32) -> Option<u64> {
    let world = team.world;
    let mut buffers = world.collective_memory.buffers.borrow_mut();
    let known = buffers.iter().find(|(of, _)| *of == slot);
    if let Some((_, offset)) = known {
        return Some(*offset);
    }
    let taken = world.heap.take(BUFFER_BYTES).ok()?;
    let start = world.heap.place(&taken);
    let offset = world.segment().heap_offset(world.rank(), start, BUFFER_BYTES)?;
    buffers.push((slot, offset));
    Some(offset)
}

impl CollectiveBuffers {
    /// Returns the number of steps that all others must have entered before this member can show a
    /// vector of this length in the next step.
    pub(super) fn steps_before(&self, bytes: usize) -> u64 {
        let next = self.steps.entered() + 1;
        // A member that has entered step n + 1 has read the vectors of step n.
        (next + 1).saturating_sub(Ring::for_length(bytes).places)
    }

    /// Enters the next step, and shows a vector in it. The others have entered as many steps as
    /// [`CollectiveBuffers::steps_before`] says.
    pub(super) fn show(&mut self, slot: &BarrierSlot, place: u32, data: &[u8]) {
        let (step, start) = (self.steps.entered() + 1, self.starts[place as usize]);
        let (head, at) = (head_of(step), Ring::for_length(data.len()).place(step));
        // SAFETY: head and place lie in this member's buffer (`exchange_buffers`, `RINGS`). No
        // member reads them now (contract of `show`), and no other writes them.
        unsafe {
            let length = (data.len() as u64).to_ne_bytes();
            copy_opaque(length.as_ptr(), start.add(head).as_ptr(), LENGTH_BYTES);
            fill(data.as_ptr(), start.add(at).as_ptr(), data.len(), Stores::Cached);
        }
        self.steps.enter(slot);
    }

    /// Returns the length of the vector that the member in `place` showed in the step that this
    /// member entered last. The other has entered the step.
    pub(super) fn length(&self, place: u32) -> usize {
        let head = head_of(self.steps.entered());
        let mut length = [0; LENGTH_BYTES];
        // SAFETY: the head lies in the other's buffer. The other writes it again when this member
        // has entered later steps, and a peer that breaks the protocol only changes the value.
        unsafe {
            let source = self.starts[place as usize].add(head);
            copy_opaque(source.as_ptr(), length.as_mut_ptr(), LENGTH_BYTES);
        }
        u64::from_ne_bytes(length) as usize
    }

    /// Copies the vector that the member in `place` showed in the step that this member entered
    /// last. The other has entered the step, and its vector has the length of `into`.
    pub(super) fn read(&self, place: u32, into: &mut [u8]) {
        let at = Ring::for_length(into.len()).place(self.steps.entered());
        // SAFETY: the place lies in the other's buffer, which no vector of a user overlaps. The
        // copy may race only with a peer that breaks the protocol, and `copy_cached` allows that.
        unsafe {
            let source = self.starts[place as usize].add(at);
            copy_cached(source.as_ptr(), into.as_mut_ptr(), into.len());
        }
    }

    /// Copies the vector of a member as [`CollectiveBuffers::read`] does, if it has the length of
    /// `into`.
    pub(super) fn read_checked(
        &self,
        team: &Team<'_>,
        place: u32,
        into: &mut [u8],
    ) -> Result<(), CollectiveError> {
        let (found, expected) = (self.length(place), into.len());
        if found != expected {
            return Err(CollectiveError::Length { rank: team.rank(place), found, expected });
        }
        self.read(place, into);
        Ok(())
    }
}

/// Returns the offset of the head of a step.
const fn head_of(step: u64) -> usize {
    (step % HEADS) as usize * HEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_of_a_step_overlaps_another_or_a_head() {
        let mut taken: Vec<_> =
            (0..HEADS).map(|step| (head_of(step), head_of(step) + LENGTH_BYTES)).collect();
        for ring in &RINGS {
            let places = (0..ring.places).map(|step| ring.place(step));
            taken.extend(places.map(|place| (place, place + ring.longest)));
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert_eq!((taken[0].0, taken[taken.len() - 1].1), (0, BUFFER_BYTES));
    }

    #[test]
    fn the_shortest_ring_with_room_is_chosen() {
        let longest = |bytes| Ring::for_length(bytes).longest;
        assert_eq!([0, 56, 57, 1024].map(longest), [56, 56, 1024, 1024]);
        assert_eq!([1025, 16_384, 16_385, 65_536].map(longest), [16_384, 16_384, 65_536, 65_536]);
    }
}
