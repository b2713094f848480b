//! A region that its owner opens to peers, and takes back while they may be in it.
//!
//! The owner revokes the key, and then waits for each device whose claim is on it. A device claims first, and then looks
//! whether the key is good. So either it finds the key revoked, or the owner finds its claim. Each device has one claim, which
//! is a word of its own: one that is killed leaves no count behind.
//!
//! All operations are wait-free. Who waits, and until when, is the embedder's.

use crate::hca::Access;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, fence, order};

/// Which region of which rank a device reaches into: the reason for that rank to wait before it gives the region back.
#[derive(Debug)]
#[repr(transparent)]
pub struct Claim(AtomicU64);

impl Claim {
    /// No claim, for models and tests: in a fabric, zeroed memory is already one.
    #[must_use]
    pub fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    const fn word(rank: u32, key: u32) -> u64 {
        ((rank as u64 + 1) << 32) | key as u64
    }

    /// Says that the region of `rank` with this remote key is about to be reached. Whether the key is good is asked
    /// *after* this.
    #[inline]
    pub fn set(&self, rank: u32, key: u32) {
        // ORDER region/1: Relaxed. region/2 puts it before the look at the key.
        self.0.store(Self::word(rank, key), order("region/1", Relaxed));
        // ORDER region/2: SeqCst, pairs with region/8: either we see the key revoked, or the owner sees our claim. Without it the
        //   owner takes memory back that we write to.
        fence(order("region/2", SeqCst));
    }

    /// Says that it is done.
    #[inline]
    pub fn clear(&self) {
        // ORDER region/3: Release, pairs with region/4: all that we did to the region comes before. Without it the owner has its
        //   memory back, and our last bytes land in it.
        self.0.store(0, order("region/3", Release));
    }

    /// True while the region of `rank` with this key may be in use. Asked after the key was revoked.
    #[must_use]
    pub fn is_on(&self, rank: u32, key: u32) -> bool {
        // ORDER region/4: Acquire, pairs with region/3. Without it the owner's next use of the memory comes before its end here.
        self.0.load(order("region/4", Acquire)) == Self::word(rank, key)
    }
}

/// One registered region. The key is zero while there is none.
///
/// | offset | size | field    | written by |
/// |-------:|-----:|----------|------------|
/// |      0 |    4 | `key`    | owner      |
/// |      4 |    4 | `access` | owner      |
/// |      8 |    8 | `base`   | owner      |
/// |     16 |    8 | `length` | owner      |
#[derive(Debug)]
#[repr(C)]
pub struct RegionEntry {
    key: AtomicU32,
    access: AtomicU32,
    base: AtomicU64,
    length: AtomicU64,
    _reserved: AtomicU64,
}

impl RegionEntry {
    /// No region, for models and tests: in a fabric, zeroed memory is already one.
    #[must_use]
    pub fn none() -> Self {
        Self {
            key: AtomicU32::new(0),
            access: AtomicU32::new(0),
            base: AtomicU64::new(0),
            length: AtomicU64::new(0),
            _reserved: AtomicU64::new(0),
        }
    }

    /// Opens the region to peers that have its key, which is not zero. The entry is one that nobody can have a claim on any
    /// more.
    pub fn publish(&self, key: u32, access: Access, base: u64, length: u64) {
        // ORDER region/5: Relaxed. region/6 publishes them.
        let relaxed = order("region/5", Relaxed);
        self.access.store(access_bits(access), relaxed);
        self.base.store(base, relaxed);
        self.length.store(length, relaxed);
        // ORDER region/6: Release, pairs with region/9: who finds the key finds what it opens. Without it a peer reaches past the
        //   region, or writes where it may only read.
        self.key.store(key, order("region/6", Release));
    }

    /// Shuts the region. Who still reaches into it says so in its claim.
    pub fn revoke(&self) {
        // ORDER region/7: Relaxed. region/8 puts it before the owner's look at the claims.
        self.key.store(0, order("region/7", Relaxed));
        // ORDER region/8: SeqCst, pairs with region/2.
        fence(order("region/8", SeqCst));
    }

    /// Access, base and length of the region with this key, if it is the entry's. Under a claim.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u32) -> Option<(Access, u64, u64)> {
        // ORDER region/9: Acquire, pairs with region/6.
        if key == 0 || self.key.load(order("region/9", Acquire)) != key {
            return None;
        }
        // ORDER region/10: Relaxed, after region/9. They stay as they are while the claim is on.
        let relaxed = order("region/10", Relaxed);
        let access = access_from(self.access.load(relaxed));
        Some((access, self.base.load(relaxed), self.length.load(relaxed)))
    }
}

const fn access_bits(access: Access) -> u32 {
    access.local_write as u32
        | (access.remote_read as u32) << 1
        | (access.remote_write as u32) << 2
        | (access.remote_atomic as u32) << 3
}

const fn access_from(bits: u32) -> Access {
    Access {
        local_write: bits & 1 != 0,
        remote_read: bits & 2 != 0,
        remote_write: bits & 4 != 0,
        remote_atomic: bits & 8 != 0,
    }
}
