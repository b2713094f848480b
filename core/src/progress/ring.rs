//! The copy rings of this rank: what goes in towards a peer, and what comes out.

use core::ptr::NonNull;

use super::{Cursor, Engine};
use crate::layout::{Corrupt, Segment};
use crate::lmt::{Home, Piece};
use crate::memory::Memory;
use crate::shm::{CopyRingReceiver, CopyRingSender, GRANULE, Granules, RingChunk, Stores};

/// Least and most bytes of a chunk. A long one costs less; a short one reaches the receiver sooner.
const CHUNK_LEAST: usize = 8 * 1024;
const CHUNK_MOST: usize = 32 * 1024;

/// Least bytes of a message that its receiver stores round its caches when its sender does. A shorter one is there for whoever
/// reads it next.
const STREAMED_LEAST: usize = 128 * 1024;

/// Chunks that are copied in before the receive is there.
const AHEAD: usize = 4;

/// Our end of the copy ring to a peer. Its memory is backed before the first large message, by whoever embeds the engine.
#[derive(Debug)]
pub(super) enum Outlet {
    /// Nobody asked for its memory yet.
    Unopened,
    Open(Filling),
    /// There is none: large messages go through cells.
    Refused,
}

/// The sending end of a copy ring, and what was copied into it too early.
///
/// While a message waits for its receive, its first chunks are copied into the ring and not published: nobody sees them, no
/// other message waits behind them, and when the receive is there they leave at once. Whoever has something to publish
/// before simply writes over them.
#[derive(Debug)]
pub(super) struct Filling {
    end: CopyRingSender,
    granules: NonNull<u8>,
    ready: Ready,
    /// Set while a message waits for room: then nothing is copied in too early.
    pressed: bool,
}

/// Chunks that lie in the ring and are not published.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    /// Of the message.
    home: Home,
    /// Place in the message of the first that is not published yet.
    offset: usize,
    /// Length and granules of each.
    chunks: [(usize, u32); AHEAD],
    /// Number of the first that is not published yet.
    first: usize,
    count: usize,
    /// Granules of those.
    granules: u32,
}

/// A message that goes through the ring: whose bytes, and how they are best copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) home: Home,
    pub(super) total: usize,
    pub(super) stores: Stores,
}

impl Stream {
    /// Bytes of a chunk: an eighth of the message, so that both sides are busy for most of the time.
    fn chunk(&self) -> usize {
        (self.total / 8).clamp(CHUNK_LEAST, CHUNK_MOST)
    }

    /// Whether the receiver, too, is to store it round its caches.
    fn is_streamed(&self) -> bool {
        self.stores == Stores::NonTemporal && self.total >= STREAMED_LEAST
    }
}

impl Outlet {
    /// Opens the ring from `rank` to `peer`, which is backed.
    pub(super) fn open(segment: &Segment, rank: u32, peer: u32) -> Self {
        match segment.copy_ring(rank, peer) {
            Some((ring, granules)) => {
                let end = CopyRingSender::new(ring);
                Self::Open(Filling { end, granules, ready: Ready::default(), pressed: false })
            }
            None => Self::Refused,
        }
    }
}

impl Filling {
    /// Gives the receiver the beginning of `piece`, and returns how much. `None`: the ring is full.
    pub(super) fn put(&mut self, stream: Stream, piece: &Piece) -> Result<Option<usize>, Corrupt> {
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
        let streamed = stream.is_streamed();
        self.end.publish(count, RingChunk { handle, generation, offset, length: bytes, streamed });
        Ok(Some(length))
    }

    /// Copies one more chunk of a message whose receive is not there yet; `data` gives its bytes from some place on. False:
    /// enough lies there.
    pub(super) fn prepare(
        &mut self,
        stream: Stream,
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

    /// Copies up to `length` bytes behind what is ready. Their number, and that of their granules.
    fn copy_in(
        &mut self,
        stores: Stores,
        mut data: Cursor,
        length: usize,
    ) -> Result<Option<(usize, u32)>, Corrupt> {
        // At most `CHUNK_MOST` bytes.
        let wanted = length.div_ceil(GRANULE) as u32;
        let Some(room) = self.end.room(self.ready.granules, wanted)? else { return Ok(None) };
        let length = length.min(room.count as usize * GRANULE);
        // SAFETY: the granules are the ring's and ours until published; a ring lies where no user buffer does; the data
        // are claimed by the message.
        unsafe { data.gather_by(stores, place(self.granules, room), length) };
        Ok(Some((length, room.count)))
    }
}

impl Ready {
    /// Place in the message behind the last chunk.
    fn end(&self) -> usize {
        let lengths = self.chunks[self.first..self.count].iter().map(|(length, _)| length);
        self.offset + lengths.sum::<usize>()
    }

    /// The next chunk, if it is this one.
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
    end: CopyRingReceiver,
    granules: NonNull<u8>,
}

impl Emptying {
    /// The ring from `peer` to `rank`, which the peer has backed, if the segment has one.
    pub(super) fn open(segment: &Segment, peer: u32, rank: u32) -> Option<Self> {
        let (ring, granules) = segment.copy_ring(peer, rank)?;
        Some(Self { end: CopyRingReceiver::new(ring), granules })
    }
}

fn place(granules: NonNull<u8>, which: Granules) -> NonNull<u8> {
    // SAFETY: both ends give granules of the ring.
    unsafe { granules.add(which.first as usize * GRANULE) }
}

impl<M: Memory + Clone> Engine<M> {
    /// True when messages of `length` bytes to `destination` want the memory of a copy ring, and nobody has said yet whether
    /// there is any. Back the range that [`crate::layout::Plan::ring_range`] gives for (this rank, `destination`), and say how
    /// it went with [`Engine::ring_backed`]. Until then such messages go through cells.
    #[inline]
    #[must_use]
    pub fn wants_ring(&self, destination: u32, length: usize) -> bool {
        length > self.tuning.eager_max
            && destination != self.rank
            && self.segment.plan().ring_bytes() > 0
            && self
                .peers
                .get(destination as usize)
                .is_some_and(|peer| matches!(peer.outlet, Outlet::Unopened))
    }

    /// The answer to [`Engine::wants_ring`].
    pub fn ring_backed(&mut self, destination: u32, backed: bool) {
        let Some(peer) = self.peers.get_mut(destination as usize) else { return };
        if matches!(peer.outlet, Outlet::Unopened) {
            peer.outlet = match backed {
                true => Outlet::open(&self.segment, self.rank, destination),
                false => Outlet::Refused,
            };
        }
    }

    /// Takes what is in the copy ring from `source`, at most one ring full.
    pub(super) fn poll_ring(&mut self, source: u32) -> Result<bool, Corrupt> {
        let segment = self.segment;
        let mut moved = false;
        for _ in 0..segment.plan().config().ring_granules {
            let Some(ring) = &mut self.peers[source as usize].inlet else { break };
            let Some((granules, chunk)) = ring.end.peek()? else { break };
            let RingChunk { handle, generation, offset, length, streamed } = chunk;
            let known = self.receivers.get(handle).map(|inbound| &inbound.half);
            let Some(half) = known.filter(|half| half.peer() == source) else {
                return Err(Corrupt::Length { found: u64::from(handle), max: 0 });
            };
            if half.is_asking() {
                // Its RTR-ACK left before, and will be met by the next call.
                break;
            }
            let (to, completed) = half.place(generation, offset, length as usize)?;
            let stores = if streamed { Stores::NonTemporal } else { Stores::Fetching };
            if let Some(mut to) = to {
                // SAFETY: `peek` gave the granules, which hold `length` bytes of the segment, where no user buffer lies.
                unsafe { to.scatter_by(stores, place(ring.granules, granules), length as usize) };
            }
            ring.end.release(granules);
            if completed > 0 {
                half.home().of(&segment).chunks.finish(completed);
            }
            moved = true;
        }
        if moved {
            self.notify(source);
        }
        Ok(moved)
    }
}
