//! Communicators: how they are made and freed (MPI-5.0 §7.4, §8.5).
//!
//! A new communicator is ours if all its processes are in `MPI_COMM_WORLD`. Its members then agree
//! on a context that none of them uses. All of them do the same, so the decision is theirs alike.

use core::ffi::{c_char, c_int};

use strait::raw::RawRecords as _;

use super::comms::Comm;
use super::helper::inside_host;
use super::host::{self, HandlePtr, Ints};
use super::{explain, gpu, names, state};
use crate::abi::{self, Handle};

/// Makes a new communicator ours, if it can be.
unsafe fn adopt(code: c_int, new: HandlePtr, maker: &str) -> c_int {
    // SAFETY: the program passes the place of a communicator, which the host has written.
    if code == 0 && unsafe { *new } != abi::comm_null() && state::enter().is_some() {
        // SAFETY: as above.
        let handle = unsafe { *new };
        let _helper = inside_host();
        match (describe(handle).and_then(with_context), state::enter()) {
            (Some(comm), Some(front)) => {
                names::record(&front, &comm, maker);
                front.comms.add(comm);
            }
            (None, _) => explain(handle),
            (Some(_), None) => {}
        }
    }
    code
}

/// Tells the user that the host keeps a communicator, if `STRAIT_MPI_VERBOSE` is set.
fn explain(handle: Handle) {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: the handle is a new communicator's, and the results have places.
    unsafe {
        host::Comm_rank(handle, &raw mut rank);
        host::Comm_size(handle, &raw mut size);
    }
    if rank == 0 {
        explain::explain(|| {
            format!(
                "the host keeps a communicator of {size} ranks: it is an intercommunicator, or \
                 has a process outside MPI_COMM_WORLD, or one that uses a GPU"
            )
        });
    }
}

/// A communicator without a context.
struct Description {
    handle: Handle,
    in_world: Box<[u32]>,
    world: u32,
}

/// Describes a communicator. Returns `None` if it is the host's.
fn describe(handle: Handle) -> Option<Description> {
    let (mut is_inter, mut size) = (0, 0);
    let (mut group, mut all) = Default::default();
    // SAFETY: the handle is a new communicator's, and the results have places.
    let described = unsafe {
        host::Comm_test_inter(handle, &raw mut is_inter) == 0
            && is_inter == 0
            && host::Comm_size(handle, &raw mut size) == 0
            && host::Comm_group(handle, &raw mut group) == 0
            && host::Comm_group(abi::comm_world(), &raw mut all) == 0
    };
    if !described {
        return None;
    }
    let mut ranks: Vec<c_int> = (0..size).collect();
    let mut in_world = vec![abi::UNDEFINED; ranks.len()];
    // SAFETY: both groups exist, and each list has a place for each rank.
    let code = unsafe {
        let (from, to) = (ranks.as_mut_ptr(), in_world.as_mut_ptr());
        let code = host::Group_translate_ranks(group, size, from, all, to);
        host::Group_free(&raw mut group);
        host::Group_free(&raw mut all);
        code
    };
    if code != 0 {
        return None;
    }
    let in_world: Result<_, _> = in_world.into_iter().map(u32::try_from).collect();
    let world = state::enter()?.world.size();
    Some(Description { handle, in_world: in_world.ok()?, world })
}

/// What a member proposes in place of a context if the communicator must be the host's.
const REFUSED: i64 = i64::MAX;

/// Agrees on a context with the other members, unless one of them refuses.
fn with_context(description: Description) -> Option<Comm> {
    let Description { handle, in_world, world } = description;
    loop {
        let uses_gpu = gpu::loaded().is_some();
        let proposal = if uses_gpu { REFUSED } else { state::enter()?.comms.propose().into() };
        let agreed = agree(handle, proposal, abi::op_max())?;
        if agreed == REFUSED {
            return None;
        }
        let context = agreed as u32;
        let is_mine = state::enter()?.comms.reserve(context);
        if agree(handle, is_mine.into(), abi::op_min())? == 1 {
            return Some(Comm::new(handle, context, in_world, world));
        }
        // Another thread of some member took the same context for another communicator.
        if is_mine {
            state::enter()?.comms.release(context);
        }
    }
}

/// Combines a number of each member.
fn agree(comm: Handle, own: i64, op: Handle) -> Option<i64> {
    let mut all = 0_i64;
    // SAFETY: both places hold one number of this type.
    let code = unsafe {
        let own = (&raw const own).cast_mut().cast();
        host::Allreduce(own, (&raw mut all).cast(), 1, abi::int64(), op, comm)
    };
    (code == 0).then_some(all)
}

/// Defines functions that make a communicator. The last argument is its place.
macro_rules! constructors {
    ($($name:ident = $host:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type,)* new: HandlePtr) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                let code = {
                    let _helper = inside_host();
                    host::$host($($argument,)* new)
                };
                adopt(code, new, stringify!($name))
            }
        }
    )*};
}

constructors! {
    MPI_Comm_dup = Comm_dup(comm: Handle);
    MPI_Comm_dup_with_info = Comm_dup_with_info(comm: Handle, info: Handle);
    MPI_Comm_split = Comm_split(comm: Handle, color: c_int, key: c_int);
    MPI_Comm_split_type
        = Comm_split_type(comm: Handle, kind: c_int, key: c_int, info: Handle);
    MPI_Comm_create = Comm_create(comm: Handle, group: Handle);
    MPI_Comm_create_group = Comm_create_group(comm: Handle, group: Handle, tag: c_int);
    MPI_Comm_create_from_group = Comm_create_from_group(
        group: Handle, tag: *mut c_char, info: Handle, errhandler: Handle
    );
    MPI_Intercomm_merge = Intercomm_merge(comm: Handle, high: c_int);
    MPI_Cart_create = Cart_create(
        comm: Handle, n: c_int, dims: Ints, periods: Ints, reorder: c_int
    );
    MPI_Cart_sub = Cart_sub(comm: Handle, remain: Ints);
    MPI_Graph_create = Graph_create(
        comm: Handle, n: c_int, index: Ints, edges: Ints, reorder: c_int
    );
    MPI_Dist_graph_create = Dist_graph_create(
        comm: Handle, n: c_int, sources: Ints, degrees: Ints, destinations: Ints, weights: Ints,
        info: Handle, reorder: c_int
    );
    MPI_Dist_graph_create_adjacent = Dist_graph_create_adjacent(
        comm: Handle, indegree: c_int, sources: Ints, sourceweights: Ints, outdegree: c_int,
        destinations: Ints, destweights: Ints, info: Handle, reorder: c_int
    );
}

/// Forgets a communicator before the host frees it.
unsafe fn forget(comm: HandlePtr) {
    // SAFETY: the program passes the place of a communicator.
    let handle = unsafe { *comm };
    if let Some(front) = state::enter()
        && handle != abi::comm_world()
        && handle != abi::comm_self()
        && let Some(context) = front.comms.remove(handle)
    {
        front.world.remove_communicator(context);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Comm_free(comm: HandlePtr) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        forget(comm);
        let _helper = inside_host();
        host::Comm_free(comm)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Comm_disconnect(comm: HandlePtr) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        forget(comm);
        let _helper = inside_host();
        host::Comm_disconnect(comm)
    }
}
