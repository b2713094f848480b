//! A process's place in a job.

use core::ffi::c_int;

use shim::World;

use crate::buffer::{answer, need};
use crate::entry::{Called, enter, silence};
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::instance::Instance;
use crate::options::{self, Options};
use crate::store::{Callbacks, Exchange};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn strait_init(
    abi: u32,
    options: *const Options,
    world: *mut Handle,
) -> c_int {
    silence();
    enter("strait_init", Handle::NONE, || {
        options::check_abi(abi)?;
        need(world)?;
        // SAFETY: by the contract.
        let options = unsafe { options::read(options) }?.unwrap_or(Options::NONE);
        // SAFETY: by the contract.
        let joined = unsafe { join(&options) };
        let joined = joined.inspect_err(|failure| {
            failure.say("strait_init");
            options.log();
        })?;
        let handle = handle::open(|handle| Instance::new(handle, joined, options))?;
        // SAFETY: by the contract.
        unsafe { answer(world, handle) }
    })
}

/// # Safety
///
/// The exchange, if there is one, is as `strait.h` says.
unsafe fn join(options: &Options) -> Called<World> {
    // SAFETY: by the contract.
    let Some(exchange) = (unsafe { options::read::<Exchange>(options.exchange) })? else {
        return Ok(World::init()?);
    };
    // SAFETY: by the contract.
    let nodes = unsafe { exchange.nodes() }?;
    let store = Box::new(Callbacks::new(exchange));
    Ok(World::init_with(exchange.rank, exchange.ranks, store, nodes)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_init_in_process(abi: u32, ranks: u32, worlds: *mut Handle) -> c_int {
    silence();
    enter("strait_init_in_process", Handle::NONE, || {
        options::check_abi(abi)?;
        need(worlds)?;
        let made = World::in_process(ranks)?;
        let opened = made
            .into_iter()
            .map(|world| handle::open(|handle| Instance::new(handle, world, Options::NONE)));
        let opened = opened.collect::<Called<Vec<_>>>()?;
        // SAFETY: by the contract there is room for as many handles as ranks.
        unsafe { core::ptr::copy_nonoverlapping(opened.as_ptr(), worlds, opened.len()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_finalize(world: Handle) -> c_int {
    enter("strait_finalize", world, || {
        // SAFETY: by the contract no other thread uses the world.
        unsafe {
            handle::world(world)?.check_closed()?;
            handle::close(world)?.finalize()
        }
    })
}

/// Answers `place` with what `ask` says of a world.
///
/// # Safety
///
/// As `strait.h` says of the function called `call`.
unsafe fn tell<T>(
    call: &'static str,
    world: Handle,
    place: *mut T,
    ask: impl FnOnce(&World) -> Called<T>,
) -> c_int {
    enter(call, world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        unsafe { answer(place, ask(instance.world())?) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_rank(world: Handle, rank: *mut u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { tell("strait_rank", world, rank, |world| Ok(world.rank())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_size(world: Handle, ranks: *mut u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { tell("strait_size", world, ranks, |world| Ok(world.size())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_node_of(world: Handle, rank: u32, node: *mut u32) -> c_int {
    let ask =
        |world: &World| world.node_of(rank).ok_or_else(|| Failure::no_rank(rank, world.size()));
    // SAFETY: by the contract.
    unsafe { tell("strait_node_of", world, node, ask) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_nodes(world: Handle, nodes: *mut u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { tell("strait_nodes", world, nodes, |world| Ok(world.nodes().count())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_abort(world: Handle, code: c_int) -> c_int {
    enter("strait_abort", world, || {
        // SAFETY: by the contract.
        unsafe { handle::world(world) }?.world().abort(code)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_progress(world: Handle) -> c_int {
    enter("strait_progress", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        instance.world().endpoint().progress()?;
        instance.deliver()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_barrier(world: Handle, context: u32) -> c_int {
    enter("strait_barrier", world, || {
        // SAFETY: by the contract.
        Ok(unsafe { handle::world(world) }?.endpoint(context)?.barrier()?)
    })
}
