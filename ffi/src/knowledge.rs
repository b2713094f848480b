//! What a world says of itself, and memory that it knows better than other.

use core::ffi::{c_int, c_void};

use crate::buffer::{answer, need};
use crate::entry::enter;
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::options;

/// `strait_info` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Info {
    pub(crate) size: usize,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) node: u32,
    pub(crate) nodes: u32,
    pub(crate) fastbox_max: u64,
    pub(crate) eager_max: u64,
    pub(crate) parcel_max: u64,
    pub(crate) unexpected_max: u64,
    pub(crate) stream_max: u64,
}

// SAFETY: as declared above.
unsafe impl options::Sized for Info {}

/// `strait_counters` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) size: usize,
    pub(crate) unexpected_bytes: u64,
    pub(crate) unexpected_peak: u64,
    pub(crate) rtrs_sent: u64,
    pub(crate) rtrs_retracted: u64,
    pub(crate) rtrs_missed: u64,
    pub(crate) rtrs_heard: u64,
    pub(crate) rtrs_used: u64,
    pub(crate) rtrs_stopped: u64,
    pub(crate) registration_hits: u64,
    pub(crate) registration_misses: u64,
    pub(crate) registration_evictions: u64,
    pub(crate) registration_invalidations: u64,
}

// SAFETY: as declared above.
unsafe impl options::Sized for Counters {}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_get_info(world: Handle, info: *mut Info) -> c_int {
    enter("strait_get_info", world, || {
        // SAFETY: by the contract.
        let world = unsafe { handle::world(world) }?.world();
        let tuning = world.tuning();
        let told = Info {
            size: size_of::<Info>(),
            rank: world.rank(),
            ranks: world.size(),
            node: world.node(),
            nodes: world.nodes().count(),
            fastbox_max: tuning.fastbox_max as u64,
            eager_max: tuning.eager_max as u64,
            parcel_max: tuning.parcel_max as u64,
            unexpected_max: tuning.unexpected_max as u64,
            stream_max: tuning.stream_max as u64,
        };
        // SAFETY: by the contract.
        unsafe { options::write(info, &told) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_get_counters(world: Handle, counters: *mut Counters) -> c_int {
    enter("strait_get_counters", world, || {
        // SAFETY: by the contract.
        let world = unsafe { handle::world(world) }?.world();
        let (held, rtrs, registrations) = (world.held(), world.rtrs(), world.registrations());
        let told = Counters {
            size: size_of::<Counters>(),
            unexpected_bytes: held.bytes as u64,
            unexpected_peak: held.peak as u64,
            rtrs_sent: rtrs.sent,
            rtrs_retracted: rtrs.retracted,
            rtrs_missed: rtrs.missed,
            rtrs_heard: rtrs.heard,
            rtrs_used: rtrs.used,
            rtrs_stopped: rtrs.stopped,
            registration_hits: registrations.hits,
            registration_misses: registrations.misses,
            registration_evictions: registrations.evictions,
            registration_invalidations: registrations.invalidations,
        };
        // SAFETY: by the contract.
        unsafe { options::write(counters, &told) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_memory_allocate(
    world: Handle,
    bytes: usize,
    base: *mut *mut c_void,
) -> c_int {
    enter("strait_memory_allocate", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        need(base)?;
        if bytes == 0 {
            return Err(Failure::argument("memory of no bytes"));
        }
        let mut memory = instance.world().alloc::<u8>(bytes)?;
        let start = memory.as_mut_ptr();
        instance.memory().insert(start.addr(), memory);
        // SAFETY: by the contract.
        unsafe { answer(base, start.cast()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_memory_free(world: Handle, base: *mut c_void) -> c_int {
    enter("strait_memory_free", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        match instance.memory().remove(&base.addr()) {
            Some(_) => Ok(()),
            None => Err(Failure::argument(format!(
                "no memory of this world's begins at {base:?}: pass what strait_memory_allocate gave, once"
            ))),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_invalidate(world: Handle, base: *const c_void, bytes: usize) -> c_int {
    enter("strait_invalidate", world, || {
        // SAFETY: by the contract.
        let world = unsafe { handle::world(world) }?.world();
        Ok(world.forget_memory(base.addr()..base.addr().saturating_add(bytes))?)
    })
}
