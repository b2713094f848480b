//! Handles: what C holds of a world, a request, a matched message or a window, checked at each use.
//!
//! A handle is a number in the shape of a pointer, so that compilers tell kinds apart; nobody follows it.
//!
//! ```text
//! bit   63 … 52      51 … 32    31 … 12    11 … 4    3 … 0
//! world   serial of the world ………………………   slot      1
//! other serial, low  generation  index      slot      kind
//! ```
//!
//! The tables keep with each entry the whole handle that leads to it, so one comparison tells a good handle from a null one, one of
//! another kind, one that was given back, and any other number.
//!
//! The table of worlds lies in a page that a child of `fork` finds zeroed. So the parent's handles name nothing in the child, which
//! shares the parent's memory with the job and must not touch it. The first slot, to which null leads, lies in the page before and
//! holds what is no handle, so null needs no comparison of its own.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use crate::buffer::need;
use crate::failure::{Code, Failure};
use crate::instance::Instance;

/// Slots for worlds in a process at a time. None has the first, to which null would lead.
const WORLDS: usize = 256;

/// Bytes of a page; of a part of one where pages are larger.
const PAGE: usize = 4096;

/// Entries of one kind in a world at a time.
const ENTRIES: usize = 1 << 20;

const SLOT_SHIFT: u32 = 4;
const INDEX_SHIFT: u32 = 12;
const GENERATION_SHIFT: u32 = 32;
const SERIAL_SHIFT: u32 = 52;

/// What a handle is of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    World = 1,
    Request = 2,
    Window = 3,
    Connection = 4,
    Message = 5,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::World => "strait_world",
            Self::Request => "strait_request",
            Self::Window => "strait_window",
            Self::Connection => "strait_vc",
            Self::Message => "strait_message",
        }
    }
}

/// A handle as it comes from C.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    /// No handle: `NULL` in C.
    pub(crate) const NONE: Self = Self(0);

    const fn slot(self) -> usize {
        (self.0 >> SLOT_SHIFT) as usize % WORLDS
    }

    const fn index(self) -> usize {
        (self.0 >> INDEX_SHIFT) as usize % ENTRIES
    }
}

/// One world of the process. Zeroed: none.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    handle: AtomicU64,
    instance: AtomicPtr<Instance>,
}

/// In the first slot's `handle`.
const NO_HANDLE: u64 = u64::MAX;

/// What there is before the first world.
static NONE: [Slot; WORLDS] = {
    let mut slots = [const { Slot { handle: AtomicU64::new(0), instance: AtomicPtr::new(null_mut()) } };
        WORLDS];
    slots[0].handle = AtomicU64::new(NO_HANDLE);
    slots
};

static TABLE: AtomicPtr<Slot> = AtomicPtr::new((&raw const NONE).cast_mut().cast());

/// Worlds so far. A child of `fork` goes on counting, so no handle of its own is one of its parent's.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// A number that another copy of this library in the process does not have: where it is loaded, mixed so that all bits of an address
/// count, wherever in the number one looks.
fn copy_number() -> u64 {
    let page = (&raw const OPENED).addr() / PAGE;
    (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number for a world that no other has, neither of this copy nor of another. The low bits, which other handles have in them, are
/// no others' either.
fn next_serial() -> u64 {
    (copy_number() >> INDEX_SHIFT) + OPENED.fetch_add(1, Relaxed)
}

/// The process that has worlds, or had.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Held by who opens or closes a world.
static LOCK: Mutex<()> = Mutex::new(());

fn slots() -> &'static [Slot; WORLDS] {
    // SAFETY: it points to `NONE`, or to as many slots that stay mapped until the process ends; zeroes are a good slot.
    unsafe { &*TABLE.load(Acquire).cast() }
}

/// The slot of the world that a handle of any kind belongs to.
fn instance_at(handle: Handle) -> Option<NonNull<Instance>> {
    NonNull::new(slots()[handle.slot()].instance.load(Acquire))
}

/// The world of `handle`.
///
/// # Safety
///
/// No other thread uses the world, and it is not closed while the answer is used.
#[inline(always)]
pub(crate) unsafe fn world<'a>(handle: Handle) -> Result<&'a Instance, Box<Failure>> {
    // SAFETY: by the contract.
    unsafe { find(handle) }.ok_or_else(|| bad(handle, Kind::World))
}

/// As [`world`], without saying why there is none.
///
/// # Safety
///
/// As for [`world`].
#[inline(always)]
pub(crate) unsafe fn find<'a>(handle: Handle) -> Option<&'a Instance> {
    let slot = &slots()[handle.slot()];
    if slot.handle.load(Acquire) != handle.0 {
        return None;
    }
    let instance = slot.instance.load(Relaxed);
    // SAFETY: an open world's slot has its instance; by the contract it stays.
    unsafe {
        core::hint::assert_unchecked(!instance.is_null());
        Some(&*instance)
    }
}

/// The world that a handle of something in a world belongs to.
///
/// # Safety
///
/// As for [`world`].
#[inline(always)]
pub(crate) unsafe fn world_of<'a>(
    handle: Handle,
    kind: Kind,
) -> Result<&'a Instance, Box<Failure>> {
    // SAFETY: by the contract.
    instance_at(handle)
        .map(|instance| unsafe { instance.as_ref() })
        .ok_or_else(|| bad(handle, kind))
}

/// The handle at `place`, and the world that it belongs to.
///
/// # Safety
///
/// As for [`world`]; `place` is null or leads to a handle.
#[inline]
pub(crate) unsafe fn at<'a>(
    place: *mut Handle,
    kind: Kind,
) -> Result<(Handle, &'a Instance), Box<Failure>> {
    need(place)?;
    // SAFETY: by the contract.
    let handle = unsafe { place.read() };
    // SAFETY: by the contract.
    Ok((handle, unsafe { world_of(handle, kind) }?))
}

/// The handle at `place`, for the log; none when there is no place.
///
/// # Safety
///
/// `place` is null or leads to a handle.
pub(crate) const unsafe fn peek(place: *const Handle) -> Handle {
    // SAFETY: by the contract.
    if place.is_null() { Handle::NONE } else { unsafe { place.read() } }
}

/// Tells the log of the world that `handle` belongs to, if it is open and has one, what this thread's last failure says.
#[cold]
#[inline(never)]
pub(crate) fn log(handle: Handle) {
    let world = slots()[handle.slot()].handle.load(Acquire);
    let is_its_own = world == handle.0
        || world >> INDEX_SHIFT << SERIAL_SHIFT == handle.0 >> SERIAL_SHIFT << SERIAL_SHIFT;
    if world != 0
        && is_its_own
        && let Some(instance) = instance_at(handle)
    {
        // SAFETY: the world is open, and the caller's call is on it, so no other thread closes it.
        unsafe { instance.as_ref() }.options().log();
    }
}

/// Why a handle is none.
#[cold]
#[inline(never)]
pub(crate) fn bad(handle: Handle, kind: Kind) -> Box<Failure> {
    let process = PROCESS.load(Relaxed);
    if handle.0 != 0 && process != 0 && process != std::process::id() {
        return Failure::new(
            Code::Forked,
            format!(
                "the handle is of process {process}, which forked this one: a child has no part in its parent's job; use \
                 exec, or a world of its own"
            ),
        );
    }
    let what = if handle.0 == 0 { "is null" } else { "was given back, or never was one" };
    Failure::new(Code::Handle, format!("the {} {what}: pass one that is open", kind.name()))
}

/// Opens a world: the handle is good from now on.
pub(crate) fn open(make: impl FnOnce(Handle) -> Instance) -> Result<Handle, Box<Failure>> {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    prepare()?;
    // Copies begin at different slots, too: then the other's handles lead to none here.
    let begin = (copy_number() >> 56) as usize;
    let mut order = (0..WORLDS).map(|place| (begin + place) % WORLDS);
    let free = order.find(|place| slots()[*place].handle.load(Relaxed) == 0);
    let Some(free) = free else {
        let text = format!("{} worlds are open in this process: finalize some", WORLDS - 1);
        return Err(Failure::new(Code::Busy, text));
    };
    let serial = next_serial();
    let handle = Handle(serial << INDEX_SHIFT | (free as u64) << SLOT_SHIFT | Kind::World as u64);
    let instance = Box::into_raw(Box::new(make(handle)));
    slots()[free].instance.store(instance, Relaxed);
    slots()[free].handle.store(handle.0, Release);
    Ok(handle)
}

/// Maps the table, anew in a child of `fork`.
fn prepare() -> Result<(), Box<Failure>> {
    let here = std::process::id();
    if PROCESS.swap(here, Relaxed) != 0 {
        // A child's table has been emptied by the kernel.
        return Ok(());
    }
    let mapped = map().map_err(|error| {
        PROCESS.store(0, Relaxed);
        Failure::new(Code::System, format!("no memory for the table of worlds: {error}"))
    })?;
    TABLE.store(mapped, Release);
    Ok(())
}

/// A table of no worlds, all of which but the first slot a child of `fork` finds zeroed.
fn map() -> Result<*mut Slot, Errno> {
    const { assert!((WORLDS - 1) * size_of::<Slot>() <= PAGE) };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, nobody else's; advice and slots lie in it.
    unsafe {
        let pages = mmap_anonymous(null_mut(), 2 * PAGE, access, MapFlags::PRIVATE)?;
        madvise(pages.byte_add(PAGE), PAGE, Advice::LinuxWipeOnFork)?;
        let table = pages.byte_add(PAGE).cast::<Slot>().sub(1);
        (*table).handle.store(NO_HANDLE, Relaxed);
        Ok(table)
    }
}

/// Closes a world: no handle leads to it any more.
///
/// # Safety
///
/// As for [`world`].
pub(crate) unsafe fn close(handle: Handle) -> Result<Box<Instance>, Box<Failure>> {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = &slots()[handle.slot()];
    if slot.handle.load(Relaxed) != handle.0 {
        return Err(bad(handle, Kind::World));
    }
    slot.handle.store(0, Relaxed);
    // SAFETY: `open` put a box there, and by the contract nobody uses it.
    Ok(unsafe { Box::from_raw(slot.instance.swap(null_mut(), Relaxed)) })
}

/// Entries of one kind in a world.
#[derive(Debug)]
pub(crate) struct Entries<T> {
    kind: Kind,
    /// The bits that all handles of this world's have.
    common: u64,
    entries: Vec<Entry<T>>,
    /// Places without a value.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    /// Zero when there is no value.
    handle: u64,
    generation: u32,
    value: Option<T>,
}

impl<T> Entries<T> {
    pub(crate) const fn new(kind: Kind, world: Handle) -> Self {
        let serial = world.0 >> INDEX_SHIFT << SERIAL_SHIFT;
        let common = serial | (world.slot() as u64) << SLOT_SHIFT | kind as u64;
        Self { kind, common, entries: Vec::new(), free: Vec::new() }
    }

    /// The handle that leads to `value` from now on.
    ///
    /// # Errors
    ///
    /// Too many; the value comes back.
    pub(crate) fn insert(&mut self, value: T) -> Result<Handle, (Box<Failure>, T)> {
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None if self.entries.len() == ENTRIES => return Err((full(self.kind), value)),
            None => {
                self.entries.push(Entry { handle: 0, generation: 0, value: None });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[place];
        entry.generation = (entry.generation + 1) % (1 << (SERIAL_SHIFT - GENERATION_SHIFT));
        let numbers =
            u64::from(entry.generation) << GENERATION_SHIFT | (place as u64) << INDEX_SHIFT;
        entry.handle = self.common | numbers;
        entry.value = Some(value);
        Ok(Handle(entry.handle))
    }

    /// Refuses what [`Entries::insert`] would, for a caller who could not undo what it is to stand for.
    pub(crate) fn need_room(&self) -> Result<(), Box<Failure>> {
        if self.len() == ENTRIES { Err(full(self.kind)) } else { Ok(()) }
    }

    fn entry(&mut self, handle: Handle) -> Result<&mut Entry<T>, Box<Failure>> {
        let kind = self.kind;
        let entry = self.entries.get_mut(handle.index());
        entry
            .filter(|entry| entry.handle == handle.0 && handle.0 != 0)
            .ok_or_else(|| bad(handle, kind))
    }

    /// The value of `handle`.
    pub(crate) fn get(&mut self, handle: Handle) -> Result<&mut T, Box<Failure>> {
        let kind = self.kind;
        self.entry(handle)?.value.as_mut().ok_or_else(|| in_use(kind))
    }

    /// Takes the value for a while, during which its handle is in use.
    pub(crate) fn take(&mut self, handle: Handle) -> Result<T, Box<Failure>> {
        let kind = self.kind;
        self.entry(handle)?.value.take().ok_or_else(|| in_use(kind))
    }

    /// Puts back what [`Entries::take`] took.
    pub(crate) fn put_back(&mut self, handle: Handle, value: T) {
        if let Ok(entry) = self.entry(handle) {
            entry.value = Some(value);
        }
    }

    /// Ends `handle`, and gives the value if it was not taken.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let entry = self.entry(handle).ok()?;
        entry.handle = 0;
        let value = entry.value.take();
        self.free.push(handle.index() as u32);
        value
    }

    /// Values there are, taken ones among them.
    pub(crate) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Ends all handles.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        self.free.extend(0..self.entries.len() as u32);
        self.entries.iter_mut().filter_map(|entry| {
            entry.handle = 0;
            entry.value.take()
        })
    }
}

#[cold]
#[inline(never)]
fn full(kind: Kind) -> Box<Failure> {
    let text = format!("{ENTRIES} handles of {} are open: give some back", kind.name());
    Failure::new(Code::Busy, text)
}

#[cold]
#[inline(never)]
fn in_use(kind: Kind) -> Box<Failure> {
    let text =
        format!("the {} is in use further up this thread's stack: wait for it there", kind.name());
    Failure::new(Code::Busy, text)
}
