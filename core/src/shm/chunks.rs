//! The chunks of a large message, which two ranks move at the same time.
//!
//! The message is divided into grains. A rank that is inside the library claims the next few
//! unclaimed grains, moves them and reports them as done. If both sides are idle, both move data.
//! If one side computes, the other moves all of it. Neither side waits for the other before the
//! last grains.
//!
//! Participants: the sender of the message and its receiver, one thread each. All operations are
//! lock-free: a claim fails only because the other side made one.
//! Absent on purpose: the data, its addresses ([`super::Grant`]), any wait.
//!
//! The sender owns the words of a transfer that begins with its RTS. The receiver owns those of a
//! transfer that begins with its RTR. Each word carries the generation of its transfer. Its owner
//! may therefore reuse it for the next transfer before the other side has seen the end of this one.
//!
//! Source: in `[Nemesis07]` §3.2, one side or both take part in a transfer, in turns that are fixed
//! beforehand. The shared counter that assigns the turns is new here. `[SpecRndv09]` §3.1.2
//! describes the transfer that the receiver begins.

use crate::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, order};
use crate::wire::Corrupt;

/// Consecutive grains of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grains {
    /// Number of the first grain.
    pub first: u32,
    /// Number of grains.
    pub count: u32,
}

/// Largest number of grains of a message.
pub const GRAINS_MAX: u32 = CLOSED - 1;

/// Flag in the claim word: the sender's memory is gone, so the receiver may claim no more.
const WITHDRAWN: u32 = 1 << 31;

/// Flag: the receiver has sent an RTR that no sender has used yet. No grain can be claimed.
const ASKED: u32 = 1 << 30;

/// Flag: neither side may claim any more. The receiver's memory went away before the receiver knew
/// the number of grains.
const CLOSED: u32 = 1 << 29;

/// Mask of the count bits.
const COUNT: u32 = CLOSED - 1;

/// The counters of one transfer. Each has a generation in its upper half and a count in its lower
/// half.
#[derive(Debug)]
#[repr(C)]
pub struct Chunks {
    /// Number of grains claimed, and flags.
    claimed: AtomicU64,
    /// Number of grains that have arrived at their destination.
    done: AtomicU64,
}

golden::structure!(Chunks { claimed, done });

impl Chunks {
    /// Creates counters that no transfer uses, for models and tests. In a segment, zeroed memory
    /// has this state.
    #[must_use]
    pub fn unused() -> Self {
        Self { claimed: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// Begins the transfer `generation`, which differs from the previous one.
    ///
    /// Called by the sender, which owns the words, when the previous transfer is complete. The
    /// sender announces the new transfer to the receiver afterwards.
    pub fn begin(&self, generation: u32) {
        self.renew(generation, 0);
    }

    /// Begins the transfer `generation`, which differs from the previous one, before any message is
    /// announced.
    ///
    /// Called by the receiver, which owns the words, when the previous transfer is complete or
    /// retracted. The receiver sends an RTR afterwards.
    pub fn ask(&self, generation: u32) {
        self.renew(generation, ASKED);
    }

    fn renew(&self, generation: u32, flags: u32) {
        // ORDER chunks/1: Relaxed. The RTS or RTR publishes the value to the new peer. To the
        //   previous peer, any value of another generation only means that nothing is left to claim
        //   or to use.
        self.claimed.store(word(generation, flags), order("chunks/1", Relaxed));
        // ORDER chunks/2: Release, pairs with chunks/4: the previous peer may learn from this store
        //   that its message is complete. A receiver then finds in its buffer what the sender
        //   moved, and a sender's data is no longer read.
        self.done.store(word(generation, 0), order("chunks/2", Release));
    }

    /// Lets the sender use the RTR `generation`. Returns false if the receiver has retracted it.
    /// After a success both sides may claim.
    pub fn use_rtr(&self, generation: u32) -> bool {
        self.advance(generation, |low| (low == ASKED).then_some((0, ()))).is_some()
    }

    /// Takes the receiver's RTR back. Returns false if the sender has used it. After a success the
    /// words are free for another transfer.
    pub fn retract(&self, generation: u32) -> bool {
        self.advance(generation, |low| (low == ASKED).then_some((ASKED | CLOSED, ()))).is_some()
    }

    /// Claims the next unclaimed grains.
    ///
    /// Returns `None` if no grain is left, if the generation has passed, or if this side may not
    /// claim. Neither side may claim before the RTR is used or after [`Chunks::abandon`]. The
    /// receiver may not claim after the sender has withdrawn.
    ///
    /// Claims get smaller towards the end, so that both sides finish together. No claim has fewer
    /// than `least` grains unless fewer are left, because each claim has a fixed cost.
    pub fn claim(&self, claim: ChunkRequest) -> Option<Grains> {
        let ChunkRequest { generation, grains, least, most, sender } = claim;
        self.advance(generation, |low| {
            let first = low & COUNT;
            let barred = ASKED | CLOSED | if sender { 0 } else { WITHDRAWN };
            if first >= grains || low & barred != 0 {
                return None;
            }
            let left = grains - first;
            let count = left.div_ceil(SHARE).min(most).max(least).min(left);
            Some((low + count, Grains { first, count }))
        })
    }

    /// Claims all grains that are left, without moving them: the receiver's memory goes away.
    ///
    /// The caller reports them as done at once ([`Chunks::finish`]), so that the sender's count is
    /// complete.
    pub fn close(&self, generation: u32, grains: u32) -> Option<Grains> {
        self.advance(generation, |low| {
            let first = low & COUNT;
            let left = grains.checked_sub(first).filter(|left| *left > 0)?;
            Some((low + left, Grains { first, count: left }))
        })
    }

    /// Ends the receiver's right to claim: the sender's memory goes away.
    ///
    /// Returns the number of grains that were claimed before. When that many are done, the receiver
    /// reads no more.
    pub fn withdraw(&self, generation: u32) -> u32 {
        self.bar(generation, WITHDRAWN)
    }

    /// Ends the right of both sides to claim: the receiver's memory goes away before the receiver
    /// knows the length of the message.
    ///
    /// Returns the number of grains that were claimed before. When that many are done, the
    /// receiver's memory is no longer accessed. The sender's count never becomes complete.
    pub fn abandon(&self, generation: u32) -> u32 {
        self.bar(generation, CLOSED)
    }

    /// Sets a flag and returns the number of grains that were claimed before.
    fn bar(&self, generation: u32, flag: u32) -> u32 {
        self.advance(generation, |low| Some((low | flag, low & COUNT))).unwrap_or(0)
    }

    /// Reports `count` claimed grains as done: they were moved, or need not be.
    pub fn finish(&self, count: u32) {
        // ORDER chunks/3: Release, pairs with chunks/4: this side's reads of the sender's memory
        //   and writes to the receiver's memory come before the count. By that count the other side
        //   learns that its memory is its own again. Additions by either side continue the release
        //   sequence of the other's.
        self.done.fetch_add(u64::from(count), order("chunks/3", Release));
    }

    /// Returns the number of grains that are done, or `grains` if the transfer is over.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] if more grains are done than the message has.
    #[inline]
    pub fn done(&self, generation: u32, grains: u32) -> Result<u32, Corrupt> {
        // ORDER chunks/4: Acquire, pairs with chunks/3 and chunks/2.
        let (found, done) = halves(self.done.load(order("chunks/4", Acquire)));
        if found != generation {
            // The owner has begun another transfer, which it does only after the end of this one.
            return Ok(grains);
        }
        if done > grains {
            return Err(Corrupt::Length { found: u64::from(done), max: u64::from(grains) });
        }
        Ok(done)
    }

    /// Replaces the count as `change` says, unless the generation has passed.
    fn advance<T>(
        &self,
        generation: u32,
        mut change: impl FnMut(u32) -> Option<(u32, T)>,
    ) -> Option<T> {
        // ORDER chunks/5: Relaxed. A stale count only makes the exchange fail and return the new
        //   one.
        let mut current = self.claimed.load(order("chunks/5", Relaxed));
        loop {
            let (found, low) = halves(current);
            if found != generation {
                return None;
            }
            let (next, result) = change(low)?;
            // ORDER chunks/6: Relaxed / Relaxed. The word distributes grains by its atomicity
            //   alone. The announcement permits access to the sender's memory, and grant/2 permits
            //   access to the receiver's memory. chunks/4 shows that no access follows.
            match self.claimed.compare_exchange_weak(
                current,
                word(generation, next),
                order("chunks/6", Relaxed),
                Relaxed,
            ) {
                Ok(_) => return Some(result),
                Err(newer) => current = newer,
            }
        }
    }
}

/// The parameters of a claim.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRequest {
    /// Generation of the transfer.
    pub generation: u32,
    /// Grains of the message, at most [`GRAINS_MAX`].
    pub grains: u32,
    /// Smallest number of grains of a claim, at least 1.
    pub least: u32,
    /// Largest number of grains of a claim.
    pub most: u32,
    /// True if the sender claims, false if the receiver does.
    pub sender: bool,
}

/// A claim takes the fraction 1 / `SHARE` of the grains that are left.
const SHARE: u32 = 2;

const fn word(generation: u32, low: u32) -> u64 {
    (generation as u64) << 32 | low as u64
}

const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    const CLAIM: ChunkRequest =
        ChunkRequest { generation: 7, grains: 100, least: 2, most: 20, sender: false };

    fn begun() -> Chunks {
        let chunks = Chunks::unused();
        chunks.begin(7);
        chunks
    }

    #[test]
    fn claims_cover_every_grain_once_and_shrink_towards_the_end() {
        let chunks = begun();
        let mut next = 0;
        let mut before = u32::MAX;
        while let Some(grains) = chunks.claim(CLAIM) {
            assert_eq!(grains.first, next);
            assert!(grains.count <= before && grains.count > 0);
            (next, before) = (next + grains.count, grains.count);
            chunks.finish(grains.count);
        }
        assert_eq!((next, chunks.done(7, 100)), (100, Ok(100)));
    }

    #[test]
    fn a_closed_transfer_has_nothing_left() {
        let chunks = begun();
        let first = chunks.claim(CLAIM).unwrap();
        let rest = chunks.close(7, 100).unwrap();
        assert_eq!(first.count + rest.count, 100);
        assert_eq!(chunks.close(7, 100), None);
        assert_eq!(chunks.claim(ChunkRequest { sender: true, ..CLAIM }), None);
    }

    #[test]
    fn after_a_withdrawal_the_sender_alone_goes_on() {
        let chunks = begun();
        let first = chunks.claim(CLAIM).unwrap();
        assert_eq!(chunks.withdraw(7), first.count);
        assert_eq!(chunks.claim(CLAIM), None);
        let next = chunks.claim(ChunkRequest { sender: true, ..CLAIM }).unwrap();
        assert_eq!(next.first, first.count);
        assert!(chunks.close(7, 100).is_some(), "the receiver may still end it");
    }

    #[test]
    fn a_past_transfer_is_over() {
        let chunks = begun();
        chunks.begin(8);
        assert_eq!(chunks.claim(CLAIM), None);
        assert_eq!(chunks.close(7, 100), None);
        assert_eq!(chunks.done(7, 100), Ok(100));
        assert_eq!(chunks.done(8, 100), Ok(0));
    }

    #[test]
    fn an_rtr_is_used_or_retracted() {
        let chunks = Chunks::unused();
        chunks.ask(7);
        assert_eq!(chunks.claim(CLAIM), None, "no message uses the RTR yet");
        assert!(chunks.use_rtr(7) && !chunks.use_rtr(7) && !chunks.retract(7));
        assert!(chunks.claim(CLAIM).is_some());
        chunks.ask(8);
        assert!(!chunks.use_rtr(7), "generation 7 has passed");
        assert!(chunks.retract(8) && !chunks.use_rtr(8));
    }

    #[test]
    fn neither_side_claims_from_an_abandoned_transfer() {
        let chunks = Chunks::unused();
        chunks.ask(7);
        assert!(chunks.use_rtr(7));
        let first = chunks.claim(ChunkRequest { sender: true, ..CLAIM }).unwrap();
        assert_eq!(chunks.abandon(7), first.count);
        assert_eq!(chunks.claim(ChunkRequest { sender: true, ..CLAIM }), None);
        assert_eq!(chunks.claim(CLAIM), None);
    }

    #[test]
    fn impossible_counts_are_refused() {
        let chunks = begun();
        chunks.finish(101);
        assert_eq!(chunks.done(7, 100), Err(Corrupt::Length { found: 101, max: 100 }));
        let past_end = Chunks::unused();
        past_end.begin(7);
        past_end.close(7, GRAINS_MAX);
        assert_eq!(past_end.claim(CLAIM), None, "a counter past the end gives no grains");
    }
}
