//! The chunks of a large message, and the descriptor that its two sides share.

use core::ptr::NonNull;

use strait_core::shm::{
    ChunkRequest, Chunks, CopyRingPtr, CopyRingReceiver, CopyRingSender, Descriptor, Grains, Grant,
    GranuleHead, ReceiveCookie, RingChunk,
};
use strait_core::sync::{AtomicU64, CacheLine, UnsafeCell};
use strait_loom_tests::{Arc, model_in_full, thread};

const GRAINS: u32 = 2;

/// A message in transfer: the sender's memory, the receiver's memory, and the shared descriptor.
struct Shared {
    descriptor: Descriptor,
    from: Vec<UnsafeCell<u32>>,
    to: Vec<UnsafeCell<u32>>,
}

// SAFETY: the models check that one side at a time accesses each cell: loom, Miri and the thread
// sanitizer each report an unordered access.
unsafe impl Sync for Shared {}
// SAFETY: see the preceding `Sync`.
unsafe impl Send for Shared {}

impl Shared {
    /// Creates a message with a first transfer that is already announced when the receiver's thread
    /// starts.
    fn announced() -> Arc<Self> {
        Self::begun(|chunks| chunks.begin(1))
    }

    /// Creates a message with an RTR that is already sent when the sender's thread starts.
    fn asked() -> Arc<Self> {
        let shared = Self::begun(|chunks| chunks.ask(1));
        shared.use_buffer();
        shared
    }

    fn begun(begin: impl FnOnce(&Chunks)) -> Arc<Self> {
        let descriptor =
            Descriptor { chunks: CacheLine(Chunks::unused()), grant: CacheLine(Grant::unused()) };
        begin(&descriptor.chunks);
        descriptor.grant.begin();
        let from = (0..GRAINS).map(|grain| UnsafeCell::new(100 + grain)).collect();
        let to = (0..GRAINS).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { descriptor, from, to })
    }

    /// Claims one grain for a side and moves it.
    fn move_one(&self, sender: bool) -> bool {
        let claim = ChunkRequest { generation: 1, grains: GRAINS, least: 1, most: 1, sender };
        let Some(Grains { first, count: 1 }) = self.descriptor.chunks.claim(claim) else {
            return false;
        };
        self.carry(first);
        self.descriptor.chunks.finish(1);
        true
    }

    fn carry(&self, grain: u32) {
        // SAFETY: the models check that one side at a time accesses the cell (see `Sync`).
        let value = self.from[grain as usize].with(|from| unsafe { *from });
        // SAFETY: the models check that one side at a time accesses the cell (see `Sync`).
        self.to[grain as usize].with_mut(|to| unsafe { *to = value });
    }

    fn is_complete(&self) -> bool {
        self.descriptor.chunks.done(1, GRAINS).unwrap() == GRAINS
    }

    /// Writes to the buffer as the receiver's user does before or after the transfer.
    fn use_buffer(&self) {
        // SAFETY: the models check that one side at a time accesses the cell (see `Sync`).
        self.to.iter().for_each(|to| to.with_mut(|to| unsafe { *to = 0 }));
    }

    /// Writes to the data as the sender's user does after the transfer.
    fn use_data(&self) {
        // SAFETY: the models check that one side at a time accesses the cell (see `Sync`).
        self.from.iter().for_each(|from| from.with_mut(|from| unsafe { *from = 7 }));
    }

    fn assert_whole(&self) {
        for (grain, to) in (0..).zip(&self.to) {
            // SAFETY: the models check that one side at a time accesses the cell (see `Sync`).
            assert_eq!(to.with(|to| unsafe { *to }), 100 + grain, "a grain was not moved");
        }
    }

    fn open(&self) {
        self.use_buffer();
        let cookie = ReceiveCookie { handle: 3, address: 5, lies: 1, length: 7, moves: true };
        self.descriptor.grant.open(1, cookie);
    }

    /// Polls for the receiver's answer.
    fn is_open(&self) -> bool {
        let Some(answer) = self.descriptor.grant.answer(1) else { return false };
        let ReceiveCookie { handle, address, lies, length, moves } = answer;
        assert_eq!((handle, address, lies, length, moves), (3, 5, 1, 7, true));
        true
    }
}

#[test]
fn both_sides_move_and_each_has_its_memory_back() {
    model_in_full(|| {
        let shared = Shared::announced();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for _ in 0..2 {
                    if shared.is_open() {
                        shared.move_one(true);
                    }
                }
                let over = shared.is_open() && shared.is_complete();
                if over {
                    shared.use_data();
                    // The descriptor's next use: the receiver may not have seen the end of this one
                    // yet.
                    shared.descriptor.chunks.begin(2);
                }
                over
            })
        };
        shared.open();
        shared.move_one(false);
        let mut over = shared.is_complete();
        if over {
            shared.assert_whole();
        }
        let sender_over = sender.join().unwrap();
        while !over && shared.move_one(false) {}
        over |= shared.is_complete();
        assert!(over, "grains are claimed but not done");
        shared.assert_whole();
        assert!(sender_over || shared.is_complete());
    });
}

/// The first grain goes through the copy ring. Then either side moves the other one by one copy, as
/// when a side leaves the library.
#[test]
fn a_message_goes_on_by_one_copy_in_the_middle() {
    model_in_full(|| {
        let shared = Shared::announced();
        let ring = Arc::new((CacheLine(AtomicU64::new(0)), [GranuleHead::empty()]));
        let slot = Arc::new(Slot(UnsafeCell::new(0)));
        // SAFETY: both ends keep the ring alive, and there is one of each.
        let place =
            || unsafe { CopyRingPtr::new((&ring.0).into(), NonNull::from(&ring.1).cast(), 1) };
        let (mut filling, mut emptying) =
            (CopyRingSender::new(place()), CopyRingReceiver::new(place()));
        shared.open();
        let sender = {
            let (shared, ring, slot) = (Arc::clone(&shared), Arc::clone(&ring), Arc::clone(&slot));
            thread::spawn(move || {
                let claim =
                    ChunkRequest { generation: 1, grains: GRAINS, least: 1, most: 1, sender: true };
                if shared.is_open()
                    && let Some(Grains { first, .. }) = shared.descriptor.chunks.claim(claim)
                {
                    // SAFETY: the models check that one side at a time accesses the cell.
                    let value = shared.from[first as usize].with(|from| unsafe { *from });
                    // SAFETY: the models check that one side at a time accesses the cell.
                    slot.0.with_mut(|slot| unsafe { *slot = value });
                    let offset = u64::from(first);
                    let (handle, generation, length) = (3, 1, 1);
                    let (streamed, more) = (false, false);
                    let chunk = RingChunk { handle, generation, offset, length, streamed, more };
                    filling.publish(1, chunk);
                }
                // The receiver has left.
                shared.move_one(true);
                let over = shared.is_complete();
                if over {
                    shared.use_data();
                }
                drop(ring);
                over
            })
        };
        let mut take = |shared: &Shared| {
            let Some((granules, chunk)) = emptying.peek().unwrap() else { return };
            // SAFETY: the models check that one side at a time accesses the cell.
            let value = slot.0.with(|slot| unsafe { *slot });
            // SAFETY: the models check that one side at a time accesses the cell.
            shared.to[chunk.offset as usize].with_mut(|to| unsafe { *to = value });
            emptying.release(granules);
            shared.descriptor.chunks.finish(1);
        };
        take(&shared);
        // The sender has left.
        shared.move_one(false);
        if shared.is_complete() {
            shared.assert_whole();
        }
        sender.join().unwrap();
        take(&shared);
        while shared.move_one(false) {}
        assert!(shared.is_complete(), "grains are claimed but not done");
        shared.assert_whole();
    });
}

/// The granule of the copy ring.
struct Slot(UnsafeCell<u32>);

// SAFETY: the models check that one side at a time accesses the cell.
unsafe impl Sync for Slot {}
// SAFETY: see the preceding `Sync`.
unsafe impl Send for Slot {}

#[test]
fn data_that_are_withdrawn_are_not_read() {
    model_in_full(|| {
        let shared = Shared::announced();
        let receiver = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || while shared.move_one(false) {})
        };
        let claimed = shared.descriptor.chunks.withdraw(1);
        let quiet = shared.descriptor.chunks.done(1, claimed).unwrap() == claimed;
        if quiet {
            shared.use_data();
        }
        receiver.join().unwrap();
        assert_eq!(shared.descriptor.chunks.done(1, claimed), Ok(claimed));
    });
}

#[test]
fn a_buffer_that_is_closed_is_not_written() {
    model_in_full(|| {
        let shared = Shared::announced();
        shared.open();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || while shared.is_open() && shared.move_one(true) {})
        };
        if let Some(rest) = shared.descriptor.chunks.close(1, GRAINS) {
            shared.descriptor.chunks.finish(rest.count);
        }
        if shared.is_complete() {
            shared.use_buffer();
        }
        sender.join().unwrap();
        assert!(shared.is_complete(), "the sender never learns the end");
    });
}

#[test]
fn what_the_receiver_cannot_move_the_sender_moves() {
    model_in_full(|| {
        let shared = Shared::announced();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for _ in 0..2 {
                    if let Some(grains) = shared.descriptor.grant.refused() {
                        assert_eq!(grains, Grains { first: 0, count: 1 });
                        shared.carry(grains.first);
                        shared.descriptor.chunks.finish(1);
                        return true;
                    }
                }
                false
            })
        };
        let claim =
            ChunkRequest { generation: 1, grains: GRAINS, least: 1, most: 1, sender: false };
        let grains = shared.descriptor.chunks.claim(claim).unwrap();
        // An attempt that fails half-way.
        shared.carry(grains.first);
        shared.descriptor.grant.refuse(grains);
        let taken = sender.join().unwrap();
        assert_eq!(shared.descriptor.chunks.done(1, GRAINS), Ok(u32::from(taken)));
    });
}

#[test]
fn an_rtr_is_used_or_retracted() {
    model_in_full(|| {
        let shared = Shared::asked();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let used = shared.descriptor.chunks.use_rtr(1);
                if used {
                    while shared.move_one(true) {}
                }
                used
            })
        };
        let moved = shared.move_one(false);
        let retracted = shared.descriptor.chunks.retract(1);
        assert!(!(moved && retracted), "the message is not known yet");
        if retracted {
            // The buffer belongs to the user, and the descriptor to another receive.
            shared.use_buffer();
            shared.descriptor.chunks.ask(2);
        } else if shared.is_complete() {
            shared.assert_whole();
        }
        assert_ne!(sender.join().unwrap(), retracted);
        if !retracted {
            assert!(shared.is_complete());
            shared.assert_whole();
        }
    });
}

#[test]
fn a_sender_that_used_an_rtr_has_its_data_back() {
    model_in_full(|| {
        let shared = Shared::asked();
        assert!(shared.descriptor.chunks.use_rtr(1));
        let receiver = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                while shared.move_one(false) {}
                let over = shared.is_complete();
                if over {
                    shared.assert_whole();
                    // The descriptor's next use: the sender may not have seen the end of this one
                    // yet.
                    shared.descriptor.chunks.ask(2);
                }
                over
            })
        };
        shared.move_one(true);
        let mut over = shared.is_complete();
        if over {
            shared.use_data();
        }
        let receiver_over = receiver.join().unwrap();
        over |= shared.is_complete();
        assert!(over && (receiver_over || shared.is_complete()));
    });
}

#[test]
fn a_buffer_that_is_abandoned_is_not_written() {
    model_in_full(|| {
        let shared = Shared::asked();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                if shared.descriptor.chunks.use_rtr(1) {
                    while shared.move_one(true) {}
                }
            })
        };
        let claimed = shared.descriptor.chunks.abandon(1);
        if shared.descriptor.chunks.done(1, claimed) == Ok(claimed) {
            shared.use_buffer();
        }
        sender.join().unwrap();
        assert_eq!(shared.descriptor.chunks.done(1, claimed), Ok(claimed));
    });
}
