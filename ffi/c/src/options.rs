//! The options that an embedder may give a world: a log, a function to call while the world waits,
//! the way in which ranks find each other, and reports of unmapped memory.

use core::ffi::{c_char, c_int, c_void};
use core::ops::Range;
use std::ffi::CString;

use crate::border::Structure;
use crate::failure::{Called, Code, Failure, strait_error_message};
use crate::store::CExchange;

/// The interface's version, `STRAIT_ABI` in C. A change of the upper half requires that programs be
/// rebuilt.
pub(crate) const ABI: u32 = 1 << 16;

/// `strait_options` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct COptions {
    pub(crate) size: usize,
    pub(crate) log: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
    pub(crate) log_context: *mut c_void,
    pub(crate) yield_now: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) yield_context: *mut c_void,
    pub(crate) exchange: *const CExchange,
    pub(crate) watch_memory: Option<WatchMemory>,
    pub(crate) watch_context: *mut c_void,
}

/// `watch_memory` of `strait_options` in C.
pub(crate) type WatchMemory =
    unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut usize) -> c_int;

impl COptions {
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

    /// Passes a warning to the embedder's log.
    pub(crate) fn warn(&self, warning: &shim::Warning) {
        let text = CString::new(format!("warning: {warning}").replace('\0', " "));
        if let (Some(log), Ok(text)) = (self.log, text) {
            // SAFETY: the embedder's function takes these arguments. The text lives as long as the
            // call.
            unsafe { log(self.log_context, text.as_ptr()) };
        }
    }

    /// Passes the text of this thread's last failure to the embedder's log.
    pub(crate) fn log(&self) {
        if let Some(log) = self.log {
            // SAFETY: the embedder's function takes these arguments. The text belongs to this
            // thread.
            unsafe { log(self.log_context, strait_error_message()) };
        }
    }
}

/// The embedder's `yield`.
struct Idle {
    call: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
}

// SAFETY: any thread that uses the world may call it, as `strait.h` says.
unsafe impl Send for Idle {}

impl Idle {
    fn pass(&self) {
        // SAFETY: the embedder's function takes this argument.
        unsafe { (self.call)(self.context) };
    }
}

/// The embedder's `watch_memory`.
struct WatchCallback {
    call: WatchMemory,
    context: *mut c_void,
}

// SAFETY: any thread that registers memory may call it, one at a time, as `strait.h` says.
unsafe impl Send for WatchCallback {}

impl WatchCallback {
    /// Returns the next range of addresses that the embedder unmapped or mapped anew.
    fn next(&self) -> Option<Range<usize>> {
        let (mut base, mut bytes) = (core::ptr::null_mut(), 0);
        // SAFETY: the embedder's function takes these arguments.
        let is_one = unsafe { (self.call)(self.context, &raw mut base, &raw mut bytes) } != 0;
        is_one.then(|| base.addr()..base.addr().saturating_add(bytes))
    }
}

impl COptions {
    /// Returns a source of the embedder's reports of unmapped memory.
    pub(crate) fn watch(&self) -> Option<impl FnMut() -> Option<Range<usize>> + Send + use<>> {
        let watch = WatchCallback { call: self.watch_memory?, context: self.watch_context };
        Some(move || watch.next())
    }

    /// Returns the function that the embedder runs while no message arrives.
    pub(crate) fn idle(&self) -> Option<impl Fn() + Send + use<>> {
        let idle = Idle { call: self.yield_now?, context: self.yield_context };
        Some(move || idle.pass())
    }
}

// SAFETY: `repr(C)`, the first field is a size, and all-zero bytes are a value.
unsafe impl Structure for COptions {}

/// Refuses a program that was built for another version of the interface.
pub(crate) fn check_abi(abi: u32) -> Called {
    if abi >> 16 == ABI >> 16 && abi <= ABI {
        return Ok(());
    }
    let part = |version: u32| (version >> 16, version & 0xffff);
    let ((theirs, minor), (ours, own_minor)) = (part(abi), part(ABI));
    let text = format!(
        "the program was built for interface {theirs}.{minor} and this library has \
         {ours}.{own_minor}: build it anew, or run it with its own library"
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
