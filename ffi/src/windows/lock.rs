//! Passive synchronisation: locks.

use core::ffi::c_int;

use shim::{LockDesign, LockMode, LockType, Window};

use super::epoch::promise;
use super::with;
use crate::buffer::answer;
use crate::entry::Called;
use crate::failure::Failure;
use crate::handle::Handle;
use crate::options;

/// `strait_lock_counters` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) size: usize,
    pub(crate) mode: u64,
    pub(crate) to_network: u64,
    pub(crate) to_cpu: u64,
    pub(crate) accesses: u64,
    pub(crate) requests: u64,
}

// SAFETY: as declared above.
unsafe impl options::Sized for Counters {}

/// `strait_lock_type` in C.
fn lock_type(number: c_int) -> Called<LockType> {
    match number {
        1 => Ok(LockType::Shared),
        2 => Ok(LockType::Exclusive),
        number => Err(Failure::argument(format!("lock type {number}: use a strait_lock_type"))),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_lock(
    window: Handle,
    of: c_int,
    target: u32,
    promises: c_int,
) -> c_int {
    let lock = |window: &Window<'_>| Ok(window.lock(lock_type(of)?, target, promise(promises)?)?);
    // SAFETY: by the contract.
    unsafe { with("strait_window_lock", window, lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_unlock(window: Handle, target: u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_unlock", window, |window| Ok(window.unlock(target)?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_lock_all(window: Handle, promises: c_int) -> c_int {
    let lock = |window: &Window<'_>| Ok(window.lock_all(promise(promises)?)?);
    // SAFETY: by the contract.
    unsafe { with("strait_window_lock_all", window, lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_unlock_all(window: Handle) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_unlock_all", window, |window| Ok(window.unlock_all()?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_lock_design(window: Handle, design: *mut c_int) -> c_int {
    let tell = |window: &Window<'_>| {
        let place = LockDesign::ALL.iter().position(|known| *known == window.lock_design());
        // SAFETY: by the contract.
        unsafe { answer(design, place.map_or(0, |place| place as c_int + 1)) }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_lock_design", window, tell) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_lock_counters(window: Handle, counters: *mut Counters) -> c_int {
    let tell = |window: &Window<'_>| {
        let counted = window.lock_counters();
        let told = Counters {
            size: size_of::<Counters>(),
            mode: match counted.mode {
                LockMode::Cpu => 0,
                LockMode::Network => 1,
            },
            to_network: counted.to_network,
            to_cpu: counted.to_cpu,
            accesses: counted.accesses,
            requests: counted.requests,
        };
        // SAFETY: by the contract.
        unsafe { options::write(counters, &told) }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_lock_counters", window, tell) }
}
