//! Compares the cache, in front of a device that records its registrations, with an oracle that
//! visits all entries.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::memory::counted::Counted;

/// A device that can only register.
#[derive(Debug, Default)]
struct Registrar {
    live: Vec<Region>,
    made: u32,
    /// Largest number of simultaneous registrations.
    most: usize,
}

const NONE: HcaError = HcaError::Device { code: 0 };

impl Hca for Registrar {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            inline: 0,
            pieces: 1,
            read_pieces: 1,
            reads: 1,
            depth: 1,
            receives: 0,
            message: 0,
            atomics: crate::hca::Atomics::None,
            immediate: false,
            acknowledged: true,
            ordered_bytes: false,
        }
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        _access: Access,
    ) -> Result<Region, HcaError> {
        if self.live.len() == self.most {
            return Err(HcaError::Memory { bytes: length as u64 });
        }
        self.made += 1;
        let (base, length) = (base.addr().get() as u64, length as u64);
        let region = Region { base, length, local_key: self.made, remote_key: self.made };
        self.live.push(region);
        Ok(region)
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        let before = self.live.len();
        self.live.retain(|live| *live != region);
        assert_eq!(self.live.len() + 1, before, "{region:?} was not registered");
        Ok(())
    }

    fn open(&mut self, _peer: u32) -> Result<(Connection, Address), HcaError> {
        Err(NONE)
    }

    fn connect(&mut self, _: Connection, _: &Address) -> Result<Readiness, HcaError> {
        Err(NONE)
    }

    fn close(&mut self, _: Connection) -> Result<(), HcaError> {
        Err(NONE)
    }

    unsafe fn post(&mut self, _: Connection, _: &WorkRequest<'_>) -> Result<(), PostError> {
        Err(PostError::Unsupported)
    }

    unsafe fn post_receive(&mut self, _: u64, _: Sge) -> Result<(), PostError> {
        Err(PostError::Unsupported)
    }

    fn poll(&mut self, _: &mut [Completion]) -> Result<usize, HcaError> {
        Ok(0)
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        Ok(())
    }
}

/// Reports of an embedder's hook.
#[derive(Debug, Default)]
struct Reports(Vec<(u64, u64)>);

impl MemoryWatch for Reports {
    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.pop()
    }
}

#[derive(Clone, Debug)]
enum Act {
    Register { address: u64, length: u64, write: bool, read: bool },
    Deregister { which: usize },
    Invalidate { address: u64, length: u64 },
    Report { address: u64, length: u64 },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let place = || (1..40_u64, 1..12_u64);
    let act = prop_oneof![
        4 => (place(), any::<bool>(), any::<bool>()).prop_map(|((address, length), write, read)| {
            Act::Register { address, length, write, read }
        }),
        3 => any::<usize>().prop_map(|which| Act::Deregister { which }),
        1 => place().prop_map(|(address, length)| Act::Invalidate { address, length }),
        1 => place().prop_map(|(address, length)| Act::Report { address, length }),
    ];
    prop::collection::vec(act, 1..80)
}

/// The oracle's record of a registration.
#[derive(Clone, Copy, Debug)]
struct Known {
    region: Region,
    access: Access,
    /// True if the cache had room for it.
    kept: bool,
    fresh: bool,
    used: usize,
}

fn overlap(region: &Region, address: u64, length: u64) -> bool {
    region.base < address + length && address < region.base + region.length
}

fn within(region: &Region, address: u64, length: u64) -> bool {
    region.base <= address && address + length <= region.base + region.length
}

fn covers_rights(have: Access, want: Access) -> bool {
    (have.local_write || !want.local_write) && (have.remote_read || !want.remote_read)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A registration that answers is registered, covers the request, and is newer than the last
    /// invalidation. A registration in use stays. Idle registrations keep to the limits, and the
    /// least recently used one goes first.
    #[test]
    fn the_cache_answers_as_the_oracle_would(
        acts in acts(),
        entries in 0..6_usize,
        bytes in 0..60_u64,
        most in 4..40_usize,
    ) {
        let mut failed = None;
        Counted::lend(|memory| {
            let device = Registrar { most, ..Registrar::default() };
            let limits = CacheLimits { entries, bytes };
            // SAFETY: the device touches no memory.
            let cached = unsafe { Cached::new(device, Reports::default(), memory, limits) };
            failed = Game { cached: cached.unwrap(), limits, known: Vec::new(), held: Vec::new() }
                .play(&acts)
                .err();
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
}

struct Game {
    cached: Cached<Registrar, Reports, Counted>,
    limits: CacheLimits,
    known: Vec<Known>,
    held: Vec<Region>,
}

impl Game {
    fn play(mut self, acts: &[Act]) -> Result<(), TestCaseError> {
        for (now, act) in acts.iter().enumerate() {
            match *act {
                Act::Register { address, length, write, read } => {
                    let access =
                        Access { local_write: write, remote_read: read, ..Access::LOCAL_READ };
                    self.register(now, address, length, access)?;
                }
                Act::Deregister { which } if !self.held.is_empty() => {
                    let region = self.held.remove(which % self.held.len());
                    self.cached.deregister(region).unwrap();
                }
                Act::Deregister { .. } => {}
                Act::Invalidate { address, length } => {
                    self.cached.invalidate(address, length).unwrap();
                    self.forget(address, length);
                }
                Act::Report { address, length } => {
                    self.cached.watch.0.push((address, length));
                }
            }
            self.check()?;
        }
        for region in core::mem::take(&mut self.held) {
            self.cached.deregister(region).unwrap();
        }
        self.cached.clear().unwrap();
        prop_assert!(self.cached.hca.live.is_empty(), "registrations leaked");
        Ok(())
    }

    fn register(
        &mut self,
        now: usize,
        address: u64,
        length: u64,
        access: Access,
    ) -> Result<(), TestCaseError> {
        for (address, length) in self.cached.watch.0.clone() {
            self.forget(address, length);
        }
        let live = self.live();
        let fresh = |known: &&mut Known| known.fresh && live.contains(&known.region);
        let candidates = self.known.iter_mut().filter(fresh);
        let covering: Vec<_> =
            candidates.filter(|known| within(&known.region, address, length)).collect();
        let rights = covering.iter().fold(access, |rights, known| Access {
            local_write: rights.local_write || known.access.local_write,
            remote_read: rights.remote_read || known.access.remote_read,
            ..rights
        });
        let answer = covering
            .into_iter()
            .filter(|known| covers_rights(known.access, access))
            .max_by_key(|known| known.region.base);
        let base = NonNull::without_provenance((address as usize).try_into().unwrap());
        // SAFETY: the device touches no memory.
        let got = unsafe { self.cached.register(base, length as usize, access) };
        let Ok(region) = got else {
            let all_in_use = live.iter().all(|live| self.held.contains(live));
            prop_assert!(answer.is_none() && all_in_use, "refused with an idle registration");
            return Ok(());
        };
        prop_assert!(within(&region, address, length));
        prop_assert!(self.cached.hca.live.contains(&region), "the region is not registered");
        if let Some(known) = answer {
            prop_assert_eq!(known.region, region, "not the cached region");
            known.used = now;
        } else {
            prop_assert!(!live.contains(&region), "answered from a region that does not fit");
            self.check_gone(&live, &region)?;
            self.supersede(&region, rights);
            let now_live = self.live();
            let kept = |known: &&Known| known.kept && now_live.contains(&known.region);
            let kept = self.known.iter().filter(kept).count() < self.limits.entries;
            self.known.push(Known { region, access: rights, kept, fresh: kept, used: now });
        }
        self.held.push(region);
        Ok(())
    }

    /// Checks that the evicted registrations were the least recently used idle ones.
    fn check_gone(&self, before: &[Region], new: &Region) -> Result<(), TestCaseError> {
        let now = self.live();
        let used = |region: &Region| {
            let fresh = |known: &&Known| known.fresh && known.region == *region;
            self.known.iter().find(fresh).map(|known| known.used)
        };
        let replaced = |region: &&Region| overlap(region, new.base, new.length);
        let gone = before.iter().filter(|region| !now.contains(region));
        let newest_gone = gone.filter(|region| !replaced(region)).filter_map(used).max();
        let idle = |region: &&Region| !self.held.contains(region) && *region != new;
        let oldest_kept = now.iter().filter(idle).filter_map(used).min();
        if let (Some(gone), Some(kept)) = (newest_gone, oldest_kept) {
            prop_assert!(gone <= kept, "one used at {gone} went, one used at {kept} stayed");
        }
        Ok(())
    }

    fn supersede(&mut self, region: &Region, access: Access) {
        for known in &mut self.known {
            let inside = within(region, known.region.base, known.region.length);
            let around = within(&known.region, region.base, region.length);
            if known.region != *region && (inside || around && !covers_rights(known.access, access))
            {
                known.fresh = false;
            }
        }
    }

    fn forget(&mut self, address: u64, length: u64) {
        let hit = |known: &&mut Known| overlap(&known.region, address, length);
        self.known.iter_mut().filter(hit).for_each(|known| known.fresh = false);
    }

    fn live(&self) -> Vec<Region> {
        self.cached.hca.live.clone()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let live = &self.cached.hca.live;
        for held in &self.held {
            prop_assert!(live.contains(held), "{:?} is in use and not registered", held);
        }
        let idle: Vec<_> = live.iter().filter(|region| !self.held.contains(region)).collect();
        let bytes: u64 = idle.iter().map(|region| region.length).sum();
        prop_assert!(idle.len() <= self.limits.entries && bytes <= self.limits.bytes);
        Ok(())
    }
}

#[test]
fn a_buffer_that_is_used_again_is_registered_once() {
    Counted::lend(|memory| {
        let device = Registrar { most: 9, ..Registrar::default() };
        let limits = CacheLimits { entries: 4, bytes: 1 << 20 };
        // SAFETY: the device touches no memory.
        let mut cached = unsafe { Cached::new(device, Unwatched, memory, limits) }.unwrap();
        let base = NonNull::without_provenance(4096.try_into().unwrap());
        for _ in 0..5 {
            // SAFETY: the device touches no memory.
            let region = unsafe { cached.register(base, 4096, Access::LOCAL) }.unwrap();
            cached.deregister(region).unwrap();
        }
        assert_eq!(cached.counts(), CacheStats { hits: 4, misses: 1, ..CacheStats::default() });
        // SAFETY: the device touches no memory.
        let in_use = unsafe { cached.register(base, 8, Access::LOCAL_READ) }.unwrap();
        cached.invalidate(4100, 1).unwrap();
        assert_eq!(cached.hca.live, [in_use], "a region in use stays registered");
        // SAFETY: the device touches no memory.
        let again = unsafe { cached.register(base, 8, Access::LOCAL_READ) }.unwrap();
        assert_ne!(again.local_key, in_use.local_key, "answered from an invalidated region");
        cached.deregister(in_use).unwrap();
        assert_eq!(cached.hca.live, [again]);
        assert_eq!(cached.counts().invalidations, 1);
    });
}
