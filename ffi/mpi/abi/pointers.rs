//! Handles of our requests where handles are pointers: addresses in a range that we reserve.

use core::ffi::c_int;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::abi::{FORTRAN_BASE, FORTRAN_INDEX, Handle};

/// Bytes from one handle to the next. Open MPI's Fortran interface reads its index from the object.
const STRIDE: usize = 128;

/// Number of requests that there are handles for.
pub(crate) const REQUESTS: u32 = 1 << 20;

/// Start of the reserved range.
static BASE: AtomicUsize = AtomicUsize::new(usize::MAX / 2);

/// Reserves the range.
pub(crate) fn reserve() -> Result<(), &'static str> {
    let bytes = STRIDE * REQUESTS as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping touches no other memory.
    let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err("the system refuses the address range of the requests");
    }
    BASE.store(base.addr(), Relaxed);
    Ok(())
}

/// Returns the handle of the request in a slot.
#[inline(always)]
pub(crate) fn request_handle(slot: u32) -> Handle {
    let handle = BASE.load(Relaxed) + slot as usize * STRIDE;
    if let Some(offset) = FORTRAN_INDEX {
        // SAFETY: the slot is below `REQUESTS`, so the object is in the reserved range, which is
        // writable. Only this module writes it, and always the same value.
        unsafe {
            let index = core::ptr::with_exposed_provenance_mut::<c_int>(handle + offset);
            index.write(FORTRAN_BASE + slot as c_int);
        }
    }
    handle
}

/// Returns the slot of a handle, if the request is ours.
#[inline(always)]
pub(crate) fn request_slot(handle: Handle) -> Option<u32> {
    let offset = handle.wrapping_sub(BASE.load(Relaxed));
    (offset < STRIDE * REQUESTS as usize).then_some((offset / STRIDE) as u32)
}
