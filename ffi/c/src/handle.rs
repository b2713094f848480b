//! Handles: numbers that name a world, a request, a matched message or a window in C.
//!
//! A handle has the type of a pointer, so that compilers tell kinds apart; no code dereferences it.
//! Each use checks it.
//!
//! ```text
//! bit   63 … 52      51 … 32    31 … 12    11 … 4    3 … 0
//! world   serial of the world ………………………   slot      1
//! other serial, low  generation  index      slot      kind
//! ```
//!
//! The tables store with each entry the whole handle that leads to it. So one comparison tells a
//! valid handle from a null handle, one of another kind, one that was closed, and any other number.
//!
//! The table of worlds lies in a page that a child of `fork` finds zeroed. So the parent's handles
//! name nothing in the child, which shares the parent's memory with the job and must not touch it.
//!
//! Null leads to the first slot, which lies in the preceding page and holds a value that is no
//! handle. So null needs no comparison of its own.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use crate::failure::{Code, Failure};
use crate::instance::Instance;

/// Number of slots for worlds in a process. The first stays empty, since null leads to it.
const WORLDS: usize = 256;

/// Size of a page in bytes, or of a part of a page where pages are larger.
const PAGE: usize = 4096;

/// Maximum number of entries of one kind in a world at a time.
pub(crate) const ENTRIES: usize = 1 << 20;

pub(crate) const SLOT_SHIFT: u32 = 4;
pub(crate) const INDEX_SHIFT: u32 = 12;
pub(crate) const GENERATION_SHIFT: u32 = 32;
pub(crate) const SERIAL_SHIFT: u32 = 52;

/// The kind of object that a handle names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HandleKind {
    World = 1,
    Request = 2,
    Window = 3,
    Connection = 4,
    Message = 5,
}

impl HandleKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::World => "strait_world",
            Self::Request => "strait_request",
            Self::Window => "strait_window",
            Self::Connection => "strait_vc",
            Self::Message => "strait_message",
        }
    }
}

/// A handle as a number. [`crate::border::HandleArg`] is a handle that a call of C passes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    /// The null handle: `NULL` in C.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn slot(self) -> usize {
        (self.0 >> SLOT_SHIFT) as usize % WORLDS
    }

    pub(crate) const fn index(self) -> usize {
        (self.0 >> INDEX_SHIFT) as usize % ENTRIES
    }
}

/// One world of the process. A zeroed slot holds no world.
#[derive(Debug)]
#[repr(C)]
struct WorldSlot {
    handle: AtomicU64,
    instance: AtomicPtr<Instance>,
}

/// The value of the first slot's `handle`.
const NO_HANDLE: u64 = u64::MAX;

/// The table before the first world opens.
static NONE: [WorldSlot; WORLDS] = {
    let mut slots =
        [const { WorldSlot { handle: AtomicU64::new(0), instance: AtomicPtr::new(null_mut()) } };
            WORLDS];
    slots[0].handle = AtomicU64::new(NO_HANDLE);
    slots
};

static TABLE: AtomicPtr<WorldSlot> = AtomicPtr::new((&raw const NONE).cast_mut().cast());

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

/// The process that opened worlds last.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A lock that a thread holds while it opens or closes a world.
static LOCK: Mutex<()> = Mutex::new(());

fn slots() -> &'static [WorldSlot; WORLDS] {
    // SAFETY: the pointer leads to `NONE`, or to as many slots that stay mapped until the process
    // ends. All-zero bytes are a valid slot.
    unsafe { &*TABLE.load(Acquire).cast() }
}

/// Returns the instance in the slot that a handle of any kind names. Does not check the handle.
#[inline(always)]
pub(crate) fn instance_at(handle: Handle) -> Option<NonNull<Instance>> {
    NonNull::new(slots()[handle.slot()].instance.load(Acquire))
}

/// Returns the world of `handle`, if it is the handle of an open world.
#[inline(always)]
pub(crate) fn find(handle: Handle) -> Option<NonNull<Instance>> {
    let slot = &slots()[handle.slot()];
    if slot.handle.load(Acquire) != handle.0 {
        return None;
    }
    // SAFETY: the slot of an open world has its instance: `open` stores it before the handle, and
    // `close` removes it after the handle.
    Some(unsafe { NonNull::new_unchecked(slot.instance.load(Relaxed)) })
}

/// Returns the open world in which a handle of any kind was made, for its log.
pub(crate) fn logger(handle: Handle) -> Option<NonNull<Instance>> {
    let world = slots()[handle.slot()].handle.load(Acquire);
    let is_its_own = world == handle.0
        || world >> INDEX_SHIFT << SERIAL_SHIFT == handle.0 >> SERIAL_SHIFT << SERIAL_SHIFT;
    if world != 0 && is_its_own { instance_at(handle) } else { None }
}

/// Returns the failure that says why a handle is invalid.
#[cold]
#[inline(never)]
pub(crate) fn bad(handle: Handle, kind: HandleKind) -> Box<Failure> {
    let process = PROCESS.load(Relaxed);
    if handle.0 != 0 && process != 0 && process != std::process::id() {
        return Failure::new(
            Code::Forked,
            format!(
                "the handle is of process {process}, which forked this one: a child has no part in \
                 its parent's job; use exec, or a world of its own"
            ),
        );
    }
    let what = if handle.0 == 0 { "is null" } else { "was given back, or never was one" };
    Failure::new(Code::Handle, format!("the {} {what}: pass one that is open", kind.name()))
}

/// Opens a world. Its handle is valid from now on.
pub(crate) fn open(make: impl FnOnce(Handle) -> Instance) -> Result<Handle, Box<Failure>> {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    prepare()?;
    // Copies also begin at different slots: then the other copy's handles lead to no world here.
    let begin = (copy_number() >> 56) as usize;
    let mut order = (0..WORLDS).map(|place| (begin + place) % WORLDS);
    let free = order.find(|place| slots()[*place].handle.load(Relaxed) == 0);
    let Some(free) = free else {
        let text = format!("{} worlds are open in this process: finalize some", WORLDS - 1);
        return Err(Failure::new(Code::Busy, text));
    };
    let serial = next_serial();
    let handle =
        Handle(serial << INDEX_SHIFT | (free as u64) << SLOT_SHIFT | HandleKind::World as u64);
    let instance = Box::into_raw(Box::new(make(handle)));
    slots()[free].instance.store(instance, Relaxed);
    slots()[free].handle.store(handle.0, Release);
    Ok(handle)
}

/// Maps the table, and maps it anew in a child of `fork`.
fn prepare() -> Result<(), Box<Failure>> {
    let here = std::process::id();
    if PROCESS.swap(here, Relaxed) != 0 {
        // The kernel has emptied the table of a child.
        return Ok(());
    }
    let mapped = map().map_err(|error| {
        PROCESS.store(0, Relaxed);
        Failure::new(Code::System, format!("no memory for the table of worlds: {error}"))
    })?;
    TABLE.store(mapped, Release);
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
        (*table).handle.store(NO_HANDLE, Relaxed);
        Ok(table)
    }
}

/// Closes a world. No handle leads to it any more.
///
/// # Safety
///
/// No other thread uses the world, and no reference to it is used afterwards.
pub(crate) unsafe fn close(handle: Handle) -> Result<Box<Instance>, Box<Failure>> {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = &slots()[handle.slot()];
    if slot.handle.load(Relaxed) != handle.0 {
        return Err(bad(handle, HandleKind::World));
    }
    slot.handle.store(0, Relaxed);
    // SAFETY: `open` put a box there, and nothing refers to it any more (contract of `close`).
    Ok(unsafe { Box::from_raw(slot.instance.swap(null_mut(), Relaxed)) })
}
