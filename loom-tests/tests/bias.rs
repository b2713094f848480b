//! Accumulates on a stripe: atomic instructions of members that are biased, and plain arithmetic
//! under the stripe's lock after the bias was revoked.

use strait_core::lock::RevocableLock;
use strait_core::rma::StripeBias;
use strait_core::sync::AtomicU64;
use strait_core::sync::Ordering::Relaxed;
use strait_loom_tests::{Arc, model, model_in_full, thread};

const STRIPE: u64 = 1;
const MEMBERS: usize = 3;

/// A number of a part, and the words that protect it.
struct Accumulated {
    revoked: AtomicU64,
    members: [AtomicU64; MEMBERS],
    lock: RevocableLock,
    number: AtomicU64,
}

impl Accumulated {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            revoked: AtomicU64::new(0),
            members: [(); MEMBERS].map(|()| AtomicU64::new(0)),
            lock: RevocableLock::free(),
            number: AtomicU64::new(0),
        })
    }

    fn bias(&self) -> StripeBias<'_> {
        StripeBias::new(&self.revoked, &self.members)
    }

    /// Adds 1 under the lock, if the member in `place` gets it within two polls. Returns what was
    /// added.
    fn add_locked(&self, place: u32) -> u64 {
        for _ in 0..2 {
            if self.lock.try_acquire(place).is_ok() {
                if self.bias().is_settled(STRIPE, |_| false) {
                    // Plain arithmetic. Nothing makes the two accesses one.
                    let before = self.number.load(Relaxed);
                    self.number.store(before + 1, Relaxed);
                } else {
                    self.number.fetch_add(1, Relaxed);
                }
                self.lock.release(place);
                return 1;
            }
            thread::yield_now();
        }
        0
    }

    /// Adds 1 as a member that is or becomes biased if it can. Returns the stripes to which it is
    /// biased, and what was added.
    fn add_one(&self, place: u32, own: u64) -> (u64, u64) {
        let bias = self.bias();
        let own = if own & STRIPE != 0 && !bias.is_revoked(STRIPE) {
            own
        } else {
            bias.acquire(place, own, STRIPE)
        };
        if own & STRIPE == 0 {
            return (own, self.add_locked(place));
        }
        self.number.fetch_add(1, Relaxed);
        (own, 1)
    }

    /// Adds 1 as a long accumulate does.
    fn add_long(&self, place: u32) -> u64 {
        assert_eq!(self.bias().revoke(place, 0, STRIPE), 0);
        self.add_locked(place)
    }
}

/// No addition is lost, whether the biased member adds before, during or after the revocation.
#[test]
fn a_revoked_member_loses_no_addition() {
    model_in_full(|| {
        let at = Accumulated::new();
        let single = {
            let at = Arc::clone(&at);
            thread::spawn(move || {
                let (own, added) = at.add_one(1, 0);
                let left = at.bias().give_up(1, own);
                assert!(left == own || left == 0);
                added
            })
        };
        let added = at.add_long(0);
        let added = added + single.join().unwrap();
        assert_eq!(at.number.load(Relaxed), added);
    });
}

/// A member that is biased already finds out at its next addition.
#[test]
fn a_member_that_goes_on_takes_the_lock() {
    model(|| {
        let at = Accumulated::new();
        let single = {
            let at = Arc::clone(&at);
            thread::spawn(move || {
                let (own, first) = at.add_one(1, 0);
                let (_, second) = at.add_one(1, own);
                first + second
            })
        };
        let added = at.add_long(0) + at.add_long(0);
        let added = added + single.join().unwrap();
        assert_eq!(at.number.load(Relaxed), added);
    });
}

/// Two members that revoke, and one that becomes biased.
#[test]
fn two_that_revoke_and_a_biased_member_add_up() {
    model(|| {
        let at = Accumulated::new();
        let others = [1, 2].map(|place| {
            let at = Arc::clone(&at);
            thread::spawn(move || if place == 1 { at.add_one(1, 0).1 } else { at.add_long(place) })
        });
        let added = at.add_long(0);
        let added = added + others.map(|other| other.join().unwrap()).iter().sum::<u64>();
        assert_eq!(at.number.load(Relaxed), added);
    });
}
