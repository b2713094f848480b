//! Whole engines: messages of every length, by every path that needs no operating system.

use core::alloc::Layout;
use core::ptr::NonNull;

use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Engine, Outcome, Owner, Received, RequestId, Sent, Tuning};
use strait_core::layout::RingPart;
use strait_core::lmt::{Refused, Transfer};
use strait_core::matching::{ANY_SOURCE, ANY_TAG, Pattern};
use strait_core::memory::Memory;
use strait_core::shm::ParcelSet;
use strait_core::sync::Ordering::{AcqRel, Acquire, Relaxed};
use strait_core::sync::{AtomicU64, UnsafeCell};
use strait_core::wire::Key;

use crate::place::{Flaw, Party, RANKS, check};

const ROUNDS: u32 = 20;

/// Lengths that use baton or fastbox, parcels, cells, and a copy ring after an announcement.
/// Parcels alone do not carry every length: above `eager_max`, a named transfer carries all
/// messages.
const LENGTHS: [usize; 8] = [0, 8, 48, 200, 1500, 5_000, 12_000, 150_000];
const LONGEST: usize = 150_000;

/// Private memory of one rank.
struct Private {
    /// The memory that is lent to the engine.
    arena: UnsafeCell<[u8; 4 << 20]>,
    used: AtomicU64,
    /// The send buffer and the receive buffer.
    buffers: [UnsafeCell<[u8; LONGEST]>; 2],
}

// SAFETY: each rank accesses only its own entry.
unsafe impl Sync for Private {}

static PRIVATE: [Private; RANKS as usize] = [const {
    Private {
        arena: UnsafeCell::new([0; 4 << 20]),
        used: AtomicU64::new(0),
        buffers: [const { UnsafeCell::new([0; LONGEST]) }; 2],
    }
}; RANKS as usize];

/// The arena, lent from its start to its end. Released memory is not lent again, because the image
/// ends before that matters.
#[derive(Clone, Copy)]
struct Arena(&'static Private);

// SAFETY: each allocation follows the one before, aligned as requested.
unsafe impl Memory for Arena {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.arena.with_mut(|arena| {
            let used = self.0.used.load(Relaxed) as usize;
            // SAFETY: `used` never exceeds the arena's size.
            let free = unsafe { arena.cast::<u8>().add(used) };
            let from = used + free.align_offset(layout.align());
            let end = from.checked_add(layout.size())?;
            if end > size_of_val(&self.0.arena) {
                return None;
            }
            self.0.used.store(end as u64, Relaxed);
            // SAFETY: the address is within the arena.
            NonNull::new(unsafe { arena.cast::<u8>().add(from) })
        })
    }

    unsafe fn release(&self, _memory: NonNull<u8>, _layout: Layout) {}
}

/// A rank, and the two buffers that it reuses.
struct BareRank<'a> {
    party: &'a Party,
    engine: Engine<Arena>,
    outgoing: NonNull<u8>,
    incoming: NonNull<u8>,
}

/// Sends messages of every length between the ranks, and from each rank to itself.
pub(super) fn engine(party: &Party) -> Result<(), Flaw> {
    let private = &PRIVATE[party.rank as usize];
    let [outgoing, incoming] = private.buffers.each_ref().map(|buffer| {
        let place = buffer.with_mut(|buffer| NonNull::new(buffer.cast()));
        place.expect("a static has an address")
    });
    // No rank of the image copies between two processes.
    let tuning = Tuning { transfer: Transfer::CopyRing, ..Tuning::default() };
    let mut engine = Engine::new(Arena(private), party.segment, party.rank, tuning)
        .map_err(|error| Flaw::Start(error.into()))?;
    for set in ParcelSet::ALL {
        engine.parcels_backed(party.peer(), set, true);
    }
    RingPart::ALL.into_iter().for_each(|part| {
        engine.ring_backed(party.peer(), part, true);
    });
    let mut rank = BareRank { party, engine, outgoing, incoming };
    for round in 0..ROUNDS {
        for length in LENGTHS {
            rank.exchange(party.peer(), round, length)?;
        }
        rank.exchange(party.rank, round, LENGTHS[round as usize % LENGTHS.len()])?;
    }
    rank.finish()
}

fn byte(number: u64, at: usize) -> u8 {
    number.wrapping_mul(31).wrapping_add(at as u64) as u8
}

impl BareRank<'_> {
    /// Sends `length` bytes to `peer` and receives as many. One rank receives first, and the other
    /// sends first.
    fn exchange(&mut self, peer: u32, round: u32, length: usize) -> Result<(), Flaw> {
        let number = self.party.say(round.into());
        for at in 0..length {
            // SAFETY: the byte is within the buffer, which no operation uses now.
            unsafe { self.outgoing.add(at).write(byte(number, at)) };
        }
        let (received, sent) = if self.party.rank == 0 {
            let received = self.receive(peer, round, length)?;
            (received, self.send(peer, round, length)?)
        } else {
            let sent = self.send(peer, round, length)?;
            (self.receive(peer, round, length)?, sent)
        };
        if let Sent::Pending(id) = sent {
            self.wait(id)??;
        }
        let status = match received {
            Received::Done(outcome) => outcome?,
            Received::Pending(id) => self.wait(id)??,
        };
        check("source of a message", status.source, peer.into())?;
        check("tag of a message", status.tag, round.into())?;
        check("bytes of a message", status.bytes, length as u64)?;
        for at in 0..length {
            // SAFETY: the byte is within the buffer, and the receive is complete.
            let found = unsafe { self.incoming.add(at).read() };
            check("byte of a message", found, byte(round.into(), at).into())?;
        }
        Ok(())
    }

    fn send(&mut self, peer: u32, tag: u32, length: usize) -> Result<Sent, Flaw> {
        // SAFETY: the buffer is static, and nothing writes it until the send is complete.
        let sent = unsafe {
            let data = Cursor::contiguous(Part { base: self.outgoing, length });
            self.engine.isend(peer, Key::new(0, tag), data, Owner(1))?
        };
        self.back();
        Ok(sent)
    }

    /// Receives alternately by source and tag, and with wildcards. The peer may be ahead while this
    /// rank sends to itself.
    fn receive(&mut self, peer: u32, tag: u32, length: usize) -> Result<Received, Flaw> {
        let pattern = if peer == self.party.rank || tag.is_multiple_of(2) {
            Pattern { context: 0, source: peer, tag }
        } else {
            Pattern { context: 0, source: ANY_SOURCE, tag: ANY_TAG }
        };
        // SAFETY: the buffer is static, and nothing else accesses it until the receive is complete.
        unsafe {
            let buffer = Cursor::contiguous(Part { base: self.incoming, length });
            Ok(self.engine.irecv(pattern, buffer, Owner(1))?)
        }
    }

    fn wait(&mut self, id: RequestId) -> Result<Outcome, Flaw> {
        let party = self.party;
        party.wait(|| {
            self.progress()?;
            Ok(self.engine.test(id))
        })
    }

    fn progress(&mut self) -> Result<(), Flaw> {
        self.engine.progress()?;
        self.back();
        if let Some(job) = self.engine.poll_transfer()? {
            // A job that needs a system call is refused, and the message takes another transfer.
            // SAFETY: the engine has just returned the job.
            let done = if unsafe { job.copy() } { Ok(()) } else { Err(Refused) };
            self.engine.transfer_done(&job, done)?;
        }
        Ok(())
    }

    /// Answers the engine's requests: all memory is backed from the start, and no rank sleeps.
    fn back(&mut self) {
        while let Some(peer) = self.engine.poll_want() {
            self.engine.fastbox_backed(peer, true);
        }
        while self.engine.poll_bell().is_some() {}
    }

    /// Continues until neither rank needs this one, and checks that no message is left.
    fn finish(mut self) -> Result<(), Flaw> {
        // SAFETY: the value is an atomic, for which zeroed memory is valid.
        let done = unsafe { self.party.shared::<AtomicU64>() };
        let (party, mut told) = (self.party, false);
        party.wait(|| {
            self.progress()?;
            if !told && self.engine.is_flushed() {
                done.fetch_add(1, AcqRel);
                told = true;
            }
            Ok((done.load(Acquire) == u64::from(RANKS)).then_some(()))
        })?;
        let anything = Pattern { context: 0, source: ANY_SOURCE, tag: ANY_TAG };
        check("messages left over", self.engine.iprobe(anything)?.is_some(), 0)
    }
}
