//! The copy ring: shared memory through which large messages stream from one rank to another (`[Nemesis07]` §3.2).
//!
//! The paper's double buffer: the sender copies a chunk in while the receiver copies the one before out. Here the buffers
//! are the *granules* of a ring, and a chunk takes as many as it needs. The ring is longer than two buffers would be for a
//! reason that was measured: to write lines which the other core has just read costs four times as much as to write those
//! that have left its cache since.
//!
//! Each granule has a *head* in an array beside the bytes. The head of a chunk's first granule says what the chunk is and,
//! last of all, where it ends: positions only grow, so a head of an earlier lap says a place that has passed.
//!
//! Sender: one thread. Receiver: one thread. Everything is wait-free. A full ring is no error.
//! Absent on purpose: the bytes themselves. Both ends say which granules to copy, and whoever copies knows where they lie.

use core::ptr::NonNull;

use crate::layout::{Corrupt, golden};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, CacheLine, Step, order, reached};

/// Bytes of a granule: a page.
pub const GRANULE: usize = 4096;

/// What a chunk is: a piece of a large message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RingChunk {
    /// The receiver's name of the transfer.
    pub handle: u32,
    /// Generation of the sender's descriptor, which tells an old transfer from a new one of the same name.
    pub generation: u32,
    /// Place in the message, bytes.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u32,
    /// Whether the receiver had better store it round its caches, as the sender has.
    pub streamed: bool,
}

/// The head of a granule, on a line of its own.
///
/// | offset | size | field        |                                                             |
/// |-------:|-----:|--------------|-------------------------------------------------------------|
/// |      0 |    8 | `end`        | position behind the chunk that begins here; written last    |
/// |      8 |    8 | `offset`     | [`RingChunk`]                                               |
/// |     16 |    4 | `handle`     | [`RingChunk`]                                               |
/// |     20 |    4 | `generation` | [`RingChunk`]                                               |
/// |     24 |    4 | `length`     | [`RingChunk`]                                               |
/// |     28 |    4 | `streamed`   | [`RingChunk`]; 0: no                                        |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct GranuleHead {
    end: AtomicU64,
    offset: AtomicU64,
    handle: AtomicU32,
    generation: AtomicU32,
    length: AtomicU32,
    streamed: AtomicU32,
}

golden::structure!(GranuleHead { end, offset, handle, generation, length, streamed });

static_assertions::const_assert!(cfg!(strait_loom) || size_of::<GranuleHead>() == 64);

impl GranuleHead {
    /// A head of no chunk, for models and tests: in a segment, zeroed memory is already one.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            end: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            handle: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            length: AtomicU32::new(0),
            streamed: AtomicU32::new(0),
        }
    }
}

/// Consecutive granules of a ring, which do not go round its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Granules {
    /// Number of the first.
    pub first: u32,
    /// How many, at least 1.
    pub count: u32,
}

/// Where a copy ring lies.
#[derive(Clone, Copy, Debug)]
pub struct CopyRingPtr {
    /// Position behind the last granule that the receiver has emptied.
    emptied: NonNull<CacheLine<AtomicU64>>,
    heads: NonNull<GranuleHead>,
    count: u32,
}

impl CopyRingPtr {
    /// The ring of `count` granules with the receiver's word `emptied` and these `heads`.
    ///
    /// # Safety
    ///
    /// Both stay valid as long as an end made from this value is used, `count` is at least 1, and the ring has one sender and
    /// one receiver.
    #[must_use]
    pub const unsafe fn new(
        emptied: NonNull<CacheLine<AtomicU64>>,
        heads: NonNull<GranuleHead>,
        count: u32,
    ) -> Self {
        Self { emptied, heads, count }
    }

    /// Number of the granule at `position`.
    const fn number(&self, position: u64) -> u32 {
        (position % self.count as u64) as u32
    }

    fn head(&self, number: u32) -> &GranuleHead {
        debug_assert!(number < self.count);
        // SAFETY: valid by the contract of `new`; numbers are remainders by `count`.
        unsafe { self.heads.add(number as usize).as_ref() }
    }
}

/// The sending end: private state of the source.
#[derive(Debug)]
pub struct CopyRingSender {
    /// Position behind the last granule that was published.
    filled: u64,
    /// The receiver's word as it was read last.
    emptied: u64,
    ring: CopyRingPtr,
}

// SAFETY: the end is used by one thread at a time (`&mut self`), and the memory it points to is made for concurrent
// processes.
unsafe impl Send for CopyRingSender {}

impl CopyRingSender {
    /// The sending end of a ring that nobody has sent through yet.
    #[must_use]
    pub const fn new(ring: CopyRingPtr) -> Self {
        Self { filled: 0, emptied: 0, ring }
    }

    /// Room for `wanted` granules, or for as many as there are before the end of the ring, behind the `ahead` granules that
    /// were given before and are not published yet. `None`: the ring is full.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Credit`] when the receiver's word makes no sense.
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

    /// Gives the receiver the next `count` granules, which hold `chunk`.
    pub fn publish(&mut self, count: u32, chunk: RingChunk) {
        let head = self.ring.head(self.ring.number(self.filled));
        head.offset.store(chunk.offset, Relaxed);
        head.handle.store(chunk.handle, Relaxed);
        head.generation.store(chunk.generation, Relaxed);
        head.length.store(chunk.length, Relaxed);
        head.streamed.store(u32::from(chunk.streamed), Relaxed);
        self.filled += u64::from(count);
        // ORDER copy_ring/1: Release, pairs with copy_ring/2: the bytes and what the head says of them come before its end.
        head.end.store(self.filled, order("copy_ring/1", Release));
        reached(Step::RingFilled);
    }

    fn refill(&mut self) -> Result<(), Corrupt> {
        // SAFETY: valid by the contract of `CopyRingPtr::new`.
        let word = unsafe { self.ring.emptied.as_ref() };
        // ORDER copy_ring/4: Acquire, pairs with copy_ring/3: the receiver's reads of a granule come before our rewriting it.
        let found = word.load(order("copy_ring/4", Acquire));
        if found > self.filled || found < self.emptied {
            return Err(Corrupt::Credit { found, sent: self.filled });
        }
        self.emptied = found;
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

// SAFETY: as for `CopyRingSender`.
unsafe impl Send for CopyRingReceiver {}

impl CopyRingReceiver {
    /// The receiving end of a ring that nobody has received from yet.
    #[must_use]
    pub const fn new(ring: CopyRingPtr) -> Self {
        Self { emptied: 0, ring }
    }

    /// The next chunk and where it lies, if it is there. The caller checks what the chunk says, but for its length, which fits.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] when the chunk is longer than its granules, and those more than a ring may hold together.
    #[inline]
    pub fn peek(&self) -> Result<Option<(Granules, RingChunk)>, Corrupt> {
        let first = self.ring.number(self.emptied);
        let head = self.ring.head(first);
        // ORDER copy_ring/2: Acquire, pairs with copy_ring/1: the rest of the head and the bytes may be read.
        let end = head.end.load(order("copy_ring/2", Acquire));
        if end <= self.emptied {
            return Ok(None);
        }
        let (count, most) = (end - self.emptied, self.ring.count - first);
        if count > u64::from(most) {
            return Err(Corrupt::Length { found: count, max: u64::from(most) });
        }
        let chunk = RingChunk {
            handle: head.handle.load(Relaxed),
            generation: head.generation.load(Relaxed),
            offset: head.offset.load(Relaxed),
            length: head.length.load(Relaxed),
            streamed: head.streamed.load(Relaxed) != 0,
        };
        let max = count * GRANULE as u64;
        if chunk.length == 0 || u64::from(chunk.length) > max {
            return Err(Corrupt::Length { found: u64::from(chunk.length), max });
        }
        // At most `most`.
        Ok(Some((Granules { first, count: count as u32 }, chunk)))
    }

    /// Gives the chunk's granules back, which [`CopyRingReceiver::peek`] gave.
    pub fn release(&mut self, granules: Granules) {
        self.emptied += u64::from(granules.count);
        // SAFETY: valid by the contract of `CopyRingPtr::new`.
        let word = unsafe { self.ring.emptied.as_ref() };
        // ORDER copy_ring/3: Release, pairs with copy_ring/4: our reads of the granules come before the word that frees them.
        reached(Step::RingRead);
        word.store(self.emptied, order("copy_ring/3", Release));
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    const CHUNK: RingChunk =
        RingChunk { handle: 3, generation: 5, offset: 7, length: 11, streamed: true };

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
    fn numbers_that_cannot_be_are_refused() {
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
