//! The start of MPI.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use strait::World;

use super::base::Base;
use super::comms::{Comm, CommTable};
use super::explain::explain;
use super::host::{self, HandlePtr, Ints, Pointer};
use super::join::join;
use super::requests::{DONE, FROM_NONE};
use super::state::{self, Front};
use super::{bypass, libraries, names, shutdown, windows};
use crate::abi::{self, Handle};

/// Contexts of the two communicators that every program has.
const CONTEXT_WORLD: u32 = 0;
const CONTEXT_SELF: u32 = 1;

/// Polls of a wait in a collective operation or a window before it lets other threads call MPI. One
/// of them may have what the wait needs, or a thread of the peer may wait for its call.
const POLLS_PER_TURN: u32 = 64;

/// Tag of the receive that is never matched.
const STANDING_TAG: c_int = 0;

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init(argc: Ints, argv: Pointer) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    let code = unsafe { host::Init(argc, argv) };
    if code == 0 {
        start();
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init_thread(
    argc: Ints,
    argv: Pointer,
    required: c_int,
    provided: Ints,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    let code = unsafe { host::Init_thread(argc, argv, required, provided) };
    if code == 0 {
        start();
    }
    code
}

/// Opens the front. If some rank cannot join, all messages stay the host's on all ranks.
fn start() {
    bypass::set_served();
    if let Err(why) = abi::load(libraries::data) {
        explain(|| format!("all messages are the host's: {why}"));
        return;
    }
    [DONE, FROM_NONE].into_iter().for_each(abi::prepare_handle);
    let Some((private, rank, ranks)) = private_comm() else { return };
    match join(private, rank, ranks) {
        Ok(world) => {
            if rank == 0 {
                explain(|| format!("messages are Strait's: {}", world.nodes()));
            }
            open(world, private);
        }
        Err(why) if rank == 0 => explain(|| format!("all messages are the host's: {why}")),
        Err(_) => {}
    }
}

/// Makes a communicator that no program has, and returns it with this process's rank and the number
/// of ranks.
fn private_comm() -> Option<(Handle, u32, u32)> {
    let (mut private, mut rank, mut ranks) = (abi::comm_null(), 0, 0);
    // SAFETY: MPI is initialised, and the results have places.
    let made = unsafe {
        host::Comm_dup(abi::comm_world(), &raw mut private) == 0
            && host::Comm_rank(private, &raw mut rank) == 0
            && host::Comm_size(private, &raw mut ranks) == 0
    };
    made.then_some((private, rank as u32, ranks as u32))
}

fn open(mut world: World, private: Handle) {
    // The launcher may have bound each rank to a processor. A bad setting was refused before.
    let cpus = world.recount_processors();
    let neighbours = world.nodes().ranks_on(world.node()).count();
    let is_crowded = cpus.is_ok_and(|cpus| cpus < neighbours);
    world.set_before_sleep(windows::before_sleep);
    let mut level = 0;
    // SAFETY: MPI is initialised, and the result has a place.
    let known = unsafe { host::Query_thread(&raw mut level) } == 0;
    let has_threads = !known || level >= abi::THREAD_MULTIPLE;
    if has_threads {
        world.set_polls_before_sleep(POLLS_PER_TURN);
    }
    let (size, rank) = (world.size(), world.rank());
    let everyone = (0..size).collect();
    let all = Comm::new(abi::comm_world(), CONTEXT_WORLD, everyone, size);
    let own = Comm::new(abi::comm_self(), CONTEXT_SELF, Box::new([rank]), size);
    let front = Box::new(Front {
        comms: CommTable::new(all, own),
        requests: Default::default(),
        messages: Default::default(),
        host_open: Default::default(),
        tests: Default::default(),
        is_host_due: Default::default(),
        is_crowded,
        in_vain: Default::default(),
        standing: standing_receive(private).into(),
        private,
        refuses_aliases: Default::default(),
        codes: Default::default(),
        memory: Default::default(),
        windows: Default::default(),
        accumulate_locks: Default::default(),
        base: Base { types: Default::default(), world },
    });
    front.types.prepare(private);
    for handle in [abi::comm_world(), abi::comm_self()] {
        front.comms.find(handle).into_iter().for_each(|comm| names::record(&front, &comm, ""));
    }
    front.accumulate_locks.open(&front.world);
    if !shutdown::register() {
        return;
    }
    state::open(front, has_threads);
}

/// Starts the receive that is never matched. To ask for its status makes the host progress.
fn standing_receive(private: Handle) -> Handle {
    let mut request = abi::request_null();
    let place: HandlePtr = &raw mut request;
    let nothing: *mut c_void = null_mut();
    // SAFETY: the receive has no buffer, and the result has a place.
    unsafe {
        host::Irecv(nothing, 0, abi::byte(), abi::ANY_SOURCE, STANDING_TAG, private, place);
    }
    request
}
