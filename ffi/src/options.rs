//! What an embedder may give a world: where failures are told, what to do while nothing comes, how ranks find each other, and what
//! became of memory.

use core::ffi::{c_char, c_int, c_void};
use core::ops::Range;

use crate::buffer::need;
use crate::entry::Called;
use crate::failure::{Code, Failure, strait_error_message};
use crate::store::Exchange;

/// The interface's version, as `STRAIT_ABI` in C: the upper half changes when programs must be built anew.
pub(crate) const ABI: u32 = 1 << 16;

/// `strait_options` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Options {
    pub(crate) size: usize,
    pub(crate) log: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
    pub(crate) log_context: *mut c_void,
    pub(crate) yield_now: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) yield_context: *mut c_void,
    pub(crate) exchange: *const Exchange,
    pub(crate) watch_memory: Option<WatchMemory>,
    pub(crate) watch_context: *mut c_void,
}

/// `watch_memory` of `strait_options` in C.
pub(crate) type WatchMemory =
    unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut usize) -> c_int;

impl Options {
    pub(crate) const NONE: Self = Self {
        size: size_of::<Self>(),
        log: None,
        log_context: core::ptr::null_mut(),
        yield_now: None,
        yield_context: core::ptr::null_mut(),
        exchange: core::ptr::null(),
        watch_memory: None,
        watch_context: core::ptr::null_mut(),
    };

    /// Tells the embedder's log what this thread's last failure says.
    pub(crate) fn log(&self) {
        if let Some(log) = self.log {
            // SAFETY: the embedder's function takes these; the words are this thread's.
            unsafe { log(self.log_context, strait_error_message()) };
        }
    }
}

/// The embedder's `yield`.
struct Idle {
    call: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
}

// SAFETY: whichever thread uses the world calls it, as `strait.h` says.
unsafe impl Send for Idle {}

impl Idle {
    fn pass(&self) {
        // SAFETY: the embedder's function takes this.
        unsafe { (self.call)(self.context) };
    }
}

/// The embedder's `watch_memory`.
struct Watch {
    call: WatchMemory,
    context: *mut c_void,
}

// SAFETY: whichever thread registers memory calls it, one at a time, as `strait.h` says.
unsafe impl Send for Watch {}

impl Watch {
    /// Addresses behind which there is something else now.
    fn next(&self) -> Option<Range<usize>> {
        let (mut base, mut bytes) = (core::ptr::null_mut(), 0);
        // SAFETY: the embedder's function takes these.
        let is_one = unsafe { (self.call)(self.context, &raw mut base, &raw mut bytes) } != 0;
        is_one.then(|| base.addr()..base.addr().saturating_add(bytes))
    }
}

impl Options {
    /// What the embedder knows of memory that was unmapped.
    pub(crate) fn watch(&self) -> Option<impl FnMut() -> Option<Range<usize>> + Send + use<>> {
        let watch = Watch { call: self.watch_memory?, context: self.watch_context };
        Some(move || watch.next())
    }

    /// What the embedder does while nothing comes.
    pub(crate) fn idle(&self) -> Option<impl Fn() + Send + use<>> {
        let idle = Idle { call: self.yield_now?, context: self.yield_context };
        Some(move || idle.pass())
    }
}

/// A structure that begins with its size, and of which all-zero bytes mean the default.
///
/// # Safety
///
/// `#[repr(C)]`, its first field is a `usize`, and any of its fields may be zero.
pub(crate) unsafe trait Sized: Copy {}

// SAFETY: as declared above.
unsafe impl Sized for Options {}

/// The structure at `place`, of which the caller's may be an older, shorter one.
///
/// # Safety
///
/// `place` is null, or leads to as many bytes as its first field says.
pub(crate) unsafe fn read<T: Sized>(place: *const T) -> Called<Option<T>> {
    if place.is_null() {
        return Ok(None);
    }
    // SAFETY: by the trait's contract and ours.
    let size = unsafe { place.cast::<usize>().read() };
    check_size(size, size_of::<T>())?;
    // SAFETY: `size` bytes are there; all-zero bytes are a value by the trait's contract.
    unsafe {
        let mut value = core::mem::zeroed::<T>();
        core::ptr::copy_nonoverlapping(place.cast::<u8>(), (&raw mut value).cast(), size);
        Ok(Some(value))
    }
}

/// Writes `value` to `place`, whose first field says how many bytes there are; a program with an older header gets the fields that
/// it knows, and its size stays.
///
/// # Safety
///
/// `place` is null, or leads to as many bytes as its first field says.
pub(crate) unsafe fn write<T: Sized>(place: *mut T, value: &T) -> Called {
    need(place)?;
    // SAFETY: by the trait's contract and ours.
    let size = unsafe { place.cast::<usize>().read() };
    check_size(size, size_of::<T>())?;
    let head = size_of::<usize>();
    // SAFETY: `size` bytes are there, and no more than `value` has.
    unsafe {
        let from = core::ptr::from_ref(value).cast::<u8>().add(head);
        core::ptr::copy_nonoverlapping(from, place.cast::<u8>().add(head), size - head);
    }
    Ok(())
}

fn check_size(size: usize, known: usize) -> Called {
    if size < size_of::<usize>() {
        let text = format!("the structure's size is {size}: set it to its sizeof");
        return Err(Failure::argument(text));
    }
    if size > known {
        let text = format!(
            "the structure has {size} bytes and this library knows {known}: it is older than the header"
        );
        return Err(Failure::new(Code::Version, text));
    }
    Ok(())
}

/// Refuses a program that was built for another interface.
pub(crate) fn check_abi(abi: u32) -> Called {
    if abi >> 16 == ABI >> 16 && abi <= ABI {
        return Ok(());
    }
    let part = |version: u32| (version >> 16, version & 0xffff);
    let ((theirs, minor), (ours, own_minor)) = (part(abi), part(ABI));
    let text = format!(
        "the program was built for interface {theirs}.{minor} and this library has {ours}.{own_minor}: \
         build it anew, or run it with its own library"
    );
    Err(Failure::new(Code::Version, text))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn strait_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn strait_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What a callback of C answered.
pub(crate) const fn succeeded(answer: c_int) -> Result<(), i32> {
    if answer == 0 { Ok(()) } else { Err(answer) }
}
