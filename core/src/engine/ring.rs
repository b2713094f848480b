//! The copy rings of this rank in its progress.

use super::Engine;
use super::copy_ring::{Outlet, place};
use super::fill_stores::STREAMED_FILL_LEAST;
use crate::buffer::Cursor;
use crate::buffer::copy::fills_alike;
use crate::layout::RingPart;
use crate::lmt::{Transfer, WireAddress};
use crate::memory::Memory;
use crate::shm::RingChunk;
use crate::wire::Corrupt;

impl<M: Memory + Clone> Engine<M> {
    /// Returns the part of the copy ring to `destination` for which `data`, about to be sent, wants
    /// memory.
    ///
    /// If there is one, back the range that [`crate::layout::SegmentPlan::ring_part`] returns for
    /// (this rank, `destination`), report the result with [`Engine::ring_backed`], and ask again.
    /// Until both parts have memory such messages go through cells. But if this rank can write to
    /// the memory of `destination` ([`CopyJob`](crate::lmt::CopyJob)), call
    /// [`Engine::defer_granules`] when the heads have memory: the first messages then go by one
    /// copy.
    #[inline]
    #[must_use]
    pub fn wants_ring(&self, destination: u32, data: &Cursor) -> Option<RingPart> {
        if data.remaining() <= self.tuning.eager_max
            || destination == self.rank
            || self.segment.plan().ring_bytes() == 0
        {
            return None;
        }
        let peer = self.peers.get(destination as usize)?;
        peer.large.wants_ring(|| self.is_one_copy(data))
    }

    /// Takes the answer to [`Engine::wants_ring`] or to [`Engine::poll_ring_want`]. Returns false
    /// without memory for the state about the peer: the next message asks again.
    pub fn ring_backed(&mut self, destination: u32, part: RingPart, backed: bool) -> bool {
        if self.contact(destination).is_err() {
            return false;
        }
        let open = || Outlet::open(&self.segment, self.rank, destination);
        self.peers[destination as usize].large.ring_backed(part, backed, open);
        true
    }

    /// Lets the first large messages to `destination` go by one copy, before the granules of the
    /// ring have memory. Short programs then never pay for them. A message that one copy cannot
    /// finish asks for them by [`Engine::poll_ring_want`].
    pub fn defer_granules(&mut self, destination: u32) {
        if let Some(peer) = self.peers.known_mut(destination as usize) {
            peer.large.defer_granules();
        }
    }

    /// Returns a peer to which a message under way cannot go on without the granules of its copy
    /// ring. Back them and report the result with [`Engine::ring_backed`]. If there is no memory
    /// the message waits, and asks again in the next progress call.
    #[inline]
    pub const fn poll_ring_want(&mut self) -> Option<u32> {
        self.transfers.take_ring_want()
    }

    /// Returns whether `data` can go without the ring: one copy of the kernel reaches them, and no
    /// setting asks for another transfer.
    pub(super) fn is_one_copy(&self, data: &Cursor) -> bool {
        self.tuning.transfer == Transfer::Auto
            && matches!(WireAddress::of(data, &self.segment, self.rank), WireAddress::Private(_))
    }

    /// Times a line from the core of `destination` now and then, if a message of `length` bytes is
    /// about to be announced. `clock` calls its argument once and returns the nanoseconds that this
    /// took, and its result.
    #[inline]
    pub fn time_line(
        &mut self,
        destination: u32,
        length: usize,
        clock: impl FnOnce(&mut dyn FnMut() -> bool) -> (u64, bool),
    ) {
        if length <= self.tuning.eager_max || self.tuning.transfer != Transfer::Auto {
            return;
        }
        let Some(peer) = self.peers.known_mut(destination as usize) else { return };
        let Some(ring) = peer.large.line_to_time() else { return };
        let (nanoseconds, came) = clock(&mut || ring.look());
        if came {
            let nanoseconds = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
            let kernel_first = self.tuning.kernel_copies_first;
            peer.large.line_timed(self.buffers.memory(), nanoseconds, kernel_first);
        }
    }

    /// Returns whether to measure the time that [`Engine::isend`] takes for a message of `length`
    /// bytes to `destination`, which is about to be sent. If so, report it with
    /// [`Engine::fill_timed`]. A rank that never does so sends as fast as it can between cores that
    /// share a cache.
    #[inline]
    pub fn is_fill_due(&mut self, destination: u32, length: usize) -> bool {
        let may_matter = length >= STREAMED_FILL_LEAST
            && self.tuning.transfer == Transfer::Auto
            && !fills_alike(length)
            && self.peers.known(destination as usize).is_some();
        if !may_matter {
            return false;
        }
        let fills_what_comes_back = if self.goes_in_parcels(destination, length) {
            self.peers[destination as usize].parcels.lends()
        } else {
            length <= self.tuning.eager_max
        };
        fills_what_comes_back && self.peers[destination as usize].fill_stores.is_due()
    }

    /// Takes the nanoseconds of a send that [`Engine::is_fill_due`] asked for.
    pub fn fill_timed(&mut self, destination: u32, nanoseconds: u64) {
        if let Some(peer) = self.peers.known_mut(destination as usize) {
            peer.fill_stores.timed(nanoseconds);
        }
    }

    /// Takes the chunks in the copy ring from `source`, at most one ring full, and returns whether
    /// there were any.
    pub(super) fn poll_ring(&mut self, source: u32) -> Result<bool, Corrupt> {
        let segment = self.segment;
        let mut moved = false;
        for _ in 0..segment.plan().config().ring_granules {
            let Some(ring) = self.peers[source as usize].large.ring_in() else { break };
            let Some((granules, chunk)) = ring.end.peek()? else { break };
            let RingChunk { handle, generation, offset, length, streamed, more } = chunk;
            let known = self.transfers.receiver_mut(handle);
            let Some(inbound) = known.filter(|inbound| inbound.half.peer() == source) else {
                return Err(Corrupt::Length { found: u64::from(handle), max: 0 });
            };
            let half = &mut inbound.half;
            if half.is_asking() {
                // Its RTR-ACK left the sender before the chunk did, and the next call meets it.
                break;
            }
            let (to, completed) = half.place(generation, offset, length as usize)?;
            if let Some((mut to, start)) = to.and_then(|to| Some((to, to.first()?.base))) {
                let total = inbound.total;
                let recent = &mut self.recent_buffers;
                let stores =
                    *inbound.stores.get_or_insert_with(|| recent.stores(start, total, streamed));
                // SAFETY: `peek` returned the granules, which hold `length` bytes of the segment.
                // No user buffer overlaps the segment.
                unsafe { to.scatter_by(stores, place(ring.granules, granules), length as usize) };
            }
            ring.end.release(granules);
            let done = half.count_arrived(completed, more);
            if done > 0 {
                half.home().of(&segment).chunks.finish(done);
            }
            moved = true;
        }
        if moved {
            self.notify(source);
        }
        Ok(moved)
    }
}
