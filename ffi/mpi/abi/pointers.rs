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

/// Prepares the handle of a slot, before the program gets it for the first time.
pub(crate) fn prepare_handle(slot: u32) {
    if let Some(offset) = FORTRAN_INDEX {
        // SAFETY: the slot is below `REQUESTS`, so the object is in the reserved range, which is
        // writable. Only this function writes it, and always the same value.
        unsafe {
            let place = request_handle(slot) + offset;
            let index = core::ptr::with_exposed_provenance_mut::<c_int>(place);
            index.write(FORTRAN_BASE + slot as c_int);
        }
    }
}

/// Returns the handle of the request in a slot.
#[inline(always)]
pub(crate) fn request_handle(slot: u32) -> Handle {
    BASE.load(Relaxed) + slot as usize * STRIDE
}

/// Returns the slot of a handle, if the request is ours.
#[inline(always)]
pub(crate) fn request_slot(handle: Handle) -> Option<u32> {
    let offset = handle.wrapping_sub(BASE.load(Relaxed));
    (offset < STRIDE * REQUESTS as usize).then_some((offset / STRIDE) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_handle_has_its_number_for_fortran() {
        reserve().unwrap();
        for slot in [0, 1, 77, REQUESTS - 1] {
            prepare_handle(slot);
            let handle = request_handle(slot);
            assert_eq!(request_slot(handle), Some(slot));
            if let Some(offset) = FORTRAN_INDEX {
                // SAFETY: the handle is in the reserved range, which can be read.
                let index =
                    unsafe { core::ptr::with_exposed_provenance::<c_int>(handle + offset).read() };
                assert_eq!(index, FORTRAN_BASE + slot as c_int);
            }
        }
        assert_eq!(request_slot(request_handle(0) - 1), None);
        assert_eq!(request_slot(request_handle(0) + STRIDE * REQUESTS as usize), None);
    }
}
