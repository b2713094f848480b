//! Memory that the program gets from MPI (MPI-5.0 §10.2). It is in the node's segment where that
//! has room. So a window over it needs no copies of the kernel's, as those over other memory do.

use core::ffi::c_int;

use super::host::{self, Pointer};
use super::state;
use crate::abi::Handle;

/// Longest piece, in bytes, that is taken from the segment. Its memory is reserved at once, and
/// most programs that ask for more do not touch all of it.
const LONGEST: usize = 256 << 20;

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Alloc_mem(size: isize, info: Handle, base: Pointer) -> c_int {
    let take = |bytes| {
        let front = state::enter()?;
        front.memory.take(&front.world, bytes)
    };
    let bytes = usize::try_from(size).ok().filter(|bytes| (1..=LONGEST).contains(bytes));
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        match bytes.filter(|_| !base.is_null()).and_then(take) {
            Some(start) => {
                base.cast::<Pointer>().write(start);
                0
            }
            None => host::Alloc_mem(size, info, base),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Free_mem(base: Pointer) -> c_int {
    if state::enter().is_some_and(|front| front.memory.give_back(base)) {
        return 0;
    }
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe { host::Free_mem(base) }
}
