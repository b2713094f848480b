//! The shared state of a host's software devices: regions that their owner takes back.

use strait_core::hca::Access;
use strait_core::hca::fabric::{RegionClaim, RegionEntry};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model_in_full, thread};

const OWNER: u32 = 0;
const KEY: u32 = 7;

/// An owner's region, and the claim of the device that accesses it.
struct Region {
    entry: RegionEntry,
    claim: RegionClaim,
    memory: UnsafeCell<u32>,
}

// SAFETY: the models check which thread may access the memory; loom sees each access.
unsafe impl Sync for Region {}

impl Region {
    fn new() -> Arc<Self> {
        let (entry, claim) = (RegionEntry::none(), RegionClaim::none());
        Arc::new(Self { entry, claim, memory: UnsafeCell::new(0) })
    }

    /// Writes into the region as a device does, if its key is valid. Returns what the key opened.
    fn reach(&self) -> Option<(Access, u64, u64)> {
        self.claim.set(OWNER, KEY);
        let opened = self.entry.get(KEY);
        if opened.is_some() {
            // SAFETY: the device has a claim, and the key was valid after the claim.
            self.memory.with_mut(|memory| unsafe { *memory += 1 });
        }
        self.claim.clear();
        opened
    }

    /// Uses the memory as its owner does after taking it back.
    fn take_back(&self) {
        // SAFETY: the key is revoked, and no claim is on it.
        self.memory.with_mut(|memory| unsafe { *memory += 1 });
    }
}

#[test]
fn a_key_leads_to_the_whole_region_that_it_opens() {
    model_in_full(|| {
        let region = Region::new();
        let device = {
            let region = Arc::clone(&region);
            thread::spawn(move || region.reach())
        };
        region.entry.publish(KEY, Access::LOCAL, 64, 8);
        let opened = device.join().unwrap();
        assert!(opened.is_none_or(|opened| opened == (Access::LOCAL, 64, 8)), "{opened:?}");
        assert_eq!(region.entry.get(KEY), Some((Access::LOCAL, 64, 8)));
    });
}

/// The owner takes its memory back and reuses the entry for another region, while a device accesses
/// it.
#[test]
fn no_device_is_in_a_region_that_was_taken_back() {
    model_in_full(|| {
        let region = Region::new();
        region.entry.publish(KEY, Access::ALL, 64, 8);
        let device = {
            let region = Arc::clone(&region);
            thread::spawn(move || region.reach())
        };
        region.entry.revoke();
        let mut looks = 0;
        while region.claim.is_on(OWNER, KEY) && looks < 2 {
            looks += 1;
            thread::yield_now();
        }
        if !region.claim.is_on(OWNER, KEY) {
            region.take_back();
            region.entry.publish(KEY + 1, Access::LOCAL, 128, 16);
        }
        let opened = device.join().unwrap();
        assert!(opened.is_none_or(|opened| opened == (Access::ALL, 64, 8)), "{opened:?}");
        assert!(!region.claim.is_on(OWNER, KEY));
    });
}
