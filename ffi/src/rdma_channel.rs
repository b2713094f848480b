//! The five functions of MPICH2's RDMA channel (`[RdmaChannel04]` §3.2), and one that names a connection.

use core::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::buffer::{answer, need};
use crate::entry::{Called, enter};
use crate::failure::{Code, Failure};
use crate::handle::{self, Handle, Kind};
use crate::instance::Instance;
use crate::messages::list;
use crate::options::ABI;
use crate::world::strait_init;

/// The channel of the process: the functions' names leave room for one.
static CHANNEL: Mutex<Channel> =
    Mutex::new(Channel { group: Handle::NONE, made_here: Handle::NONE });

struct Channel {
    /// The process group that it connects.
    group: Handle,
    /// One that `strait_rdma_init_process_group` made.
    made_here: Handle,
}

fn channel() -> MutexGuard<'static, Channel> {
    CHANNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rdma_init_process_group(
    has_parent: *mut c_int,
    group: *mut Handle,
    rank: *mut c_int,
) -> c_int {
    let mut made = Handle::NONE;
    let checked = enter("strait_rdma_init_process_group", Handle::NONE, || {
        need(has_parent)?;
        need(group)?;
        need(rank)
    });
    if checked != 0 {
        return checked;
    }
    // SAFETY: no options, and a place for the answer.
    let code = unsafe { strait_init(ABI, core::ptr::null(), &raw mut made) };
    if code != 0 {
        return code;
    }
    enter("strait_rdma_init_process_group", made, || {
        channel().made_here = made;
        // SAFETY: by the contract.
        unsafe {
            answer(has_parent, 0)?;
            answer(rank, handle::world(made)?.world().rank() as c_int)?;
            answer(group, made)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rdma_init(group: Handle, rank: c_int) -> c_int {
    enter("strait_rdma_init", group, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(group) }?;
        let own = instance.world().rank();
        if u32::try_from(rank) != Ok(own) {
            return Err(Failure::argument(format!(
                "rank {rank} is not this process, which is {own}"
            )));
        }
        let mut channel = channel();
        // SAFETY: by the contract.
        if unsafe { handle::find(channel.group) }.is_some() {
            return Err(Failure::new(Code::Busy, "the process has a channel: finalize it first"));
        }
        channel.group = group;
        instance.open_pipes();
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rdma_finalize() -> c_int {
    let group = channel().group;
    enter("strait_rdma_finalize", group, || {
        let mut channel = channel();
        // SAFETY: by the contract.
        unsafe { handle::world(group) }?.close_pipes();
        let made_here = core::mem::replace(&mut channel.made_here, Handle::NONE);
        channel.group = Handle::NONE;
        drop(channel);
        if made_here == group {
            // SAFETY: by the contract.
            unsafe {
                handle::world(group)?.check_closed()?;
                handle::close(group)?.finalize()?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rdma_vc(group: Handle, rank: u32, vc: *mut Handle) -> c_int {
    enter("strait_rdma_vc", group, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(group) }?;
        // SAFETY: by the contract.
        unsafe { answer(vc, instance.pipe_handle(rank)?) }
    })
}

/// Has `act` move bytes between a connection's pipe and a list of buffers, and answers with their number.
///
/// # Safety
///
/// As `strait.h` says of the function called `call`.
unsafe fn move_data(
    call: &'static str,
    vc: Handle,
    parts: *const libc::iovec,
    count: c_int,
    moved: *mut c_int,
    act: impl FnOnce(&Instance, &[shim::Part]) -> Called<usize>,
) -> c_int {
    enter(call, vc, || {
        need(moved)?;
        // SAFETY: by the contract.
        unsafe { answer(moved, 0) }?;
        // SAFETY: by the contract.
        let instance = unsafe { handle::world_of(vc, Kind::Connection) }?;
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        if parts.iter().map(|part| part.length).sum::<usize>() > c_int::MAX as usize {
            return Err(Failure::argument(
                "more bytes than an int counts: put or read some of them",
            ));
        }
        let bytes = act(instance, &parts)?;
        // SAFETY: by the contract.
        unsafe { answer(moved, bytes as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rdma_put_datav(
    vc: Handle,
    parts: *const libc::iovec,
    count: c_int,
    num_bytes: *mut c_int,
) -> c_int {
    let put = |instance: &Instance, parts: &[shim::Part]| {
        let (peer, mut pipe) = instance.lend_pipe(vc)?;
        let put = pipe.put(instance, peer, parts);
        instance.return_pipe(vc, peer, pipe);
        put
    };
    // SAFETY: by the contract.
    unsafe { move_data("strait_rdma_put_datav", vc, parts, count, num_bytes, put) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rdma_read_datav(
    vc: Handle,
    parts: *const libc::iovec,
    count: c_int,
    num_bytes: *mut c_int,
) -> c_int {
    let read = |instance: &Instance, parts: &[shim::Part]| {
        let (peer, mut pipe) = instance.lend_pipe(vc)?;
        let read = pipe.read(instance, peer, parts);
        instance.return_pipe(vc, peer, pipe);
        read
    };
    // SAFETY: by the contract.
    unsafe { move_data("strait_rdma_read_datav", vc, parts, count, num_bytes, read) }
}
