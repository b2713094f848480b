//! The table of the process's open worlds, by handle, and the steps from a call's handle to its
//! world.
//!
//! The table lies in a page that a child of `fork` finds zeroed. So the parent's handles name
//! nothing in the child, which shares the parent's memory with the job and must not touch it.
//!
//! Null leads to the first slot, which lies in the preceding page and holds a value that is no
//! handle. So null needs no comparison of its own.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use shim::raw::{HandleSlot, SlotTable};

use crate::border::{HandleArg, HandlePlaceArg, no_place};
use crate::failure::{Called, Code, Failure};
use crate::handle::{self, Handle, HandleKind, INDEX_SHIFT, SERIAL_SHIFT, SLOT_SHIFT, WORLDS, bad};
use crate::instance::Instance;

/// Size of a page in bytes, or of a part of a page where pages are larger.
const PAGE: usize = 4096;

/// One world of the process.
type WorldSlot = HandleSlot<Instance>;

/// The value of the first slot's `handle`.
const NO_HANDLE: u64 = u64::MAX;

/// The table before the first world opens.
static NONE: [WorldSlot; WORLDS] = {
    let mut slots = [const { WorldSlot::without_object(0) }; WORLDS];
    slots[0] = WorldSlot::without_object(NO_HANDLE);
    slots
};

static TABLE: SlotTable<Instance> = SlotTable::new((&raw const NONE).cast_mut().cast());

/// Number of worlds opened so far. A child of `fork` continues the count, so none of its handles
/// equals one of its parent's.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Returns a number that differs between copies of this library in one process. It is the load
/// address, mixed so that every bit of the address affects every bit of the result.
fn copy_number() -> u64 {
    let page = (&raw const OPENED).addr() / PAGE;
    (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a serial that no other world has, in this copy of the library or another. The low bits,
/// which other handles contain, are unique as well.
fn next_serial() -> u64 {
    (copy_number() >> INDEX_SHIFT) + OPENED.fetch_add(1, Relaxed)
}

/// A lock that a thread holds while it opens or closes a world.
static LOCK: Mutex<()> = Mutex::new(());

/// The instance of an open world, as the table has it.
struct OpenInstance(NonNull<Instance>);

fn slots() -> &'static [WorldSlot; WORLDS] {
    // SAFETY: the pointer leads to `NONE`, or to as many slots that stay mapped until the process
    // ends. All-zero bytes are a valid slot.
    unsafe { &*TABLE.get().cast() }
}

/// Returns the instance in the slot that a handle of any kind names. Does not check the handle.
#[inline(always)]
fn instance_at(handle: Handle) -> Option<OpenInstance> {
    slots()[handle.slot()].object().map(OpenInstance)
}

/// Returns the world of `handle`, if it is the handle of an open world.
#[inline(always)]
fn find(handle: Handle) -> Option<OpenInstance> {
    // SAFETY: only the thread that uses a world closes it, and no handle equals that of the first
    // slot.
    unsafe { slots()[handle.slot()].find(handle.0) }.map(OpenInstance)
}

/// Returns whether `handle` is the handle of an open world.
pub(crate) fn is_open(handle: Handle) -> bool {
    find(handle).is_some()
}

/// Returns the open world in which a handle of any kind was made, for its log.
fn logger(handle: Handle) -> Option<OpenInstance> {
    let world = slots()[handle.slot()].handle();
    let is_its_own = world == handle.0
        || world >> INDEX_SHIFT << SERIAL_SHIFT == handle.0 >> SERIAL_SHIFT << SERIAL_SHIFT;
    if world != 0 && is_its_own { instance_at(handle) } else { None }
}

/// Opens a world. Its handle is valid from now on.
pub(crate) fn open(make: impl FnOnce(Handle) -> Instance) -> Called<Handle> {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    prepare()?;
    // Copies also begin at different slots: then the other copy's handles lead to no world here.
    let begin = (copy_number() >> 56) as usize;
    let mut order = (0..WORLDS).map(|place| (begin + place) % WORLDS);
    let free = order.find(|place| slots()[*place].is_free());
    let Some(free) = free else {
        let text = format!("{} worlds are open in this process: finalize some", WORLDS - 1);
        return Err(Failure::new(Code::Busy, text));
    };
    let serial = next_serial();
    let handle =
        Handle(serial << INDEX_SHIFT | (free as u64) << SLOT_SHIFT | HandleKind::World as u64);
    let instance = Box::into_raw(Box::new(make(handle)));
    slots()[free].open(handle.0, instance);
    Ok(handle)
}

/// Maps the table, and maps it anew in a child of `fork`.
fn prepare() -> Called {
    if !handle::record_process() {
        // The kernel has emptied the table of a child.
        return Ok(());
    }
    let mapped = map().map_err(|error| {
        handle::forget_process();
        Failure::new(Code::System, format!("no memory for the table of worlds: {error}"))
    })?;
    TABLE.replace(mapped);
    Ok(())
}

/// Maps a table without worlds. A child of `fork` finds all slots but the first zeroed.
fn map() -> Result<*mut WorldSlot, Errno> {
    const { assert!((WORLDS - 1) * size_of::<WorldSlot>() <= PAGE) };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is new and unshared; the advised range and the slots lie in it.
    unsafe {
        let pages = mmap_anonymous(null_mut(), 2 * PAGE, access, MapFlags::PRIVATE)?;
        madvise(pages.byte_add(PAGE), PAGE, Advice::LinuxWipeOnFork)?;
        let table = pages.byte_add(PAGE).cast::<WorldSlot>().sub(1);
        (*table).reserve(NO_HANDLE);
        Ok(table)
    }
}

/// Closes a world. No handle leads to it any more.
///
/// # Safety
///
/// No other thread uses the world, and no reference to it is used afterwards.
unsafe fn close(handle: Handle) -> Called<Box<Instance>> {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(instance) = slots()[handle.slot()].close(handle.0) else {
        return Err(bad(handle, HandleKind::World));
    };
    // SAFETY: `open` put a box there, and nothing refers to it any more (contract of `close`).
    Ok(unsafe { Box::from_raw(instance.as_ptr()) })
}

impl<'call> HandleArg<'call> {
    /// Returns the handle of a world that the current call has looked up.
    pub(crate) const fn of(instance: &'call Instance) -> Self {
        // SAFETY: the call looked the world up by a handle for which the invariant holds.
        unsafe { Self::of_call(instance.handle()) }
    }

    /// Lends an instance that the table has for this handle.
    #[inline(always)]
    fn lend(self, OpenInstance(instance): OpenInstance) -> &'call Instance {
        // SAFETY: the instance of an open world exists, and only this thread uses it (invariant).
        unsafe { instance.as_ref() }
    }

    /// Returns the world if this is the handle of an open world.
    #[inline(always)]
    pub(crate) fn find(self) -> Option<&'call Instance> {
        find(self.handle()).map(|instance| self.lend(instance))
    }

    /// Returns the world that this handle names.
    #[inline(always)]
    pub(crate) fn world(self) -> Called<&'call Instance> {
        self.find().ok_or_else(|| bad(self.handle(), HandleKind::World))
    }

    /// Returns the world to which the handle's request, message, window or connection belongs.
    #[inline(always)]
    pub(crate) fn world_of(self, kind: HandleKind) -> Called<&'call Instance> {
        match instance_at(self.handle()) {
            Some(instance) => Ok(self.lend(instance)),
            None => Err(bad(self.handle(), kind)),
        }
    }

    /// Returns the world in the slot that the handle names, which may be another world than its
    /// own.
    #[inline(always)]
    pub(crate) fn world_if_any(self) -> Option<&'call Instance> {
        instance_at(self.handle()).map(|instance| self.lend(instance))
    }

    /// Passes this thread's last failure to the log of the handle's world, if it has a log.
    pub(crate) fn log(self) {
        if let Some(instance) = logger(self.handle()) {
            self.lend(instance).options().log();
        }
    }

    /// Closes the world. The handle is invalid afterwards.
    ///
    /// # Safety
    ///
    /// The caller no longer uses any reference to the world that this call's handles returned.
    pub(crate) unsafe fn close(self) -> Called<Box<Instance>> {
        // SAFETY: only this thread uses the world (invariant), and it holds no reference (contract
        // of `close`).
        unsafe { close(self.handle()) }
    }
}

impl<'call> HandlePlaceArg<'call> {
    /// Returns the stored handle and the world to which it belongs.
    #[inline]
    pub(crate) fn open(self, kind: HandleKind) -> Called<(Handle, &'call Instance)> {
        let Some(argument) = self.stored() else { return Err(no_place()) };
        Ok((argument.handle(), argument.world_of(kind)?))
    }
}
