//! Which registrations are kept, and which answer a request.
//!
//! Entries that can answer are sorted by address, and none of them lies within another, so their ends are sorted, too:
//! if any covers a request, the last one that begins no later does. Finding is a binary search; adding and giving up
//! look at all.

use core::fmt;

use crate::hca::{Access, Region};
use crate::memory::{Memory, OutOfMemory, Table};

/// How much a cache keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Registrations.
    pub entries: usize,
    /// Bytes registered. What is in use may exceed it.
    pub bytes: u64,
}

/// What a cache has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests that were not.
    pub misses: u64,
    /// Registrations given up for want of room.
    pub evictions: u64,
    /// Registrations given up because their memory is not what it was.
    pub invalidations: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    region: Region,
    access: Access,
    /// Uses that have not ended.
    uses: u32,
    /// When it was last asked for.
    used: u64,
    /// Whether it may answer. One that may not lives as long as it is in use.
    fresh: bool,
}

/// The registrations that are kept. The caller registers and deregisters.
pub struct Cache<M: Memory> {
    /// The first `length` are there: fresh ones by address, then the others.
    entries: Table<Entry, M>,
    length: usize,
    fresh: usize,
    bytes: u64,
    limits: Limits,
    clock: u64,
    counts: Counts,
}

impl<M: Memory> Cache<M> {
    /// An empty cache.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] for as many entries as the limits say.
    pub fn new(memory: M, limits: Limits) -> Result<Self, OutOfMemory> {
        let region = Region { base: 0, length: 0, local_key: 0, remote_key: 0 };
        let none = Entry { region, access: Access::default(), uses: 0, used: 0, fresh: false };
        let entries = Table::new(memory, limits.entries, |_| none)?;
        let counts = Counts::default();
        Ok(Self { entries, length: 0, fresh: 0, bytes: 0, limits, clock: 0, counts })
    }

    /// The registration that answers a request, if there is one. Its use ends with [`Cache::release`].
    pub fn find(&mut self, address: u64, length: u64, access: Access) -> Option<Region> {
        self.clock += 1;
        let behind = self.entries[..self.fresh].partition_point(|e| e.region.base <= address);
        // No fresh entry lies within another, so they end in the order in which they begin: before one that does not cover the
        // bytes there is none that does.
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

    /// A registration that has to go before one of `length` bytes is added. Called until there is none.
    pub fn make_room(&mut self, length: u64) -> Option<Region> {
        let full = self.length == self.limits.entries
            || self.bytes.saturating_add(length) > self.limits.bytes;
        if full { self.evict() } else { None }
    }

    /// Gives up the registration that was not in use for longest. `None`: all are in use.
    pub fn evict(&mut self) -> Option<Region> {
        let idle = (0..self.fresh).filter(|at| self.entries[*at].uses == 0);
        let oldest = idle.min_by_key(|at| self.entries[*at].used)?;
        self.counts.evictions += 1;
        Some(self.remove(oldest))
    }

    /// What to allow when these bytes are registered: what is asked, and what a registration allows that will be
    /// superseded.
    #[must_use]
    pub fn rights(&self, address: u64, length: u64, asked: Access) -> Access {
        let entries = self.entries[..self.fresh].iter();
        let covering = entries.filter(|entry| covers(&entry.region, address, length));
        covering.fold(asked, |rights, entry| both(rights, entry.access))
    }

    /// A registration that `region` takes the place of: one that lies within, or allows too little. Called until there
    /// is none, then [`Cache::insert`].
    pub fn superseded(&mut self, region: &Region, access: Access) -> Option<Region> {
        self.retire(|entry| {
            covers(region, entry.region.base, entry.region.length)
                || covers(&entry.region, region.base, region.length)
                    && !allows(&entry.access, &access)
        })
    }

    /// Adds a registration, in use once. One for which there is no room goes at the end of its use.
    pub fn insert(&mut self, region: Region, access: Access) {
        if self.length == self.limits.entries {
            return;
        }
        let at = self.entries[..self.fresh].partition_point(|e| e.region.base < region.base);
        self.entries.copy_within(at..self.length, at + 1);
        self.entries[at] = Entry { region, access, uses: 1, used: self.clock, fresh: true };
        self.length += 1;
        self.fresh += 1;
        self.bytes += region.length;
    }

    /// Ends one use. The registration, if it has to go now.
    pub fn release(&mut self, region: &Region) -> Option<Region> {
        let mine = |entry: &Entry| entry.region.local_key == region.local_key;
        let Some(at) = self.entries[..self.length].iter().position(mine) else {
            return Some(*region);
        };
        let entry = &mut self.entries[at];
        entry.uses = entry.uses.saturating_sub(1);
        let over = self.bytes > self.limits.bytes;
        let entry = self.entries[at];
        (entry.uses == 0 && (!entry.fresh || over)).then(|| self.remove(at))
    }

    /// Forgets a registration that has bytes in common with these. The registration, if it has to go now. Called until
    /// there is none.
    pub fn invalidate(&mut self, address: u64, length: u64) -> Option<Region> {
        let before = self.fresh;
        let end = address.saturating_add(length);
        let gone = self.retire(|Entry { region, .. }| {
            region.base < end && address < region.base.saturating_add(region.length)
        });
        self.counts.invalidations += (before - self.fresh) as u64;
        gone
    }

    /// What the cache has done.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Lets no entry that `which` names answer any more. One that is not in use, if there is one: it has to go.
    fn retire(&mut self, which: impl Fn(&Entry) -> bool) -> Option<Region> {
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

/// Whether `length` bytes at `address` lie within a region.
const fn covers(region: &Region, address: u64, length: u64) -> bool {
    region.base <= address
        && address.saturating_add(length) <= region.base.saturating_add(region.length)
}

/// Whether what is allowed is at least what is asked.
const fn allows(allowed: &Access, asked: &Access) -> bool {
    (allowed.local_write || !asked.local_write)
        && (allowed.remote_read || !asked.remote_read)
        && (allowed.remote_write || !asked.remote_write)
        && (allowed.remote_atomic || !asked.remote_atomic)
}

/// What either allows.
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
