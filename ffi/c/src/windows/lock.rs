//! Passive synchronisation: locks.

use core::ffi::c_int;

use shim::{LockDesign, LockMode, LockType};

use super::epoch::promise;
use super::with;
use crate::border::{HandleArg, OutArg, StructOutArg, Structure};
use crate::failure::{Called, Failure};

/// `strait_lock_counters` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CLockCounters {
    pub(crate) size: usize,
    pub(crate) mode: u64,
    pub(crate) to_network: u64,
    pub(crate) to_cpu: u64,
    pub(crate) accesses: u64,
    pub(crate) requests: u64,
}

// SAFETY: `repr(C)`, the first field is a size, and all fields are numbers.
unsafe impl Structure for CLockCounters {}

/// `strait_lock_type` in C.
fn lock_type(number: c_int) -> Called<LockType> {
    match number {
        1 => Ok(LockType::Shared),
        2 => Ok(LockType::Exclusive),
        number => Err(Failure::argument(format!("lock type {number}: use a strait_lock_type"))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_lock(
    window: HandleArg<'_>,
    of: c_int,
    target: u32,
    promises: c_int,
) -> c_int {
    with("strait_window_lock", window, |window| {
        Ok(window.lock(lock_type(of)?, target, promise(promises)?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_unlock(window: HandleArg<'_>, target: u32) -> c_int {
    with("strait_window_unlock", window, |window| Ok(window.unlock(target)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_lock_all(window: HandleArg<'_>, promises: c_int) -> c_int {
    with("strait_window_lock_all", window, |window| Ok(window.lock_all(promise(promises)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_unlock_all(window: HandleArg<'_>) -> c_int {
    with("strait_window_unlock_all", window, |window| Ok(window.unlock_all()?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_lock_design(window: HandleArg<'_>, design: OutArg<'_, c_int>) -> c_int {
    with("strait_window_lock_design", window, |window| {
        let place = LockDesign::ALL.iter().position(|known| *known == window.lock_design());
        design.write(place.map_or(0, |place| place as c_int + 1))
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_lock_counters(
    window: HandleArg<'_>,
    counters: StructOutArg<'_, CLockCounters>,
) -> c_int {
    with("strait_window_lock_counters", window, |window| {
        let counted = window.lock_counters();
        counters.write(&CLockCounters {
            size: size_of::<CLockCounters>(),
            mode: match counted.mode {
                LockMode::Cpu => 0,
                LockMode::Network => 1,
            },
            to_network: counted.to_network,
            to_cpu: counted.to_cpu,
            accesses: counted.accesses,
            requests: counted.requests,
        })
    })
}
