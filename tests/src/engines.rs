//! The engines of a job on one thread, over a segment that anything may be written into.

use core::ptr::NonNull;

use strait_core::layout::{Config, RankBlock};
use strait_core::lmt::{Direction, Refused};
use strait_core::matching::Pattern;
use strait_core::progress::{
    Cursor, Engine, MessageId, Owner, Part, Received, RequestId, Sent, StartError, Tuning,
};
use strait_core::shm::CellArena as _;
use strait_core::wire::Key;

use crate::{Arena, Ledger};

/// Bytes before and behind each buffer that must stay as they are.
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
        let base = NonNull::from(&mut self.0[GUARD..]).cast();
        // SAFETY: the vector is neither moved, touched nor dropped before its engine has been (see `Engines`).
        unsafe { Cursor::contiguous(Part { base, length }) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let end = self.0.len() - GUARD;
        let untouched = self.0[..GUARD].iter().chain(&self.0[end..]).all(|byte| *byte == 0xa5);
        assert!(untouched || std::thread::panicking(), "written beyond a buffer");
    }
}

/// Engines on one thread. What they do to each other's segment and buffers is looked at from outside: a byte written
/// beyond a buffer is a panic when the job is dropped.
#[derive(Debug)]
pub struct Engines {
    /// One for each rank. Dropped first.
    pub engines: Vec<Engine<Ledger>>,
    buffers: Vec<Guarded>,
    /// Where the next buffer in a heap begins.
    heap_used: usize,
    /// Their segment.
    pub arena: Arena,
}

impl Engines {
    /// The engines of a job of this shape, whose large messages go through copy rings.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::tuned(config, Arena::tuning())
    }

    /// As [`Engines::new`], with other numbers.
    #[must_use]
    pub fn tuned(config: Config, tuning: Tuning) -> Self {
        let (arena, ledger) = (Arena::new(config), Ledger::default());
        let engine = |rank| {
            let mut engine = arena.engine_with(rank, &ledger, tuning);
            for peer in 0..config.ranks {
                engine.parcels_backed(peer, true);
                engine.ring_backed(peer, true);
            }
            engine
        };
        let engines = (0..config.ranks).map(engine).collect();
        Self { engines, buffers: Vec::new(), heap_used: 0, arena }
    }

    /// A buffer that lives as long as the job.
    ///
    /// # Panics
    ///
    /// Never: the buffer that was just made is there.
    pub fn buffer(&mut self, length: usize) -> Cursor {
        self.buffers.push(Guarded::new(length));
        self.buffers.last_mut().expect("just pushed").cursor()
    }

    /// A buffer in the heap of `rank`. Later ones lie where earlier ones did.
    pub fn heap_buffer(&mut self, rank: u32, length: usize) -> Cursor {
        let (heap, bytes) = self.arena.segment().heap(rank);
        let length = length.min(bytes);
        let from = if self.heap_used + length <= bytes { self.heap_used } else { 0 };
        self.heap_used = from + length;
        // SAFETY: within the heap, which lives as long as the arena.
        unsafe { Cursor::contiguous(Part { base: heap.add(from), length }) }
    }

    /// Begins a send. An error is as good as a success here.
    pub fn send(&mut self, from: usize, to: u32, tag: u32, length: usize) -> Option<RequestId> {
        let data = self.buffer(length);
        self.send_from(from, to, tag, data)
    }

    /// As [`Engines::send`], from a buffer of this job.
    pub fn send_from(&mut self, from: usize, to: u32, tag: u32, data: Cursor) -> Option<RequestId> {
        if self.engines[from].wants_ring(to, data.remaining()) {
            self.engines[from].ring_backed(to, true);
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

    /// Begins a receive, likewise.
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

    /// As [`Engines::receive`], into a buffer of this job.
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

    /// The same of a message that a probe has matched.
    pub fn receive_matched(
        &mut self,
        at: usize,
        message: MessageId,
        buffer: Cursor,
    ) -> Option<RequestId> {
        // SAFETY: the buffer outlives the engine.
        pending(unsafe { self.engines[at].imrecv(message, buffer, Owner(1)) })
    }

    /// Does a job of `rank`, if there is one: by a copy in a heap, or else as far as it concerns the rank's own memory, for the
    /// peer's may be anywhere. False: there was none.
    pub fn transfer(&mut self, rank: usize, result: Result<(), Refused>) -> bool {
        let Ok(Some(job)) = self.engines[rank].poll_transfer() else { return false };
        // SAFETY: the engine gave it just now.
        if unsafe { job.copy() } {
            let _ = self.engines[rank].transfer_done(&job, Ok(()));
            return true;
        }
        job.local.pieces(job.length, |Part { base, length }| match job.direction {
            // SAFETY: the engine has claimed these bytes of a buffer for the job.
            Direction::Read => unsafe { base.write_bytes(0x5a, length) },
            Direction::Write => {
                // SAFETY: as above.
                let piece = unsafe { NonNull::slice_from_raw_parts(base, length).as_ref() };
                core::hint::black_box(piece.iter().fold(0, |sum, byte| sum ^ byte));
            }
        });
        let _ = self.engines[rank].transfer_done(&job, result);
        true
    }

    /// The offset in the segment of something that lies there.
    #[must_use]
    pub fn offset_of<T>(&self, place: *const T) -> usize {
        place.addr() - self.arena.base().addr().get()
    }

    /// The word at `offset`.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn word(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.arena.length());
        // SAFETY: inside the segment, and no engine is inside a call.
        unsafe { self.arena.base().add(offset).cast::<u32>().read() }
    }

    /// Offset of the control block of `rank`; its receive queue's head comes first, then the tail.
    #[must_use]
    pub fn block(&self, rank: u32) -> usize {
        self.offset_of::<RankBlock>(self.arena.segment().rank_block(rank))
    }

    /// Offset of the cell that is first in the queue of `rank`; the link comes first, then the description.
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
