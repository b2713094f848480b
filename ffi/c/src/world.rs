//! Functions by which a process joins and leaves a job.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::MaybeUninit;

use shim::World;

use crate::border::{ArrayArg, CountArg, HandleArg, OutArg, StructInArg, read_structure};
use crate::entry::{enter, silence};
use crate::failure::{Called, Failure};
use crate::handle::Handle;
use crate::instance::Instance;
use crate::options::{self, COptions};
use crate::store::{CExchange, Callbacks};
use crate::worlds;

#[unsafe(no_mangle)]
extern "C" fn strait_init(
    abi: u32,
    options: StructInArg<'_, COptions>,
    world: OutArg<'_, Handle>,
) -> c_int {
    silence();
    enter("strait_init", HandleArg::NULL, || {
        options::check_abi(abi)?;
        world.need()?;
        let options = options.read()?.unwrap_or(COptions::NONE);
        world.write(init(options)?)
    })
}

/// Joins the job, for `strait_init`.
pub(crate) fn init(options: COptions) -> Called<Handle> {
    let joined = join(&options).inspect_err(|failure| {
        failure.say("strait_init");
        options.log();
    })?;
    joined.take_warnings().iter().for_each(|warning| options.warn(warning));
    worlds::open(|handle| Instance::new(handle, joined, options))
}

fn join(options: &COptions) -> Called<World> {
    // SAFETY: `strait_init` has read the options from C, which keeps the exchange during the call.
    let Some(exchange) = (unsafe { read_structure::<CExchange>(options.exchange) })? else {
        return Ok(World::init()?);
    };
    // SAFETY: `strait_init` has read the options from C, which keeps the list of nodes during the
    // call.
    let nodes = unsafe { exchange.nodes() }?;
    let store = Box::new(Callbacks::new(exchange));
    Ok(World::init_with(exchange.rank, exchange.ranks, store, nodes)?)
}

#[unsafe(no_mangle)]
extern "C" fn strait_init_in_process(
    abi: u32,
    ranks: CountArg<u32>,
    worlds: ArrayArg<'_, Cell<MaybeUninit<Handle>>>,
) -> c_int {
    silence();
    enter("strait_init_in_process", HandleArg::NULL, || {
        options::check_abi(abi)?;
        worlds.need()?;
        let made = World::in_process(ranks.get())?;
        let opened = made
            .into_iter()
            .map(|world| worlds::open(|handle| Instance::new(handle, world, COptions::NONE)));
        let opened = opened.collect::<Called<Vec<_>>>()?;
        for (place, handle) in worlds.slice(ranks.widened())?.iter().zip(opened) {
            place.set(MaybeUninit::new(handle));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_finalize(world: HandleArg<'_>) -> c_int {
    enter("strait_finalize", world, || finalize(world))
}

/// Leaves the job, if nothing is open in the world.
pub(crate) fn finalize(world: HandleArg<'_>) -> Called {
    world.world()?.check_closed()?;
    // SAFETY: `check_closed` no longer uses its reference.
    unsafe { world.close() }?.finalize()
}

/// Returns to C what `ask` says of a world.
fn tell<T>(
    call: &'static str,
    world: HandleArg<'_>,
    place: OutArg<'_, T>,
    ask: impl FnOnce(&World) -> Called<T>,
) -> c_int {
    enter(call, world, || place.write(ask(world.world()?.world())?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_rank(world: HandleArg<'_>, rank: OutArg<'_, u32>) -> c_int {
    tell("strait_rank", world, rank, |world| Ok(world.rank()))
}

#[unsafe(no_mangle)]
extern "C" fn strait_size(world: HandleArg<'_>, ranks: OutArg<'_, u32>) -> c_int {
    tell("strait_size", world, ranks, |world| Ok(world.size()))
}

#[unsafe(no_mangle)]
extern "C" fn strait_node_of(world: HandleArg<'_>, rank: u32, node: OutArg<'_, u32>) -> c_int {
    tell("strait_node_of", world, node, |world| {
        world.node_of(rank).ok_or_else(|| Failure::no_rank(rank, world.size()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_nodes(world: HandleArg<'_>, nodes: OutArg<'_, u32>) -> c_int {
    tell("strait_nodes", world, nodes, |world| Ok(world.nodes().count()))
}

#[unsafe(no_mangle)]
extern "C" fn strait_abort(world: HandleArg<'_>, code: c_int) -> c_int {
    enter("strait_abort", world, || world.world()?.world().abort(code))
}

#[unsafe(no_mangle)]
extern "C" fn strait_progress(world: HandleArg<'_>) -> c_int {
    enter("strait_progress", world, || world.world()?.progress())
}

#[unsafe(no_mangle)]
extern "C" fn strait_barrier(world: HandleArg<'_>, context: u32) -> c_int {
    enter("strait_barrier", world, || Ok(world.world()?.endpoint(context)?.barrier()?))
}
