//! The five functions of MPICH2's RDMA channel (`[RdmaChannel04]` §3.2), and one that names a
//! connection.
//!
//! [`RdmaChannel`] moves the bytes, on the rings of core.

use core::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shim::raw::{Part, RdmaChannel};
use shim::{Error, World};

use crate::border::{CountArg, HandleArg, LastingPartsArg, OutArg};
use crate::entry::{enter, silence};
use crate::failure::{Code, Failure};
use crate::handle::{Handle, HandleKind};
use crate::options::COptions;
use crate::world::{finalize, init};
use crate::worlds;

/// The channel of the process. The functions take no channel argument, so there is only one.
static CHANNEL: Mutex<ChannelGroups> =
    Mutex::new(ChannelGroups { group: Handle::NONE, made_here: Handle::NONE });

struct ChannelGroups {
    /// The process group that the channel connects.
    group: Handle,
    /// A process group that `strait_rdma_init_process_group` made.
    made_here: Handle,
}

fn channel() -> MutexGuard<'static, ChannelGroups> {
    CHANNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
extern "C" fn strait_rdma_init_process_group(
    has_parent: OutArg<'_, c_int>,
    group: OutArg<'_, Handle>,
    rank: OutArg<'_, c_int>,
) -> c_int {
    silence();
    let mut made = Handle::NONE;
    let code = enter("strait_rdma_init_process_group", HandleArg::NULL, || {
        has_parent.need()?;
        group.need()?;
        rank.need()
    });
    if code != 0 {
        return code;
    }
    let code = enter("strait_init", HandleArg::NULL, || {
        made = init(COptions::NONE)?;
        Ok(())
    });
    if code != 0 {
        return code;
    }
    // SAFETY: the world is new, so no other thread uses it.
    let world = unsafe { HandleArg::of_call(made) };
    enter("strait_rdma_init_process_group", world, || {
        channel().made_here = made;
        has_parent.write(0)?;
        rank.write(world.world()?.world().rank() as c_int)?;
        group.write(made)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rdma_init(group: HandleArg<'_>, rank: c_int) -> c_int {
    enter("strait_rdma_init", group, || {
        let instance = group.world()?;
        let own = instance.world().rank();
        if u32::try_from(rank) != Ok(own) {
            return Err(Failure::argument(format!(
                "rank {rank} is not this process, which is {own}"
            )));
        }
        let mut channel = channel();
        if worlds::is_open(channel.group) {
            return Err(Failure::new(Code::Busy, "the process has a channel: finalize it first"));
        }
        channel.group = group.handle();
        instance.open_channel();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rdma_finalize() -> c_int {
    // SAFETY: the caller keeps the promises of `strait.h` for a call with the group's handle.
    let group = unsafe { HandleArg::of_call(channel().group) };
    enter("strait_rdma_finalize", group, || {
        let mut channel = channel();
        group.world()?.close_channel()?;
        let made_here = core::mem::replace(&mut channel.made_here, Handle::NONE);
        channel.group = Handle::NONE;
        drop(channel);
        if made_here == group.handle() { finalize(group) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rdma_vc(group: HandleArg<'_>, rank: u32, vc: OutArg<'_, Handle>) -> c_int {
    enter("strait_rdma_vc", group, || vc.write(group.world()?.pipe_handle(rank)?))
}

/// Calls `act` to move bytes between a connection's pipe and a list of buffers, and returns their
/// number.
fn move_data(
    call: &'static str,
    vc: HandleArg<'_>,
    (parts, count): (LastingPartsArg<'_>, CountArg<c_int>),
    moved: OutArg<'_, c_int>,
    act: impl FnOnce(&mut RdmaChannel, &World, u32, &[Part]) -> Result<usize, Error>,
) -> c_int {
    enter(call, vc, || {
        moved.write(0)?;
        let instance = vc.world_of(HandleKind::Connection)?;
        let parts = parts.list(count)?;
        if parts.iter().map(|part| part.length).sum::<usize>() > c_int::MAX as usize {
            return Err(Failure::argument(
                "more bytes than an int counts: put or read some of them",
            ));
        }
        let bytes = instance
            .use_channel(vc.handle(), |channel, world, peer| act(channel, world, peer, &parts))?;
        moved.write(bytes as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rdma_put_datav(
    vc: HandleArg<'_>,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    num_bytes: OutArg<'_, c_int>,
) -> c_int {
    let call = "strait_rdma_put_datav";
    move_data(call, vc, (parts, count), num_bytes, |channel, world, peer, parts| {
        // SAFETY: the caller leaves the buffers alone until the bytes are counted (contract of
        // `LastingPartsArg`).
        unsafe { channel.put(world, peer, parts) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_rdma_read_datav(
    vc: HandleArg<'_>,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    num_bytes: OutArg<'_, c_int>,
) -> c_int {
    let call = "strait_rdma_read_datav";
    move_data(call, vc, (parts, count), num_bytes, |channel, world, peer, parts| {
        // SAFETY: the caller leaves the buffers alone until the bytes are counted (contract of
        // `LastingPartsArg`).
        unsafe { channel.read(world, peer, parts) }
    })
}
