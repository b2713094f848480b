//! The copy ring: chunks that stream through reused granules.

use core::ptr::NonNull;

use strait_core::shm::{
    CopyRingPtr, CopyRingReceiver, CopyRingSender, GranuleHead, Granules, RingChunk,
};
use strait_core::sync::{AtomicU64, CacheLine, UnsafeCell};
use strait_loom_tests::{Arc, model_in_full, thread};

/// The memory of one ring. One number stands for the bytes of a granule.
struct Ring {
    emptied: CacheLine<AtomicU64>,
    heads: Vec<GranuleHead>,
    bytes: Vec<UnsafeCell<u64>>,
}

// SAFETY: the models check that one end at a time accesses each granule: loom, Miri and the thread
// sanitizer see every access.
unsafe impl Sync for Ring {}
// SAFETY: see the preceding `Sync`.
unsafe impl Send for Ring {}

impl Ring {
    fn new(granules: usize) -> Arc<Self> {
        Arc::new(Self {
            emptied: CacheLine(AtomicU64::new(0)),
            heads: (0..granules).map(|_| GranuleHead::empty()).collect(),
            bytes: (0..granules).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn place(&self) -> CopyRingPtr {
        let heads = NonNull::from(self.heads.as_slice()).cast();
        // SAFETY: both ends keep the ring alive, and there is one of each.
        unsafe { CopyRingPtr::new((&self.emptied).into(), heads, self.heads.len() as u32) }
    }

    fn write(&self, granules: Granules, value: u64) {
        for number in granules.first..granules.first + granules.count {
            // SAFETY: the models check that one end at a time accesses the granule (see `Sync`).
            self.bytes[number as usize].with_mut(|bytes| unsafe { *bytes = value });
        }
    }

    fn assert_holds(&self, granules: Granules, value: u64) {
        for number in granules.first..granules.first + granules.count {
            // SAFETY: the models check that one end at a time accesses the granule (see `Sync`).
            let found = self.bytes[number as usize].with(|bytes| unsafe { *bytes });
            assert_eq!(found, value, "a granule of another chunk");
        }
    }
}

struct Sender {
    ring: Arc<Ring>,
    end: CopyRingSender,
    sent: u64,
}

struct Receiver {
    ring: Arc<Ring>,
    end: CopyRingReceiver,
    taken: u64,
}

const fn chunk(number: u64) -> RingChunk {
    RingChunk {
        handle: 1,
        generation: 2,
        offset: number,
        length: 1 + number as u32,
        streamed: false,
        more: false,
    }
}

impl Sender {
    /// Copies in a chunk of up to `wanted` granules, behind `ahead` granules that are not
    /// published.
    fn copy_in(&mut self, ahead: u32, wanted: u32) -> Option<Granules> {
        let room = self.end.room(ahead, wanted).unwrap()?;
        self.ring.write(room, self.sent + u64::from(ahead));
        Some(room)
    }

    fn send(&mut self, wanted: u32) -> bool {
        let Some(room) = self.copy_in(0, wanted) else { return false };
        self.end.publish(room.count, chunk(self.sent));
        self.sent += 1;
        true
    }

    /// Sends up to `chunks` chunks; fewer if the ring stays full.
    fn send_up_to(mut self, chunks: u64, wanted: u32) -> Self {
        for _ in 0..chunks {
            if !self.send(wanted) {
                thread::yield_now();
                if !self.send(wanted) {
                    break;
                }
            }
        }
        self
    }
}

impl Receiver {
    /// Takes the next chunk if it has arrived, and checks it.
    fn look(&mut self) -> bool {
        let Some((granules, found)) = self.end.peek().unwrap() else { return false };
        assert_eq!(found, chunk(self.taken), "a head of another chunk");
        self.ring.assert_holds(granules, self.taken);
        self.end.release(granules);
        self.taken += 1;
        true
    }
}

fn ends(granules: usize) -> (Sender, Receiver) {
    let ring = Ring::new(granules);
    let sender =
        Sender { end: CopyRingSender::new(ring.place()), ring: Arc::clone(&ring), sent: 0 };
    (sender, Receiver { end: CopyRingReceiver::new(ring.place()), ring, taken: 0 })
}

/// Sends `chunks` chunks of up to `wanted` granules through a ring of `granules`. Meanwhile the
/// receiver polls `looks` times.
fn pass(granules: usize, chunks: u64, wanted: u32, looks: u32) {
    let (sender, mut receiver) = ends(granules);
    let sending = thread::spawn(move || sender.send_up_to(chunks, wanted));
    for _ in 0..looks {
        if !receiver.look() {
            thread::yield_now();
        }
    }
    let mut sender = sending.join().unwrap();
    while receiver.look() {}
    assert_eq!(receiver.taken, sender.sent, "chunks lost");
    assert!(sender.send(1), "granules lost");
    assert!(receiver.look());
}

#[test]
fn one_buffer_is_used_in_turn() {
    model_in_full(|| pass(1, 3, 1, 3));
}

#[test]
fn two_buffers_are_filled_and_emptied_at_once() {
    model_in_full(|| pass(2, 4, 1, 4));
}

#[test]
fn long_chunks_end_where_the_ring_does() {
    model_in_full(|| pass(3, 4, 2, 4));
}

#[test]
fn what_is_copied_in_too_early_is_seen_by_nobody() {
    model_in_full(|| {
        let (mut sender, mut receiver) = ends(3);
        let sending = thread::spawn(move || {
            // This chunk is copied in for a message without a receive, and then overwritten.
            sender.ring.write(sender.end.room(0, 1).unwrap().unwrap(), 77);
            assert!(sender.send(1));
            // This chunk is copied in for a message with a receive.
            let early = sender.copy_in(1, 1).unwrap();
            assert!(sender.send(1));
            sender.end.publish(early.count, chunk(sender.sent));
            sender.sent += 1;
            sender
        });
        while receiver.taken < 2 && receiver.look() {}
        let sender = sending.join().unwrap();
        while receiver.look() {}
        assert_eq!(receiver.taken, sender.sent, "chunks lost");
    });
}
