//! A region that its owner opens to peers, and takes back while they may be accessing it.
//!
//! The owner revokes the key, and then waits for each device with a claim on the region. A device
//! first sets its claim, and then checks the key. Therefore either the device finds the key
//! revoked, or the owner finds the claim. Each device has one claim in a word of its own, so a
//! device that is killed leaves no count behind.
//!
//! All operations are wait-free. The embedder does the waiting and decides how long it takes.

use crate::hca::Access;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, fence, order};

/// The region that a device accesses. Its owner waits for the claim before it reuses the region.
#[derive(Debug)]
#[repr(transparent)]
pub struct RegionClaim(AtomicU64);

impl RegionClaim {
    /// Creates an empty claim, for models and tests. In a fabric, zeroed memory is an empty claim.
    #[must_use]
    pub fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    const fn word(rank: u32, key: u32) -> u64 {
        ((rank as u64 + 1) << 32) | key as u64
    }

    /// Records that this device is about to access the region of `rank` with this remote key. The
    /// caller checks the key *after* this call.
    #[inline]
    pub fn set(&self, rank: u32, key: u32) {
        // ORDER region/1: Relaxed. region/2 orders it before the check of the key.
        self.0.store(Self::word(rank, key), order("region/1", Relaxed));
        // ORDER region/2: SeqCst, pairs with region/8: either we see the key revoked, or the owner
        // sees our claim.
        // Without it the owner reuses memory that we still write to.
        fence(order("region/2", SeqCst));
    }

    /// Records that the access is complete.
    #[inline]
    pub fn clear(&self) {
        // ORDER region/3: Release, pairs with region/4: all our accesses to the region come before.
        // Without it the owner reuses its memory while our last bytes still arrive in it.
        self.0.store(0, order("region/3", Release));
    }

    /// Returns true while this device may access the region of `rank` with this key. The caller has
    /// revoked the key before.
    #[must_use]
    pub fn is_on(&self, rank: u32, key: u32) -> bool {
        // ORDER region/4: Acquire, pairs with region/3. Without it the owner's next use of the
        // memory precedes the end of our accesses.
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
    /// Creates an entry without a region, for models and tests. In a fabric, zeroed memory is such
    /// an entry.
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

    /// Opens the region to peers that have its key, which is not zero. No device can have a claim
    /// on the entry's previous region any more.
    pub fn publish(&self, key: u32, access: Access, base: u64, length: u64) {
        // ORDER region/5: Relaxed. region/6 publishes the values.
        let relaxed = order("region/5", Relaxed);
        self.access.store(access_bits(access), relaxed);
        self.base.store(base, relaxed);
        self.length.store(length, relaxed);
        // ORDER region/6: Release, pairs with region/9: a device that finds the key finds the
        // region's values.
        // Without it a peer exceeds the region, or writes where it may only read.
        self.key.store(key, order("region/6", Release));
    }

    /// Closes the region. The claim of a device shows whether the device still accesses it.
    pub fn revoke(&self) {
        // ORDER region/7: Relaxed. region/8 orders it before the owner's check of the claims.
        self.key.store(0, order("region/7", Relaxed));
        // ORDER region/8: SeqCst, pairs with region/2.
        fence(order("region/8", SeqCst));
    }

    /// Returns access, base and length of the region if the entry has this key. The caller holds a
    /// claim.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u32) -> Option<(Access, u64, u64)> {
        // ORDER region/9: Acquire, pairs with region/6.
        if key == 0 || self.key.load(order("region/9", Acquire)) != key {
            return None;
        }
        // ORDER region/10: Relaxed, after region/9. The values do not change while the claim is
        // set.
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
