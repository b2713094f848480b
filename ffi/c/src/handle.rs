//! Handles: numbers that name a world, a request, a matched message, a window or a group in C.
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
//! Requests are of three kinds. `Done` is one constant. The index and generation of an `Operation`
//! are those of its entry in the engine's table. All others have an entry in a table of `entries`.
//!
//! `worlds` has the table of worlds, `entries` the tables of a world.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::failure::{Code, Failure};

/// Number of slots for worlds in a process. The first stays empty, since null leads to it.
pub(crate) const WORLDS: usize = 256;

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
    /// A request of a send that was over when it started. It has no status.
    Done = 6,
    /// A request of a message that is an entry of the engine's table.
    Operation = 7,
    Group = 8,
}

impl HandleKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::World => "strait_world",
            Self::Request | Self::Done | Self::Operation => "strait_request",
            Self::Window => "strait_window",
            Self::Connection => "strait_vc",
            Self::Message => "strait_message",
            Self::Group => "strait_group",
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

    /// The request of each send that was over when it started. No table has it, so no call needs
    /// to look it up.
    pub(crate) const DONE: Self = Self(HandleKind::Done as u64);

    /// Returns whether this may be the handle of an object of `kind`.
    #[inline(always)]
    pub(crate) const fn is_of(self, kind: HandleKind) -> bool {
        self.0 % (1 << SLOT_SHIFT) == kind as u64
    }

    pub(crate) const fn slot(self) -> usize {
        (self.0 >> SLOT_SHIFT) as usize % WORLDS
    }

    pub(crate) const fn index(self) -> usize {
        (self.0 >> INDEX_SHIFT) as usize % ENTRIES
    }
}

/// The process that opened worlds last.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Records that this process opens worlds. Returns whether neither it nor a process that forked it
/// has opened any before.
pub(crate) fn record_process() -> bool {
    PROCESS.swap(std::process::id(), Relaxed) == 0
}

/// Undoes [`record_process`] because no table could be made.
pub(crate) fn forget_process() {
    PROCESS.store(0, Relaxed);
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

/// Returns the bits that all handles of this kind in this world share.
pub(crate) const fn common(kind: HandleKind, world: Handle) -> u64 {
    let serial = world.0 >> INDEX_SHIFT << SERIAL_SHIFT;
    serial | (world.slot() as u64) << SLOT_SHIFT | kind as u64
}
