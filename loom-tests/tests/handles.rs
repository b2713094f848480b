//! The slots through which handles of the C interface lead to worlds.

use core::ptr::from_ref;

use strait_core::handles::{HandleSlot, SlotTable};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model_in_full, thread};

const HANDLE: u64 = 9;

/// A world that one thread makes and opens, while another looks for it.
struct Shared {
    slot: HandleSlot<UnsafeCell<u32>>,
    world: UnsafeCell<u32>,
}

// SAFETY: the models check which thread may access the world; loom sees each access.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { slot: HandleSlot::without_object(0), world: UnsafeCell::new(0) })
    }

    fn open(&self) {
        // SAFETY: no thread knows the world yet.
        self.world.with_mut(|world| unsafe { *world = 7 });
        self.slot.open(HANDLE, from_ref(&self.world).cast_mut());
    }
}

/// Reads a world that was found.
fn read(world: core::ptr::NonNull<UnsafeCell<u32>>) -> u32 {
    // SAFETY: the world outlives the model's threads, and no thread writes it any more.
    unsafe { world.as_ref() }.with(|world| unsafe { *world })
}

#[test]
fn a_handle_leads_to_a_whole_world() {
    model_in_full(|| {
        let shared = Shared::new();
        let opener = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.open())
        };
        // SAFETY: no thread closes the world, and the slot began without a handle.
        let found = unsafe { shared.slot.find(HANDLE) };
        assert!(found.is_none_or(|world| read(world) == 7));
        opener.join().unwrap();
        // SAFETY: the same.
        assert_eq!(unsafe { shared.slot.find(HANDLE) }.map(read), Some(7));
        // SAFETY: the same.
        assert_eq!(unsafe { shared.slot.find(HANDLE + 1) }, None);
        assert!(shared.slot.close(HANDLE + 1).is_none() && shared.slot.close(HANDLE).is_some());
        assert!(shared.slot.is_free() && shared.slot.object().is_none());
    });
}

/// The handle of a window leads to its world by the slot alone.
#[test]
fn a_slot_in_use_has_a_whole_world() {
    model_in_full(|| {
        let shared = Shared::new();
        let opener = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.open())
        };
        assert!(shared.slot.object().is_none_or(|world| read(world) == 7));
        opener.join().unwrap();
        assert_eq!(shared.slot.object().map(read), Some(7));
    });
}

/// The table is made with the first world, while another thread looks up a handle.
#[test]
fn a_table_has_its_slots() {
    model_in_full(|| {
        let slots = Arc::new([0, 0].map(|_| HandleSlot::<u32>::without_object(0)));
        let place = |at: usize| from_ref(&slots[at]).cast_mut();
        let table = Arc::new(SlotTable::new(place(0)));
        let maker = {
            let (table, slots) = (Arc::clone(&table), Arc::clone(&slots));
            thread::spawn(move || {
                slots[1].reserve(HANDLE);
                table.replace(from_ref(&slots[1]).cast_mut());
            })
        };
        let found = table.get();
        // SAFETY: both slots outlive the model's threads.
        let handle = unsafe { &*found }.handle();
        assert_eq!(handle, if found == place(1) { HANDLE } else { 0 });
        maker.join().unwrap();
    });
}
