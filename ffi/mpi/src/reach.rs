//! Whether messages between the nodes of a job arrive: each node exchanges one with the next.
//!
//! A device may be there and still not reach the others. Then the host carries the messages. A rank
//! that finds this out tells the ranks with which it exchanges, by a message of the host's: they
//! would wait for a message of Strait's that never comes.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;

use strait::raw::RawRecords as _;
use strait::{Error, World};

use super::host;
use crate::abi::{self, Handle};

/// Tag of the host's message.
const FAILED: c_int = 1;

/// The ranks with which a rank exchanges messages.
struct Neighbours {
    next: u32,
    before: u32,
}

/// Exchanges a message with the next node and the one before.
///
/// # Errors
///
/// Why a message did not arrive, or nothing if another rank knows it. The world must not be left
/// then: that would wait for its messages.
pub(crate) fn check(world: &World, private: Handle) -> Result<(), String> {
    let Some(neighbours) = neighbours(world) else { return Ok(()) };
    world.set_caller(|| "MPI_Init");
    let arrived = match exchange(world, private, &neighbours) {
        Ok(true) => return Ok(()),
        // The other rank has a reason.
        Ok(false) => String::new(),
        Err(error) => error.to_string(),
    };
    for rank in [neighbours.next, neighbours.before] {
        // SAFETY: the message has no bytes, and the rank is one of the communicator's.
        unsafe { host::Send(null_mut(), 0, abi::byte(), rank as c_int, FAILED, private) };
    }
    Err(arrived)
}

/// Returns the first ranks of the neighbouring nodes, if this rank is the first of its node.
fn neighbours(world: &World) -> Option<Neighbours> {
    let (node, count) = (world.node(), world.nodes().count());
    if count == 1 || !world.is_leader() {
        return None;
    }
    let leader = |node| world.nodes().leader(node % count);
    Some(Neighbours { next: leader(node + 1)?, before: leader(node + count - 1)? })
}

/// Returns false if another rank has failed.
fn exchange(world: &World, private: Handle, with: &Neighbours) -> Result<bool, Error> {
    let endpoint = world.endpoint();
    // The end of these would wait for an operation that never ends.
    let mut sent = ManuallyDrop::new(endpoint.isend_owned(vec![1_u8], with.next, 0)?);
    let mut received = ManuallyDrop::new(endpoint.irecv_owned(vec![0_u8], with.before, 0)?);
    loop {
        if sent.test()?.is_some() && received.test()?.is_some() {
            drop((ManuallyDrop::into_inner(sent), ManuallyDrop::into_inner(received)));
            return Ok(true);
        }
        if has_failed(private) {
            return Ok(false);
        }
        std::thread::yield_now();
    }
}

/// Returns whether another rank has said that it failed.
fn has_failed(private: Handle) -> bool {
    let mut flag = 0;
    // SAFETY: the flag has a place, and the status is ignored.
    let code = unsafe {
        host::Iprobe(abi::ANY_SOURCE, FAILED, private, &raw mut flag, abi::STATUS_IGNORE)
    };
    code == 0 && flag != 0
}
