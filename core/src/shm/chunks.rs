//! The chunks of a large message, which two ranks move at the same time.
//!
//! The message is cut into grains. Whoever is inside the library claims the next few that nobody has claimed, moves
//! them, and says that they are done. With both sides idle both move; with one computing the other does it all; and
//! nobody waits for the other until the last grains.
//!
//! Participants: the sender of the message and its receiver, one thread each. All operations are lock-free: a claim
//! fails only because the other side claimed. A word carries the generation of its transfer, so an owner may use it
//! for the next one while the other side has yet to see the end of this one.
//! The sender owns the words of a transfer that begins with its RTS, the receiver those of one that begins with its RTR.
//! Absent on purpose: the data, its addresses ([`super::Grant`]), any wait.
//!
//! Source: `[Nemesis07]` §3.2 lets one side or both take part in a transfer, by turns that are fixed beforehand; handing
//! the turns out by a shared counter is ours. `[SpecRndv09]` §3.1.2 for the transfer that the receiver begins.

use crate::layout::{Corrupt, golden};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, order};

/// Consecutive grains of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grains {
    /// Number of the first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Most grains that a message may have.
pub const GRAINS_MAX: u32 = CLOSED - 1;

/// Flag in the claim word: the sender's memory is gone, so the receiver may claim no more.
const WITHDRAWN: u32 = 1 << 31;

/// Flag: the receiver has sent an RTR, which no sender has used yet. Nothing can be claimed.
const ASKED: u32 = 1 << 30;

/// Flag: the receiver's memory went away before the receiver knew how many grains there are. Nobody claims any more.
const CLOSED: u32 = 1 << 29;

/// The bits of the count.
const COUNT: u32 = CLOSED - 1;

/// The counters of one transfer. Each is a generation (upper half) and a count.
#[derive(Debug)]
#[repr(C)]
pub struct Chunks {
    /// Grains claimed, and flags.
    claimed: AtomicU64,
    /// Grains that are where they belong.
    done: AtomicU64,
}

golden::structure!(Chunks { claimed, done });

impl Chunks {
    /// Counters that no transfer uses, for models and tests: in a segment, zeroed memory is already such.
    #[must_use]
    pub fn unused() -> Self {
        Self { claimed: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// Begins the transfer `generation`, which is not the one before. Called by the sender, who owns the words, when the
    /// transfer before is complete; it announces the new one to the receiver afterwards.
    pub fn begin(&self, generation: u32) {
        self.renew(generation, 0);
    }

    /// Begins the transfer `generation`, which is not the one before, of a message that nobody has announced. Called by the
    /// receiver, who owns the words, when the transfer before is complete or retracted; it sends an RTR afterwards.
    pub fn ask(&self, generation: u32) {
        self.renew(generation, ASKED);
    }

    fn renew(&self, generation: u32, flags: u32) {
        // ORDER chunks/1: Relaxed. The RTS, or RTR, publishes it to the new other side, and for the one before any value of
        //   another generation only means that nothing is left to claim, or to use.
        self.claimed.store(word(generation, flags), order("chunks/1", Relaxed));
        // ORDER chunks/2: Release, pairs with chunks/4: the other side before may learn by this store that its message is
        //   complete. A receiver then finds in its buffer what the sender moved, and a sender's data are read no more.
        self.done.store(word(generation, 0), order("chunks/2", Release));
    }

    /// The sender uses the RTR `generation`. False: the receiver has retracted it. From then on both claim.
    pub fn use_rtr(&self, generation: u32) -> bool {
        self.advance(generation, |low| (low == ASKED).then_some((0, ()))).is_some()
    }

    /// The receiver takes its RTR back. False: the sender has used it. Afterwards the words are free for another transfer.
    pub fn retract(&self, generation: u32) -> bool {
        self.advance(generation, |low| (low == ASKED).then_some((ASKED | CLOSED, ()))).is_some()
    }

    /// Claims the next of the grains that nobody has claimed. `None`: nothing is left, or the receiver asks and the sender
    /// has withdrawn.
    ///
    /// Pieces get smaller towards the end, so that both sides finish together; none has less than `least` grains, for each
    /// costs something to begin.
    pub fn claim(&self, claim: Claim) -> Option<Grains> {
        let Claim { generation, grains, least, most, sender } = claim;
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

    /// Grains that nobody had claimed a moment ago.
    #[must_use]
    pub fn unclaimed(&self, generation: u32, grains: u32) -> u32 {
        let (found, low) = halves(self.claimed.load(Relaxed));
        if found == generation { grains.saturating_sub(low & COUNT) } else { 0 }
    }

    /// Claims all that is left, for nobody to move: the receiver's memory goes away. The caller says at once that they
    /// are done ([`Chunks::finish`]), so that the sender's count is complete.
    pub fn close(&self, generation: u32, grains: u32) -> Option<Grains> {
        self.advance(generation, |low| {
            let first = low & COUNT;
            let left = grains.checked_sub(first).filter(|left| *left > 0)?;
            Some((low + left, Grains { first, count: left }))
        })
    }

    /// Ends the receiver's right to claim: the sender's memory goes away. Returns how many grains had been claimed then;
    /// once so many are done, the receiver reads no more.
    pub fn withdraw(&self, generation: u32) -> u32 {
        self.bar(generation, WITHDRAWN)
    }

    /// Ends everybody's right to claim: the memory of a receiver goes away that does not know how much was to come. Returns
    /// how many grains had been claimed then; once so many are done, its memory is touched no more. The sender's count
    /// never becomes complete.
    pub fn abandon(&self, generation: u32) -> u32 {
        self.bar(generation, CLOSED)
    }

    /// Sets a flag, and returns how many grains were claimed before.
    fn bar(&self, generation: u32, flag: u32) -> u32 {
        self.advance(generation, |low| Some((low | flag, low & COUNT))).unwrap_or(0)
    }

    /// Says that `count` claimed grains are where they belong, or need not be.
    pub fn finish(&self, count: u32) {
        // ORDER chunks/3: Release, pairs with chunks/4: reading the sender's memory and writing the receiver's come before
        //   the count by which the other side learns that it has its memory back. Additions by either side continue the
        //   release sequence of the other's.
        self.done.fetch_add(u64::from(count), order("chunks/3", Release));
    }

    /// Number of grains that are done, `grains` when the transfer is over.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Length`] when more are done than there are.
    #[inline]
    pub fn done(&self, generation: u32, grains: u32) -> Result<u32, Corrupt> {
        // ORDER chunks/4: Acquire, pairs with chunks/3 and chunks/2.
        let (found, done) = halves(self.done.load(order("chunks/4", Acquire)));
        if found != generation {
            // The owner has begun another, which it does after the end of this.
            return Ok(grains);
        }
        if done > grains {
            return Err(Corrupt::Length { found: u64::from(done), max: u64::from(grains) });
        }
        Ok(done)
    }

    /// Replaces the count of a generation as `change` says, unless the generation has passed.
    fn advance<T>(
        &self,
        generation: u32,
        mut change: impl FnMut(u32) -> Option<(u32, T)>,
    ) -> Option<T> {
        // ORDER chunks/5: Relaxed. A stale count only makes the exchange fail and tell the new one.
        let mut current = self.claimed.load(order("chunks/5", Relaxed));
        loop {
            let (found, low) = halves(current);
            if found != generation {
                return None;
            }
            let (next, result) = change(low)?;
            // ORDER chunks/6: Relaxed / Relaxed. The word shares out grains by its atomicity alone. That the memory may be
            //   touched is known from the announcement (the sender's) and from grant/2 (the receiver's); that it is no
            //   longer touched, from chunks/4.
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

/// Who claims, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Generation of the transfer.
    pub generation: u32,
    /// Grains of the message, at most [`GRAINS_MAX`].
    pub grains: u32,
    /// Fewest grains worth a claim, at least 1.
    pub least: u32,
    /// Most grains that a claim takes.
    pub most: u32,
    /// Whether the sender asks.
    pub sender: bool,
}

/// A claim takes one part in so many of what is left.
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

    const CLAIM: Claim = Claim { generation: 7, grains: 100, least: 2, most: 20, sender: false };

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
        assert_eq!((chunks.unclaimed(7, 100), chunks.unclaimed(6, 100)), (100 - first.count, 0));
        let rest = chunks.close(7, 100).unwrap();
        assert_eq!((first.count + rest.count, chunks.unclaimed(7, 100)), (100, 0));
        assert_eq!(chunks.close(7, 100), None);
        assert_eq!(chunks.claim(Claim { sender: true, ..CLAIM }), None);
    }

    #[test]
    fn after_a_withdrawal_the_sender_alone_goes_on() {
        let chunks = begun();
        let first = chunks.claim(CLAIM).unwrap();
        assert_eq!(chunks.withdraw(7), first.count);
        assert_eq!(chunks.claim(CLAIM), None);
        let next = chunks.claim(Claim { sender: true, ..CLAIM }).unwrap();
        assert_eq!(next.first, first.count);
        assert!(chunks.close(7, 100).is_some(), "the receiver may still end it");
    }

    #[test]
    fn a_transfer_of_the_past_is_over() {
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
        assert_eq!(chunks.claim(CLAIM), None, "nobody knows the message yet");
        assert!(chunks.use_rtr(7) && !chunks.use_rtr(7) && !chunks.retract(7));
        assert!(chunks.claim(CLAIM).is_some());
        chunks.ask(8);
        assert!(!chunks.use_rtr(7), "an old one");
        assert!(chunks.retract(8) && !chunks.use_rtr(8));
    }

    #[test]
    fn nobody_claims_of_what_was_abandoned() {
        let chunks = Chunks::unused();
        chunks.ask(7);
        assert!(chunks.use_rtr(7));
        let first = chunks.claim(Claim { sender: true, ..CLAIM }).unwrap();
        assert_eq!(chunks.abandon(7), first.count);
        assert_eq!(chunks.claim(Claim { sender: true, ..CLAIM }), None);
        assert_eq!(chunks.claim(CLAIM), None);
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let chunks = begun();
        chunks.finish(101);
        assert_eq!(chunks.done(7, 100), Err(Corrupt::Length { found: 101, max: 100 }));
        let beyond = Chunks::unused();
        beyond.begin(7);
        beyond.close(7, GRAINS_MAX);
        assert_eq!(beyond.claim(CLAIM), None, "a counter beyond the end hands out nothing");
    }
}
