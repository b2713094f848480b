//! The end of MPI: an attribute of `MPI_COMM_SELF`, which a host deletes first in `MPI_Finalize`,
//! while everything can still be used (MPI-5.0 §11.2.4).

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use strait::raw::RawRecords as _;

use super::explain::explain;
use super::host;
use super::progress;
use super::state;
use crate::abi::{self, Handle};

/// Sets the attribute. Its callback closes the front. Returns false if the host refuses.
pub(crate) fn register() -> bool {
    let mut keyval = 0;
    // SAFETY: a null copy function means that nothing is copied in every binary interface but
    // MPICH's own constants, which are null too; the callback has the type of the standard.
    unsafe {
        let delete = delete as *mut c_void;
        host::Comm_create_keyval(null_copy(), delete, &raw mut keyval, null_mut()) == 0
            && host::Comm_set_attr(abi::comm_self(), keyval, null_mut()) == 0
            && host::Comm_free_keyval(&raw mut keyval) == 0
    }
}

/// Returns a copy function that copies nothing.
pub(crate) fn null_copy() -> *mut c_void {
    copy as *mut c_void
}

/// Copies no attribute: a duplicate begins without it. Communicators and datatypes have callbacks
/// of one type.
extern "C" fn copy(
    _object: Handle,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _new: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the host passes the place of a flag.
    unsafe { flag.write(0) };
    0
}

extern "C" fn delete(
    _comm: Handle,
    _keyval: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    close();
    0
}

/// Leaves the world, and ends what the front has open in the host. The host serves all further
/// calls.
fn close() {
    if let Some(front) = state::enter() {
        front.world.set_caller(|| "MPI_Finalize");
    }
    progress::end_orphans();
    super::helper::stop_for_ever();
    let Some(front) = state::close() else { return };
    if front.world.rank() == 0 {
        explain(|| {
            let (packets, links) = (front.world.packets(), front.world.links());
            format!(
                "rank 0 exchanged {packets} packets on its node, and has {links} links to others"
            )
        });
    }
    // A reference that was lost would let memory be used after its end.
    debug_assert!(
        !front.requests.is_empty() || !front.messages.is_empty() || front.comms.are_only_here(),
        "a reference was lost or is left"
    );
    front.windows.clear();
    front.comms.end_groups();
    front.accumulate_locks.close();
    let (mut standing, mut private) = (front.standing.get(), front.private);
    if standing != abi::request_null() {
        let mut status = [0_u64; 8];
        // SAFETY: the receive is open, and `status` has room for a status of any host.
        unsafe {
            host::Cancel(&raw mut standing);
            host::Wait(&raw mut standing, status.as_mut_ptr().cast());
        }
    }
    // A rank that cannot leave in good order is treated as dead by the others.
    let _ = front.base.world.finalize();
    // SAFETY: the front has made the communicator, and no operation is open on it.
    unsafe { host::Comm_free(&raw mut private) };
}
