//! The engines of a job on one thread, over a segment into which a test may write anything.

use core::ptr::NonNull;

use strait_core::buffer::{Cursor, Direction, Part};
use strait_core::engine::{
    Engine, MessageId, Owner, Received, RequestId, Sent, StartError, Tuning,
};
use strait_core::layout::{RankBlock, RingPart, SegmentConfig};
use strait_core::lmt::{Refused, RemoteBuffer};
use strait_core::matching::Pattern;
use strait_core::shm::{CellArena as _, ParcelSet};
use strait_core::wire::Key;

use crate::{Arena, Ledger};

/// Bytes before and behind each buffer that must not change.
const GUARD: usize = 64;

/// A buffer between guards.
#[derive(Debug)]
struct Guarded(Vec<u8>);

impl Guarded {
    fn new(length: usize) -> Self {
        Self(vec![0xa5; GUARD + length + GUARD])
    }

    fn cursor(&mut self) -> Cursor {
        let length = self.0.len() - 2 * GUARD;
        let base: NonNull<u8> = NonNull::from(&mut self.0[GUARD..]).cast();
        // A peer on this thread reaches the buffer by its address.
        let _ = base.as_ptr().expose_provenance();
        // SAFETY: the vector is not moved, accessed or dropped before its engine has been dropped
        // (see `Engines`).
        unsafe { Cursor::contiguous(Part { base, length }) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let end = self.0.len() - GUARD;
        let untouched = self.0[..GUARD].iter().chain(&self.0[end..]).all(|byte| *byte == 0xa5);
        assert!(untouched || std::thread::panicking(), "a write beyond a buffer");
    }
}

/// Engines on one thread. Their effects on the segment and the buffers are checked from outside: a
/// byte written beyond a buffer causes a panic when the job is dropped.
#[derive(Debug)]
pub struct Engines {
    /// One engine for each rank. Dropped first.
    pub engines: Vec<Engine<Ledger>>,
    buffers: Vec<Guarded>,
    /// The start of the next buffer in a heap.
    heap_used: usize,
    /// Whether the first large messages go by one copy, before the rings have memory.
    defers_rings: bool,
    /// Their segment.
    pub arena: Arena,
}

impl Engines {
    /// Creates the engines of a job of this shape. Large messages go through copy rings.
    #[must_use]
    pub fn new(config: SegmentConfig) -> Self {
        Self::tuned(config, Arena::tuning())
    }

    /// Creates engines with other settings.
    #[must_use]
    pub fn tuned(config: SegmentConfig, tuning: Tuning) -> Self {
        Self::with_parts(config, tuning, &RingPart::ALL)
    }

    /// Creates engines that send the first large messages by one copy, before the rings have
    /// memory.
    #[must_use]
    pub fn deferring(config: SegmentConfig, tuning: Tuning) -> Self {
        Self { defers_rings: true, ..Self::with_parts(config, tuning, &[]) }
    }

    /// Creates engines with memory for these parts of their rings.
    fn with_parts(config: SegmentConfig, tuning: Tuning, parts: &[RingPart]) -> Self {
        let (arena, ledger) = (Arena::new(config), Ledger::default());
        let engine = |rank| {
            let mut engine = arena.engine_with(rank, &ledger, tuning);
            for peer in 0..config.ranks {
                for set in ParcelSet::ALL {
                    engine.parcels_backed(peer, set, true);
                }
                for part in parts {
                    engine.ring_backed(peer, *part, true);
                }
            }
            engine
        };
        let engines = (0..config.ranks).map(engine).collect();
        Self { engines, buffers: Vec::new(), heap_used: 0, defers_rings: false, arena }
    }

    /// Returns a buffer that lives as long as the job.
    ///
    /// # Panics
    ///
    /// Never: the buffer that was just made is there.
    pub fn buffer(&mut self, length: usize) -> Cursor {
        self.buffers.push(Guarded::new(length));
        self.buffers.last_mut().expect("just pushed").cursor()
    }

    /// Returns a buffer in the heap of `rank`. Later buffers may overlap earlier ones.
    pub fn heap_buffer(&mut self, rank: u32, length: usize) -> Cursor {
        let (heap, bytes) = self.arena.segment().heap(rank);
        let length = length.min(bytes);
        let from = if self.heap_used + length <= bytes { self.heap_used } else { 0 };
        self.heap_used = from + length;
        // SAFETY: the buffer lies within the heap, which lives as long as the arena.
        unsafe { Cursor::contiguous(Part { base: heap.add(from), length }) }
    }

    /// Begins a send. An error is an accepted result here.
    pub fn send(&mut self, from: usize, to: u32, tag: u32, length: usize) -> Option<RequestId> {
        let data = self.buffer(length);
        self.send_from(from, to, tag, data)
    }

    /// Begins a send from a buffer of this job.
    pub fn send_from(&mut self, from: usize, to: u32, tag: u32, data: Cursor) -> Option<RequestId> {
        while let Some(part) = self.engines[from].wants_ring(to, &data) {
            self.engines[from].ring_backed(to, part, true);
            if self.defers_rings && part == RingPart::Heads {
                self.engines[from].defer_granules(to);
            }
        }
        // SAFETY: the buffer outlives the engine.
        let sent = unsafe { self.engines[from].isend(to, Key::new(0, tag), data, Owner(1)) };
        while let Some(peer) = self.engines[from].poll_want() {
            self.engines[from].fastbox_backed(peer, true);
        }
        match sent {
            Ok(Sent::Pending(id)) => Some(id),
            Ok(Sent::Done) | Err(_) => None,
        }
    }

    /// Begins a receive. An error is an accepted result here.
    pub fn receive(
        &mut self,
        at: usize,
        source: u32,
        tag: u32,
        length: usize,
    ) -> Option<RequestId> {
        let buffer = self.buffer(length);
        self.receive_to(at, source, tag, buffer)
    }

    /// Begins a receive into a buffer of this job.
    pub fn receive_to(
        &mut self,
        at: usize,
        source: u32,
        tag: u32,
        buffer: Cursor,
    ) -> Option<RequestId> {
        let pattern = Pattern { context: 0, source, tag };
        // SAFETY: the buffer outlives the engine.
        pending(unsafe { self.engines[at].irecv(pattern, buffer, Owner(1)) })
    }

    /// Begins to receive a message that a probe has matched.
    pub fn receive_matched(
        &mut self,
        at: usize,
        message: MessageId,
        buffer: Cursor,
    ) -> Option<RequestId> {
        // SAFETY: the buffer outlives the engine.
        pending(unsafe { self.engines[at].imrecv(message, buffer, Owner(1)) })
    }

    /// Does a job of `rank`, if there is one. In a heap it copies. Otherwise it accesses only the
    /// rank's own memory, because the peer's address may be anything. Returns false if there was
    /// none.
    pub fn transfer(&mut self, rank: usize, result: Result<(), Refused>) -> bool {
        let Ok(Some(job)) = self.engines[rank].poll_transfer() else { return false };
        // SAFETY: the engine has just returned this job.
        if unsafe { job.copy() } {
            let _ = self.engines[rank].transfer_done(&job, Ok(()));
            return true;
        }
        job.local.pieces(job.length, |Part { base, length }| match job.direction {
            // SAFETY: the engine has claimed these bytes of a buffer for the job.
            Direction::Read => unsafe { base.write_bytes(0x5a, length) },
            Direction::Write => {
                // SAFETY: the engine has claimed these bytes of a buffer for the job.
                let piece = unsafe { NonNull::slice_from_raw_parts(base, length).as_ref() };
                core::hint::black_box(piece.iter().fold(0, |sum, byte| sum ^ byte));
            }
        });
        let _ = self.engines[rank].transfer_done(&job, result);
        true
    }

    /// Does a job of `rank` between buffers of this job, if there is one. `result` is that of the
    /// system call: nothing is copied if it fails. Returns false if there was no job.
    ///
    /// # Panics
    ///
    /// When the engine reports an error.
    pub fn carry(&mut self, rank: usize, result: Result<(), Refused>) -> bool {
        let Some(job) = self.engines[rank].poll_transfer().expect("a job") else { return false };
        let RemoteBuffer::Private(remote) = job.remote else { panic!("a buffer in a heap") };
        let mut from = remote as usize;
        job.local.pieces(job.length, |Part { base, length }| {
            let there = core::ptr::with_exposed_provenance_mut::<u8>(from);
            from += length;
            // SAFETY: both engines claimed these bytes of their buffers for the job, and the
            // buffers are those of this process.
            unsafe {
                match (result, job.direction) {
                    (Err(Refused), _) => {}
                    (Ok(()), Direction::Read) => base.as_ptr().copy_from(there, length),
                    (Ok(()), Direction::Write) => there.copy_from(base.as_ptr(), length),
                }
            }
        });
        self.engines[rank].transfer_done(&job, result).expect("the result of a job");
        true
    }

    /// Answers a message of `rank` that cannot go on without its ring, if there is one. Returns
    /// whether there was.
    pub fn answer_ring_want(&mut self, rank: usize, backed: bool) -> bool {
        let Some(peer) = self.engines[rank].poll_ring_want() else { return false };
        self.engines[rank].ring_backed(peer, RingPart::Granules, backed);
        true
    }

    /// Returns the offset of an object in the segment.
    #[must_use]
    pub fn offset_of<T>(&self, place: *const T) -> usize {
        place.addr() - self.arena.base().addr().get()
    }

    /// Returns the word at `offset`.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn word(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.arena.length());
        // SAFETY: the word lies inside the segment, and no engine is inside a call.
        unsafe { self.arena.base().add(offset).cast::<u32>().read() }
    }

    /// Returns the offset of the control block of `rank`. Its receive queue's head comes first,
    /// then the tail.
    #[must_use]
    pub fn block(&self, rank: u32) -> usize {
        self.offset_of::<RankBlock>(self.arena.segment().rank_block(rank))
    }

    /// Returns the offset of the first cell in the queue of `rank`. The link comes first, then the
    /// description.
    ///
    /// # Panics
    ///
    /// When the queue is empty.
    #[must_use]
    pub fn first_cell(&self, rank: u32) -> usize {
        let segment = self.arena.segment();
        let index = segment.parse(self.word(self.block(rank))).expect("a cell").expect("a message");
        self.offset_of(segment.cell(index).as_ptr())
    }
}

fn pending(received: Result<Received, StartError>) -> Option<RequestId> {
    match received {
        Ok(Received::Pending(id)) => Some(id),
        Ok(Received::Done(_)) | Err(_) => None,
    }
}
