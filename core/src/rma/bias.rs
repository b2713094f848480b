//! Which accumulates on a stripe take its lock.
//!
//! A processor's atomic instruction on each number needs no lock. It is the fastest way for a few
//! numbers, but a long accumulate takes eight times as long by atomic instructions as by plain
//! arithmetic on vectors. Plain arithmetic needs the stripe for itself. So each stripe begins
//! *biased* towards atomic instructions, and the first long accumulate revokes that for good:
//!
//! 1. A member that changes numbers by atomic instructions without the lock first records that it
//!    is biased. It records this once for each stripe.
//! 2. A member with a long accumulate *revokes* the stripe. From then on all members take the lock
//!    of the stripe for each accumulate. A biased member finds that out at its next accumulate, and
//!    takes its record back.
//! 3. The stripe is *settled* when no member is biased any more. Then the holder of the lock may
//!    use plain arithmetic. Until then the holder, too, uses atomic instructions.
//!
//! No member waits for another to take its record back. A member that never accumulates again only
//! keeps the stripe from being settled, until its window calls or its death settle it.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU64, fence, order};

use super::{STRIPE, STRIPES};

/// The words of one part. Zeroed memory is the initial state: no member is biased, and no stripe
/// is revoked.
#[derive(Clone, Copy, Debug)]
pub struct StripeBias<'a> {
    /// Bit s: stripe s is revoked. Bit `STRIPES` + s: stripe s is settled.
    revoked: &'a AtomicU64,
    /// By place: the stripes to which that member is biased, one bit each. Only that member writes
    /// the word.
    members: &'a [AtomicU64],
}

impl<'a> StripeBias<'a> {
    /// Describes the words of one part, of which there is one for each member.
    #[inline(always)]
    #[must_use]
    pub const fn new(revoked: &'a AtomicU64, members: &'a [AtomicU64]) -> Self {
        Self { revoked, members }
    }

    /// Returns the bit of the stripe of the byte at `offset` of the part.
    #[inline(always)]
    #[must_use]
    pub const fn stripe(offset: usize) -> u64 {
        1 << (offset / STRIPE % STRIPES)
    }

    /// Returns whether any of `stripes` is revoked.
    #[inline(always)]
    #[must_use]
    pub fn is_revoked(&self, stripes: u64) -> bool {
        self.revoked.load(Relaxed) & stripes != 0
    }

    /// Makes the member in `place`, which is biased to the stripes `own`, biased to `stripe` too.
    /// Returns the stripes to which it then is biased. They lack `stripe` if that is revoked.
    #[must_use]
    pub fn acquire(&self, place: u32, own: u64, stripe: u64) -> u64 {
        if self.is_revoked(stripe) {
            return self.give_up(place, own);
        }
        self.record(place, own | stripe);
        // ORDER bias/1: SeqCst, pairs with bias/2: either we see that the stripe is revoked, or the
        //   member that revoked it sees that we are biased.
        fence(order("bias/1", SeqCst));
        self.give_up(place, own | stripe)
    }

    /// Takes back the record of the member in `place` for all stripes of `own` that are revoked.
    /// Returns the stripes to which it still is biased.
    #[must_use]
    pub fn give_up(&self, place: u32, own: u64) -> u64 {
        let left = own & !self.revoked.load(Relaxed);
        if left != own {
            self.record(place, left);
        }
        left
    }

    fn record(&self, place: u32, stripes: u64) {
        if let Some(word) = self.members.get(place as usize) {
            // ORDER bias/3: Release, pairs with bias/4: our atomic instructions come before the
            //   plain arithmetic of others.
            word.store(stripes, order("bias/3", Release));
        }
    }

    /// Revokes `stripe` for all members. The member in `place` is biased to `own`. Returns the
    /// stripes to which it then is biased.
    #[must_use]
    pub fn revoke(&self, place: u32, own: u64, stripe: u64) -> u64 {
        self.set(stripe);
        self.give_up(place, own)
    }

    /// Sets bits of the word that all members write.
    fn set(&self, bits: u64) {
        let mut found = self.revoked.load(Relaxed);
        while found & bits != bits
            && let Err(now) = self.revoked.compare_exchange(found, found | bits, Relaxed, Relaxed)
        {
            found = now;
        }
    }

    /// Returns whether `stripe` is known to be settled. Only the holder of its lock calls this: the
    /// order of the holders is sufficient for this bit.
    #[inline(always)]
    #[must_use]
    pub fn is_known_settled(&self, stripe: u64) -> bool {
        self.is_revoked(stripe << STRIPES)
    }

    /// Returns whether the holder of the lock of `stripe` may use plain arithmetic. Only the holder
    /// calls this, for a stripe that it has found revoked.
    ///
    /// `is_gone` returns whether the member in a place has ended, so that it uses no instructions
    /// any more.
    #[must_use]
    pub fn is_settled(&self, stripe: u64, mut is_gone: impl FnMut(u32) -> bool) -> bool {
        if self.is_known_settled(stripe) {
            return true;
        }
        // ORDER bias/2: SeqCst, pairs with bias/1: the other end.
        fence(order("bias/2", SeqCst));
        let is_biased = |(place, word): (usize, &AtomicU64)| {
            // ORDER bias/4: Acquire, pairs with bias/3: the member's atomic instructions come
            //   before our plain arithmetic.
            word.load(order("bias/4", Acquire)) & stripe != 0 && !is_gone(place as u32)
        };
        if self.members.iter().enumerate().any(is_biased) {
            return false;
        }
        self.set(stripe << STRIPES);
        true
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    const NEVER: fn(u32) -> bool = |_| false;

    #[test]
    fn a_stripe_is_settled_when_no_member_is_biased_any_more() {
        let (revoked, members) = (AtomicU64::new(0), [0; 3].map(AtomicU64::new));
        let bias = StripeBias::new(&revoked, &members);
        let (first, second) = (StripeBias::stripe(5), StripeBias::stripe(STRIPE));
        let of_0 = bias.acquire(0, 0, first);
        let of_1 = bias.acquire(1, bias.acquire(1, 0, second), first);
        assert_eq!((of_0, of_1), (first, first | second));
        assert_eq!(bias.revoke(0, of_0, first), 0, "a member gives up its own bias at once");
        assert!(!bias.is_settled(first, NEVER), "member 1 is biased");
        assert!(bias.is_revoked(first) && !bias.is_revoked(second));
        assert_eq!(bias.acquire(2, 0, first), 0, "no member becomes biased any more");
        assert_eq!(bias.give_up(1, of_1), second);
        assert!(bias.is_settled(first, NEVER));
        assert!(bias.is_settled(first, NEVER), "a stripe stays settled");
        assert_eq!(bias.acquire(2, 0, second), second, "other stripes are not concerned");
    }

    #[test]
    fn a_member_that_has_ended_keeps_no_stripe_from_being_settled() {
        let (revoked, members) = (AtomicU64::new(0), [0; 2].map(AtomicU64::new));
        let (bias, stripe) = (StripeBias::new(&revoked, &members), StripeBias::stripe(0));
        assert_eq!(bias.acquire(1, 0, stripe), stripe);
        assert_eq!(bias.revoke(0, 0, stripe), 0);
        assert!(!bias.is_settled(stripe, NEVER));
        assert!(bias.is_settled(stripe, |place| place == 1));
    }

    #[test]
    fn stripes_repeat_after_the_last_one() {
        assert_eq!(StripeBias::stripe(0), 1);
        assert_eq!(StripeBias::stripe(STRIPE - 1), 1);
        assert_eq!(StripeBias::stripe(STRIPE * (STRIPES - 1)), 1 << (STRIPES - 1));
        assert_eq!(StripeBias::stripe(STRIPE * STRIPES), 1);
    }
}
