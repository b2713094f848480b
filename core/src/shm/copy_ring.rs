//! The copy ring: shared memory through which large messages stream from one rank to another
//! (`[Nemesis07]` §3.2).
//!
//! In the paper's double buffer, the sender copies a chunk in while the receiver copies the
//! previous one out. Here the buffers are the *granules* of a ring, and a chunk takes as many as it
//! needs. The ring is longer than two buffers because of a measurement. Writing lines that the
//! other core has just read costs four times as much as writing lines that have left its cache
//! since.
//!
//! Each granule has a *head* in an array beside the bytes. The head of a chunk's first granule
//! describes the chunk. Its last store is the position where the chunk ends. Positions only grow,
//! so the head of an earlier lap names a position that has passed.
//!
//! Sender: one thread. Receiver: one thread. Every operation is wait-free. A full ring is not an
//! error.
//! Absent on purpose: the bytes themselves. Both ends say which granules to copy, and the caller
//! knows their addresses.

use core::ptr::NonNull;

use crate::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, CacheLine, Step, finish_look, order, reached};
use crate::wire::Corrupt;

/// Size of a granule in bytes: a page.
pub const GRANULE: usize = 4096;

/// The description of a chunk: a piece of a large message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RingChunk {
    /// The receiver's name for the transfer.
    pub handle: u32,
    /// Generation of the sender's descriptor. It distinguishes an old transfer from a new one of
    /// the same name.
    pub generation: u32,
    /// Offset in the message, in bytes.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub length: u32,
    /// True if the sender stored the chunk round its caches.
    pub streamed: bool,
    /// True if the next chunk of the same message follows in the grains that the sender claimed
    /// with this one. The receiver reports them as done with the last of these chunks.
    pub more: bool,
}

impl RingChunk {
    const STREAMED: u32 = 1;
    const MORE: u32 = 2;

    const fn flags(self) -> u32 {
        (if self.streamed { Self::STREAMED } else { 0 }) | (if self.more { Self::MORE } else { 0 })
    }
}

/// The head of a granule, on its own cache line.
///
/// | offset | size | field        |                                                             |
/// |-------:|-----:|--------------|-------------------------------------------------------------|
/// |      0 |    8 | `end`        | position behind the chunk that begins here; written last    |
/// |      8 |    8 | `offset`     | [`RingChunk`]                                               |
/// |     16 |    4 | `handle`     | [`RingChunk`]                                               |
/// |     20 |    4 | `generation` | [`RingChunk`]                                               |
/// |     24 |    4 | `length`     | [`RingChunk`]                                               |
/// |     28 |    4 | `flags`      | [`RingChunk`]; bit 0: `streamed`; bit 1: `more`             |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct GranuleHead {
    end: AtomicU64,
    offset: AtomicU64,
    handle: AtomicU32,
    generation: AtomicU32,
    length: AtomicU32,
    flags: AtomicU32,
}

golden::structure!(GranuleHead { end, offset, handle, generation, length, flags });

static_assertions::const_assert!(cfg!(strait_loom) || size_of::<GranuleHead>() == 64);

impl GranuleHead {
    /// Creates a head without a chunk, for models and tests. In a segment, zeroed memory has this
    /// state.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            end: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            handle: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            length: AtomicU32::new(0),
            flags: AtomicU32::new(0),
        }
    }
}

/// Consecutive granules of a ring that do not wrap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Granules {
    /// Number of the first granule.
    pub first: u32,
    /// Number of granules, at least 1.
    pub count: u32,
}

/// The address of a copy ring.
#[derive(Clone, Copy, Debug)]
pub struct CopyRingPtr {
    /// Position behind the last granule that the receiver has emptied.
    emptied: NonNull<CacheLine<AtomicU64>>,
    heads: NonNull<GranuleHead>,
    count: u32,
}

impl CopyRingPtr {
    /// Describes the ring of `count` granules with the receiver's word `emptied` and these `heads`.
    ///
    /// # Safety
    ///
    /// Both stay valid while an end made from this value is in use. `count` is at least 1. The ring
    /// has one sender and one receiver.
    #[must_use]
    pub const unsafe fn new(
        emptied: NonNull<CacheLine<AtomicU64>>,
        heads: NonNull<GranuleHead>,
        count: u32,
    ) -> Self {
        Self { emptied, heads, count }
    }

    /// Returns the number of the granule at `position`.
    const fn number(&self, position: u64) -> u32 {
        (position % self.count as u64) as u32
    }

    fn head(&self, number: u32) -> &GranuleHead {
        debug_assert!(number < self.count);
        // SAFETY: the heads are valid (contract of `new`), and callers pass a remainder by `count`.
        unsafe { self.heads.add(number as usize).as_ref() }
    }
}

/// The sending end: private state of the source.
///
/// ```
/// use core::ptr::NonNull;
/// use strait_core::shm::{CopyRingPtr, CopyRingReceiver, CopyRingSender, GranuleHead, RingChunk};
/// use strait_core::sync::{AtomicU64, CacheLine};
///
/// let (emptied, heads) = (CacheLine(AtomicU64::new(0)), [(); 4].map(|()| GranuleHead::empty()));
/// // SAFETY: both outlive the two ends, and no other end uses them.
/// let ring = unsafe { CopyRingPtr::new((&emptied).into(), NonNull::from(&heads).cast(), 4) };
/// let (mut sender, mut receiver) = (CopyRingSender::new(ring), CopyRingReceiver::new(ring));
///
/// let room = sender.room(0, 2)?.expect("the ring is empty");
/// // Here the sender copies 5000 bytes into the two granules.
/// let (streamed, more) = (false, false);
/// let chunk = RingChunk { handle: 1, generation: 1, offset: 0, length: 5000, streamed, more };
/// sender.publish(room.count, chunk);
///
/// let (granules, found) = receiver.peek()?.expect("a chunk has arrived");
/// assert_eq!((granules, found), (room, chunk));
/// // Here the receiver copies the bytes out.
/// assert!(sender.has_unseen() && !sender.look());
/// receiver.release(granules);
/// assert_eq!(receiver.peek()?, None);
/// assert!(sender.look() && !sender.has_unseen());
/// # Ok::<(), strait_core::wire::Corrupt>(())
/// ```
#[derive(Debug)]
pub struct CopyRingSender {
    /// Position behind the last granule that was published.
    filled: u64,
    /// Value of the receiver's word when it was read last.
    emptied: u64,
    /// Value of the receiver's word when it was loaded last, for whatever reason.
    seen: u64,
    ring: CopyRingPtr,
}

// SAFETY: one thread at a time uses the end (`&mut self`), and the memory that it points to is
// designed for access by concurrent processes.
unsafe impl Send for CopyRingSender {}

impl CopyRingSender {
    /// Creates the sending end of an unused ring.
    #[must_use]
    pub const fn new(ring: CopyRingPtr) -> Self {
        Self { filled: 0, emptied: 0, seen: 0, ring }
    }

    /// Returns room for `wanted` granules, or for as many as fit before the end of the ring.
    ///
    /// The room lies behind the `ahead` granules that earlier calls returned and that are not
    /// published yet. Returns `None` if the ring is full.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] if the receiver's word is impossible.
    pub fn room(&mut self, ahead: u32, wanted: u32) -> Result<Option<Granules>, Corrupt> {
        let from = self.filled + u64::from(ahead);
        let first = self.ring.number(from);
        let count = wanted.min(self.ring.count - first);
        if from + u64::from(count) > self.emptied + u64::from(self.ring.count) {
            self.refill()?;
            if from + u64::from(count) > self.emptied + u64::from(self.ring.count) {
                return Ok(None);
            }
        }
        Ok(Some(Granules { first, count }))
    }

    /// Returns whether the receiver's word, when it was loaded last, did not report all granules
    /// that were published. If it did, the receiver has nothing to write.
    #[must_use]
    pub const fn has_unseen(&self) -> bool {
        self.seen != self.filled
    }

    /// Loads the receiver's word. Returns true if the receiver has written it since this end loaded
    /// it last: then the time of this call is that of a line from the receiver's core to this one.
    #[must_use]
    pub fn look(&mut self) -> bool {
        // SAFETY: the word is valid (contract of `CopyRingPtr::new`).
        let word = unsafe { self.ring.emptied.as_ref() };
        // The processor may load the word while it still reads the clock.
        finish_look();
        let found = word.load(Relaxed);
        let came = found != self.seen;
        self.seen = found;
        came
    }

    /// Gives the receiver the next `count` granules, which hold `chunk`.
    pub fn publish(&mut self, count: u32, chunk: RingChunk) {
        let head = self.ring.head(self.ring.number(self.filled));
        head.offset.store(chunk.offset, Relaxed);
        head.handle.store(chunk.handle, Relaxed);
        head.generation.store(chunk.generation, Relaxed);
        head.length.store(chunk.length, Relaxed);
        head.flags.store(chunk.flags(), Relaxed);
        self.filled += u64::from(count);
        // ORDER copy_ring/1: Release, pairs with copy_ring/2: the bytes and the rest of the head
        //   come before `end`.
        head.end.store(self.filled, order("copy_ring/1", Release));
        reached(Step::RingFilled);
    }

    fn refill(&mut self) -> Result<(), Corrupt> {
        // SAFETY: the word is valid (contract of `CopyRingPtr::new`).
        let word = unsafe { self.ring.emptied.as_ref() };
        // ORDER copy_ring/4: Acquire, pairs with copy_ring/3: the receiver's reads of a granule
        //   come before our rewrite of it.
        let found = word.load(order("copy_ring/4", Acquire));
        if found > self.filled || found < self.emptied {
            return Err(Corrupt::Credit { found, sent: self.filled });
        }
        self.emptied = found;
        self.seen = found;
        Ok(())
    }
}

/// The receiving end: private state of the destination.
#[derive(Debug)]
pub struct CopyRingReceiver {
    /// Position behind the last granule that was emptied.
    emptied: u64,
    ring: CopyRingPtr,
}

// SAFETY: one thread at a time uses the end (`&mut self`), and the memory that it points to is
// designed for access by concurrent processes.
unsafe impl Send for CopyRingReceiver {}

impl CopyRingReceiver {
    /// Creates the receiving end of an unused ring.
    #[must_use]
    pub const fn new(ring: CopyRingPtr) -> Self {
        Self { emptied: 0, ring }
    }

    /// Returns the next chunk and its granules, if the chunk has arrived.
    ///
    /// The length is known to fit the granules. The caller checks the other fields of the chunk.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] if the chunk is empty or longer than its granules, or if the granules
    /// would pass the end of the ring.
    #[inline]
    pub fn peek(&self) -> Result<Option<(Granules, RingChunk)>, Corrupt> {
        let first = self.ring.number(self.emptied);
        let head = self.ring.head(first);
        // ORDER copy_ring/2: Acquire, pairs with copy_ring/1: the rest of the head and the bytes
        //   may be read.
        let end = head.end.load(order("copy_ring/2", Acquire));
        if end <= self.emptied {
            return Ok(None);
        }
        let (count, most) = (end - self.emptied, self.ring.count - first);
        if count > u64::from(most) {
            return Err(Corrupt::Length { found: count, max: u64::from(most) });
        }
        let flags = head.flags.load(Relaxed);
        let chunk = RingChunk {
            handle: head.handle.load(Relaxed),
            generation: head.generation.load(Relaxed),
            offset: head.offset.load(Relaxed),
            length: head.length.load(Relaxed),
            streamed: flags & RingChunk::STREAMED != 0,
            more: flags & RingChunk::MORE != 0,
        };
        let max = count * GRANULE as u64;
        if chunk.length == 0 || u64::from(chunk.length) > max {
            return Err(Corrupt::Length { found: u64::from(chunk.length), max });
        }
        // The cast is exact: `count` is at most `most`.
        Ok(Some((Granules { first, count: count as u32 }, chunk)))
    }

    /// Returns the granules of the chunk that [`CopyRingReceiver::peek`] found.
    pub fn release(&mut self, granules: Granules) {
        self.emptied += u64::from(granules.count);
        // SAFETY: the word is valid (contract of `CopyRingPtr::new`).
        let word = unsafe { self.ring.emptied.as_ref() };
        // ORDER copy_ring/3: Release, pairs with copy_ring/4: our reads of the granules come before
        //   the word that frees them.
        reached(Step::RingRead);
        word.store(self.emptied, order("copy_ring/3", Release));
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    const CHUNK: RingChunk =
        RingChunk { handle: 3, generation: 5, offset: 7, length: 11, streamed: true, more: false };

    struct Ring {
        emptied: CacheLine<AtomicU64>,
        heads: [GranuleHead; 4],
    }

    impl Ring {
        fn new() -> Self {
            let heads = core::array::from_fn(|_| GranuleHead::empty());
            Self { emptied: CacheLine(AtomicU64::new(0)), heads }
        }

        fn ends(&self) -> (CopyRingSender, CopyRingReceiver) {
            // SAFETY: each test keeps the ring for as long as its two ends.
            let ring = unsafe {
                CopyRingPtr::new((&self.emptied).into(), NonNull::from(&self.heads).cast(), 4)
            };
            (CopyRingSender::new(ring), CopyRingReceiver::new(ring))
        }
    }

    #[test]
    fn chunks_end_where_the_ring_does_and_wait_for_room() {
        let ring = Ring::new();
        let (mut sender, mut receiver) = ring.ends();
        assert_eq!(receiver.peek(), Ok(None));
        assert_eq!(sender.room(0, 3), Ok(Some(Granules { first: 0, count: 3 })));
        assert_eq!(sender.room(3, 3), Ok(Some(Granules { first: 3, count: 1 })));
        assert_eq!(sender.room(4, 1), Ok(None));
        sender.publish(3, CHUNK);
        let (granules, chunk) = receiver.peek().unwrap().unwrap();
        assert_eq!((granules, chunk), (Granules { first: 0, count: 3 }, CHUNK));
        receiver.release(granules);
        assert_eq!(receiver.peek(), Ok(None));
        sender.publish(1, CHUNK);
        assert_eq!(sender.room(0, 4), Ok(None), "the last granule is still the receiver's");
        assert_eq!(sender.room(0, 3), Ok(Some(Granules { first: 0, count: 3 })));
    }

    #[test]
    fn a_look_tells_once_that_the_receiver_has_written() {
        let ring = Ring::new();
        let (mut sender, mut receiver) = ring.ends();
        let room = sender.room(0, 1).unwrap().unwrap();
        sender.publish(room.count, CHUNK);
        assert!(!sender.look());
        receiver.release(room);
        assert!(sender.look() && !sender.look());
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let ring = Ring::new();
        let (mut sender, receiver) = ring.ends();
        sender.room(0, 1).unwrap();
        sender.publish(1, RingChunk { length: GRANULE as u32 + 1, ..CHUNK });
        assert!(matches!(receiver.peek(), Err(Corrupt::Length { .. })));
        ring.heads[0].end.store(5, Relaxed);
        assert_eq!(receiver.peek(), Err(Corrupt::Length { found: 5, max: 4 }));
        ring.emptied.store(2, Relaxed);
        assert_eq!(sender.room(0, 4), Ok(Some(Granules { first: 1, count: 3 })));
        assert_eq!(sender.room(3, 4), Err(Corrupt::Credit { found: 2, sent: 1 }));
    }
}
