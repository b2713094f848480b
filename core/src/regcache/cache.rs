//! Decides which registrations are kept and which of them answer a request.
//!
//! Entries that can answer are sorted by address. None of them lies within another, so their ends
//! are sorted too. If any entry covers a request, the last one that begins no later than the
//! request does. To find an entry is a binary search; to add or evict one visits all entries.

use core::fmt;

use crate::hca::{Access, Region};
use crate::memory::{Memory, OutOfMemory, Table};

/// The limits of a cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheLimits {
    /// Largest number of registrations.
    pub entries: usize,
    /// Largest number of bytes registered. Registrations in use may exceed it.
    pub bytes: u64,
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheStats {
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests not answered from the cache.
    pub misses: u64,
    /// Registrations evicted for lack of room.
    pub evictions: u64,
    /// Registrations removed because their memory has changed.
    pub invalidations: u64,
}

#[derive(Clone, Copy, Debug)]
struct CachedRegion {
    region: Region,
    access: Access,
    /// Number of uses that have not ended.
    uses: u32,
    /// Time of the last request for it, in requests.
    used: u64,
    /// True if it may answer requests. An entry that may not exists until its uses end.
    fresh: bool,
}

/// The registrations that are kept. The caller registers and deregisters.
pub struct Cache<M: Memory> {
    /// Table of entries. The first `length` are valid: fresh ones sorted by address, then the
    /// others.
    entries: Table<CachedRegion, M>,
    length: usize,
    fresh: usize,
    bytes: u64,
    limits: CacheLimits,
    clock: u64,
    counts: CacheStats,
}

impl<M: Memory> Cache<M> {
    /// Creates an empty cache.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if `memory` does not hold as many entries as the limits say.
    pub fn new(memory: M, limits: CacheLimits) -> Result<Self, OutOfMemory> {
        let region = Region { base: 0, length: 0, local_key: 0, remote_key: 0 };
        let none =
            CachedRegion { region, access: Access::default(), uses: 0, used: 0, fresh: false };
        let entries = Table::new(memory, limits.entries, |_| none)?;
        let counts = CacheStats::default();
        Ok(Self { entries, length: 0, fresh: 0, bytes: 0, limits, clock: 0, counts })
    }

    /// Returns the registration that answers a request, if there is one. Its use ends with
    /// [`Cache::release`].
    pub fn find(&mut self, address: u64, length: u64, access: Access) -> Option<Region> {
        self.clock += 1;
        let behind = self.entries[..self.fresh].partition_point(|e| e.region.base <= address);
        // No fresh entry lies within another, so the entries end in the order in which they begin.
        // No entry before one that fails to cover the bytes covers them.
        let before = self.entries[..behind].iter_mut().rev();
        let mut covering = before.take_while(|entry| covers(&entry.region, address, length));
        let Some(entry) = covering.find(|entry| allows(&entry.access, &access)) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        entry.uses += 1;
        entry.used = self.clock;
        Some(entry.region)
    }

    /// Evicts a registration if one of `length` bytes has no room. The caller deregisters it, and
    /// repeats the call until it returns `None`.
    pub fn make_room(&mut self, length: u64) -> Option<Region> {
        let full = self.length == self.limits.entries
            || self.bytes.saturating_add(length) > self.limits.bytes;
        if full { self.evict() } else { None }
    }

    /// Evicts the idle registration with the oldest last request. Returns `None` if all are in use.
    pub fn evict(&mut self) -> Option<Region> {
        let idle = (0..self.fresh).filter(|at| self.entries[*at].uses == 0);
        let oldest = idle.min_by_key(|at| self.entries[*at].used)?;
        self.counts.evictions += 1;
        Some(self.remove(oldest))
    }

    /// Returns the rights for a new registration of these bytes: those asked for, and those of the
    /// registrations that it will supersede.
    #[must_use]
    pub fn rights(&self, address: u64, length: u64, asked: Access) -> Access {
        let entries = self.entries[..self.fresh].iter();
        let covering = entries.filter(|entry| covers(&entry.region, address, length));
        covering.fold(asked, |rights, entry| both(rights, entry.access))
    }

    /// Retires a registration that `region` replaces: one that lies within it, or that covers it
    /// with too few rights.
    ///
    /// Returns a retired registration that is idle, which the caller deregisters. The caller
    /// repeats the call until it returns `None`, and then calls [`Cache::insert`].
    pub fn superseded(&mut self, region: &Region, access: Access) -> Option<Region> {
        self.retire(|entry| {
            covers(region, entry.region.base, entry.region.length)
                || covers(&entry.region, region.base, region.length)
                    && !allows(&entry.access, &access)
        })
    }

    /// Adds a registration with one use. If there is no room, the registration is not kept after
    /// its use.
    pub fn insert(&mut self, region: Region, access: Access) {
        if self.length == self.limits.entries {
            return;
        }
        let at = self.entries[..self.fresh].partition_point(|e| e.region.base < region.base);
        self.entries.copy_within(at..self.length, at + 1);
        self.entries[at] = CachedRegion { region, access, uses: 1, used: self.clock, fresh: true };
        self.length += 1;
        self.fresh += 1;
        self.bytes += region.length;
    }

    /// Ends one use. Returns the registration if the caller must deregister it now.
    pub fn release(&mut self, region: &Region) -> Option<Region> {
        let mine = |entry: &CachedRegion| entry.region.local_key == region.local_key;
        let Some(at) = self.entries[..self.length].iter().position(mine) else {
            return Some(*region);
        };
        let entry = &mut self.entries[at];
        entry.uses = entry.uses.saturating_sub(1);
        let over = self.bytes > self.limits.bytes;
        let entry = self.entries[at];
        (entry.uses == 0 && (!entry.fresh || over)).then(|| self.remove(at))
    }

    /// Retires the registrations that have bytes in common with these.
    ///
    /// Returns a retired registration that is idle, which the caller deregisters. The caller
    /// repeats the call until it returns `None`.
    pub fn invalidate(&mut self, address: u64, length: u64) -> Option<Region> {
        let before = self.fresh;
        let end = address.saturating_add(length);
        let gone = self.retire(|CachedRegion { region, .. }| {
            region.base < end && address < region.base.saturating_add(region.length)
        });
        self.counts.invalidations += (before - self.fresh) as u64;
        gone
    }

    /// Returns the cache's counters.
    #[must_use]
    pub const fn counts(&self) -> CacheStats {
        self.counts
    }

    /// Retires the entries that `which` selects, so that they answer no more requests. Stops at the
    /// first idle one, removes and returns it.
    fn retire(&mut self, which: impl Fn(&CachedRegion) -> bool) -> Option<Region> {
        while let Some(at) = self.entries[..self.fresh].iter().position(&which) {
            if self.entries[at].uses == 0 {
                return Some(self.remove(at));
            }
            self.entries[at].fresh = false;
            self.entries[at..self.fresh].rotate_left(1);
            self.fresh -= 1;
        }
        None
    }

    fn remove(&mut self, at: usize) -> Region {
        let entry = self.entries[at];
        self.entries.copy_within(at + 1..self.length, at);
        self.length -= 1;
        self.fresh -= usize::from(entry.fresh);
        self.bytes -= entry.region.length;
        entry.region
    }
}

/// Returns true if `length` bytes at `address` lie within a region.
const fn covers(region: &Region, address: u64, length: u64) -> bool {
    region.base <= address
        && address.saturating_add(length) <= region.base.saturating_add(region.length)
}

/// Returns true if `allowed` includes all rights that are asked for.
const fn allows(allowed: &Access, asked: &Access) -> bool {
    (allowed.local_write || !asked.local_write)
        && (allowed.remote_read || !asked.remote_read)
        && (allowed.remote_write || !asked.remote_write)
        && (allowed.remote_atomic || !asked.remote_atomic)
}

/// Returns the union of both rights.
const fn both(a: Access, b: Access) -> Access {
    Access {
        local_write: a.local_write || b.local_write,
        remote_read: a.remote_read || b.remote_read,
        remote_write: a.remote_write || b.remote_write,
        remote_atomic: a.remote_atomic || b.remote_atomic,
    }
}

impl<M: Memory> fmt::Debug for Cache<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.entries[..self.length]).finish()
    }
}
