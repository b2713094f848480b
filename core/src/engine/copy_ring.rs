//! The copy rings of this rank: the bytes that go into the ring to a peer, and those that come out
//! of the ring from a peer.

use core::ptr::NonNull;

use crate::buffer::Cursor;
use crate::buffer::copy::Stores;
use crate::layout::Segment;
use crate::lmt::{Home, RingPiece};
use crate::shm::{CopyRingReceiver, CopyRingSender, GRANULE, Granules, RingChunk};
use crate::wire::Corrupt;

/// Smallest and largest chunk, in bytes. A long chunk costs less; a short one reaches the receiver
/// sooner.
const CHUNK_LEAST: usize = 8 * 1024;
const CHUNK_MOST: usize = 64 * 1024;

/// Largest chunk of a message that has fewer than 16 of them.
const CHUNK_OF_FEW: usize = 32 * 1024;

/// Number of chunks that are copied in before the receive is posted.
const AHEAD: usize = 4;

/// This rank's end of the copy ring to a peer. The embedder backs the heads before the first large
/// message, and the granules when a message needs them or the pair has earned them.
#[derive(Debug)]
pub(super) enum Outlet {
    /// No memory has been asked for yet.
    Unopened,
    /// The heads have memory, and the granules have none.
    Heads {
        /// Bytes that are still to go by one copy before the granules are asked for. `None` if none
        /// may.
        deferred: Option<usize>,
    },
    Open(Filling),
    /// There is no memory: large messages go through cells.
    Refused,
    /// The peer is on another node.
    Absent,
}

/// The sending end of a copy ring, and the chunks that were copied into it early.
///
/// While a message waits for its receive, its first chunks are copied into the ring but not
/// published. No rank sees them, and no other message waits behind them. They leave at once when
/// the receive is posted. A message that has something to publish before then overwrites them.
#[derive(Debug)]
pub(super) struct Filling {
    end: CopyRingSender,
    granules: NonNull<u8>,
    /// Half of the ring, in bytes: the receiver may empty the other half meanwhile.
    chunk_most: usize,
    ready: Ready,
    /// Set while a message waits for room. Nothing is copied in early then.
    pressed: bool,
}

/// Chunks that lie in the ring and are not published.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    /// The descriptor of their message.
    home: Home,
    /// Offset in the message of the first chunk that is not published yet.
    offset: usize,
    /// Length and granules of each chunk.
    chunks: [(usize, u32); AHEAD],
    /// Index of the first chunk that is not published yet.
    first: usize,
    count: usize,
    /// Granules of the chunks that are not published yet.
    granules: u32,
}

/// A message that goes through the ring: its descriptor, its length, and the kind of stores that
/// copies it best.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingMessage {
    pub(super) home: Home,
    pub(super) total: usize,
    pub(super) stores: Stores,
}

impl RingMessage {
    /// Returns the bytes of a chunk: an eighth to a sixteenth of the message, so that both sides
    /// are busy for most of the time.
    fn chunk(&self) -> usize {
        let of_few = (self.total / 8).clamp(CHUNK_LEAST, CHUNK_OF_FEW);
        (self.total / 16).clamp(of_few, CHUNK_MOST)
    }
}

impl Outlet {
    /// Opens the ring from `rank` to `peer`, which has memory.
    pub(super) fn open(segment: &Segment, rank: u32, peer: u32) -> Self {
        match segment.copy_ring(rank, peer) {
            Some((ring, granules)) => {
                let end = CopyRingSender::new(ring);
                let chunk_most = segment.plan().config().ring_granules as usize * GRANULE / 2;
                let ready = Ready::default();
                Self::Open(Filling { end, granules, chunk_most, ready, pressed: false })
            }
            None => Self::Refused,
        }
    }
}

impl Filling {
    /// Returns whether the receiver's word may have changed ([`CopyRingSender::has_unseen`]).
    pub(super) const fn has_unseen(&self) -> bool {
        self.end.has_unseen()
    }

    /// Loads the receiver's word ([`CopyRingSender::look`]).
    pub(super) fn look(&mut self) -> bool {
        self.end.look()
    }

    /// Returns whether there is room for a chunk of `stream`, or one lies ready.
    pub(super) fn has_room(&mut self, stream: RingMessage) -> Result<bool, Corrupt> {
        if self.ready.home == stream.home && self.ready.first < self.ready.count {
            return Ok(true);
        }
        let chunk = stream.chunk().min(self.chunk_most);
        let has_room = self.end.room(0, chunk.div_ceil(GRANULE) as u32)?.is_some();
        self.pressed |= !has_room;
        Ok(has_room)
    }

    /// Publishes the beginning of `piece` to the receiver. Returns the number of bytes, or `None`
    /// if the ring is full.
    pub(super) fn put(
        &mut self,
        stream: RingMessage,
        piece: &RingPiece,
    ) -> Result<Option<usize>, Corrupt> {
        let ready = self.ready.take(stream.home, piece.offset);
        let (length, count) = match ready {
            Some((length, count)) => (length.min(piece.length), count),
            None => {
                self.ready = Ready::default();
                let length = piece.length.min(stream.chunk());
                match self.copy_in(stream.stores, piece.data, length)? {
                    Some(copied) => copied,
                    None => {
                        self.pressed = true;
                        return Ok(None);
                    }
                }
            }
        };
        self.pressed = false;
        let (handle, generation) = (piece.handle, stream.home.generation);
        let (offset, bytes) = (piece.offset as u64, length as u32);
        let streamed = stream.stores == Stores::NonTemporal;
        let more = length < piece.length;
        let chunk = RingChunk { handle, generation, offset, length: bytes, streamed, more };
        self.end.publish(count, chunk);
        Ok(Some(length))
    }

    /// Copies one more chunk of a message without a posted receive. `data` returns the
    /// message's bytes from an offset on. Returns false if enough chunks lie there.
    pub(super) fn prepare(
        &mut self,
        stream: RingMessage,
        data: impl FnOnce(usize) -> Option<Cursor>,
    ) -> Result<bool, Corrupt> {
        if self.ready.home != stream.home {
            if self.ready.first < self.ready.count {
                return Ok(false);
            }
            self.ready = Ready { home: stream.home, ..Ready::default() };
        }
        let (from, number) = (self.ready.end(), self.ready.count);
        if self.pressed || number == AHEAD {
            return Ok(false);
        }
        let Some(data) = data(from) else { return Ok(false) };
        let length = stream.chunk().min(stream.total - from);
        let Some((length, granules)) = self.copy_in(stream.stores, data, length)? else {
            return Ok(false);
        };
        self.ready.chunks[number] = (length, granules);
        self.ready.count += 1;
        self.ready.granules += granules;
        Ok(true)
    }

    /// Copies up to `length` bytes into the granules behind the ready chunks. Returns the number of
    /// bytes and of granules.
    fn copy_in(
        &mut self,
        stores: Stores,
        mut data: Cursor,
        length: usize,
    ) -> Result<Option<(usize, u32)>, Corrupt> {
        // At most `CHUNK_MOST` bytes, so the count fits.
        let wanted = length.min(self.chunk_most).div_ceil(GRANULE) as u32;
        let Some(room) = self.end.room(self.ready.granules, wanted)? else { return Ok(None) };
        let length = length.min(room.count as usize * GRANULE);
        // SAFETY: the granules belong to the ring, and to this side until they are published. No
        // user buffer overlaps a ring. The message claims the data.
        unsafe { data.gather_by(stores, place(self.granules, room), length) };
        Ok(Some((length, room.count)))
    }
}

impl Ready {
    /// Returns the offset in the message behind the last chunk.
    fn end(&self) -> usize {
        let lengths = self.chunks[self.first..self.count].iter().map(|(length, _)| length);
        self.offset + lengths.sum::<usize>()
    }

    /// Takes the next chunk, if it is the one at `offset` of the message `home`.
    fn take(&mut self, home: Home, offset: usize) -> Option<(usize, u32)> {
        if self.first == self.count || (self.home, self.offset) != (home, offset) {
            return None;
        }
        let (length, granules) = self.chunks[self.first];
        self.offset += length;
        self.first += 1;
        self.granules -= granules;
        Some((length, granules))
    }
}

/// The receiving end of the copy ring from a peer.
#[derive(Debug)]
pub(super) struct Emptying {
    pub(super) end: CopyRingReceiver,
    pub(super) granules: NonNull<u8>,
}

impl Emptying {
    /// Opens the ring from `peer` to `rank`, which the peer has backed. Returns `None` if the
    /// segment has no ring.
    pub(super) fn open(segment: &Segment, peer: u32, rank: u32) -> Option<Self> {
        let (ring, granules) = segment.copy_ring(peer, rank)?;
        Some(Self { end: CopyRingReceiver::new(ring), granules })
    }
}

pub(super) fn place(granules: NonNull<u8>, which: Granules) -> NonNull<u8> {
    // SAFETY: both ends pass only granules of the ring.
    unsafe { granules.add(which.first as usize * GRANULE) }
}
