//! The lock that survives its holder.

use strait_core::lock::RevocableLock;
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model, model_in_full, thread};

/// A word under a lock.
struct Locked {
    lock: RevocableLock,
    word: UnsafeCell<u32>,
}

// SAFETY: the word is accessed only under the lock.
unsafe impl Sync for Locked {}

impl Locked {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: RevocableLock::free(), word: UnsafeCell::new(0) })
    }

    /// Does what a device atomic does.
    fn add(&self) {
        // SAFETY: the caller holds the lock.
        self.word.with_mut(|word| unsafe { *word += 1 });
    }

    fn word(&self) -> u32 {
        // SAFETY: the other threads have been joined, or have given the lock to this one.
        self.word.with(|word| unsafe { *word })
    }
}

/// Adds once as `rank`, if it gets the lock within two polls.
fn add_as(locked: &Locked, rank: u32) -> bool {
    for _ in 0..2 {
        if locked.lock.try_acquire(rank).is_ok() {
            locked.add();
            locked.lock.release(rank);
            return true;
        }
        thread::yield_now();
    }
    false
}

#[test]
fn one_holds_the_lock_at_a_time() {
    model_in_full(|| {
        let locked = Locked::new();
        let other = {
            let locked = Arc::clone(&locked);
            thread::spawn(move || add_as(&locked, 1))
        };
        let added = u32::from(add_as(&locked, 0));
        let added = added + u32::from(other.join().unwrap());
        assert_eq!(locked.word(), added);
        assert_eq!(locked.lock.try_acquire(2), Ok(()));
    });
}

/// Rank 1 adds, rank 2 dies while it holds the lock, and rank 0 continues after rank 1.
#[test]
fn the_lock_of_the_dead_goes_on() {
    model(|| {
        let locked = Locked::new();
        let living = {
            let locked = Arc::clone(&locked);
            thread::spawn(move || add_as(&locked, 1))
        };
        let dead = {
            let locked = Arc::clone(&locked);
            thread::spawn(move || locked.lock.try_acquire(2).is_ok())
        };
        let mut added = 0;
        for _ in 0..2 {
            // The lock is taken only from the dead rank. The kernel's report of the death orders
            // nothing here.
            let ours = match locked.lock.try_acquire(0) {
                Ok(()) => true,
                Err(2) => locked.lock.take_over(2, 0),
                Err(_) => false,
            };
            if ours {
                locked.add();
                added += 1;
                locked.lock.release(0);
            }
            thread::yield_now();
        }
        added += u32::from(living.join().unwrap());
        dead.join().unwrap();
        assert_eq!(locked.word(), added);
    });
}

/// Two ranks find the holder dead, and one of them gets the lock.
#[test]
fn one_of_two_heirs_gets_the_lock() {
    model_in_full(|| {
        let locked = Locked::new();
        locked.lock.try_acquire(2).unwrap();
        let heirs = [0, 1].map(|rank| {
            let locked = Arc::clone(&locked);
            thread::spawn(move || locked.lock.take_over(2, rank))
        });
        let inherited = heirs.map(|heir| heir.join().unwrap());
        assert_ne!(inherited[0], inherited[1]);
        // A rank that was mistaken for dead does not release a lock that it no longer holds.
        locked.lock.release(2);
        assert_eq!(locked.lock.try_acquire(3), Err(u32::from(inherited[1])));
    });
}
