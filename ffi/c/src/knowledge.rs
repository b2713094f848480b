//! Facts about a world, memory in its segment, and news about unmapped memory.

use core::ffi::{c_int, c_void};

use crate::border::{HandleArg, OutArg, StructOutArg, Structure};
use crate::entry::enter;
use crate::failure::Failure;

/// `strait_info` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CInfo {
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

// SAFETY: `repr(C)`, the first field is a size, and all fields are numbers.
unsafe impl Structure for CInfo {}

/// `strait_counters` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CCounters {
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

// SAFETY: `repr(C)`, the first field is a size, and all fields are numbers.
unsafe impl Structure for CCounters {}

#[unsafe(no_mangle)]
extern "C" fn strait_get_info(world: HandleArg<'_>, info: StructOutArg<'_, CInfo>) -> c_int {
    enter("strait_get_info", world, || {
        let world = world.world()?.world();
        let tuning = world.tuning();
        info.write(&CInfo {
            size: size_of::<CInfo>(),
            rank: world.rank(),
            ranks: world.size(),
            node: world.node(),
            nodes: world.nodes().count(),
            fastbox_max: tuning.fastbox_max as u64,
            eager_max: tuning.eager_max as u64,
            parcel_max: tuning.parcel_max as u64,
            unexpected_max: tuning.unexpected_max as u64,
            stream_max: tuning.stream_max as u64,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_get_counters(
    world: HandleArg<'_>,
    counters: StructOutArg<'_, CCounters>,
) -> c_int {
    enter("strait_get_counters", world, || {
        let world = world.world()?.world();
        let (held, rtrs, registrations) = (world.held(), world.rtrs(), world.registrations());
        counters.write(&CCounters {
            size: size_of::<CCounters>(),
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
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_memory_allocate(
    world: HandleArg<'_>,
    bytes: usize,
    base: OutArg<'_, *mut c_void>,
) -> c_int {
    enter("strait_memory_allocate", world, || {
        let instance = world.world()?;
        base.need()?;
        if bytes == 0 {
            return Err(Failure::argument("memory of no bytes"));
        }
        let mut memory = instance.world().alloc::<u8>(bytes)?;
        let start = memory.as_mut_ptr();
        instance.memory().insert(start.addr(), memory);
        base.write(start.cast())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_memory_free(world: HandleArg<'_>, base: *mut c_void) -> c_int {
    enter("strait_memory_free", world, || match world.world()?.memory().remove(&base.addr()) {
        Some(_) => Ok(()),
        None => Err(Failure::argument(format!(
            "no memory of this world begins at {base:?}: \
                 pass what strait_memory_allocate gave, once"
        ))),
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_invalidate(world: HandleArg<'_>, base: *const c_void, bytes: usize) -> c_int {
    enter("strait_invalidate", world, || {
        let world = world.world()?.world();
        Ok(world.forget_memory(base.addr()..base.addr().saturating_add(bytes))?)
    })
}
