//! Synchronisation.

use core::ffi::c_int;

use shim::{Assert, Window};

use super::with;
use crate::buffer::{answer, need};
use crate::entry::Called;
use crate::failure::Failure;
use crate::handle::Handle;

/// What `strait_assert` in C calls them.
const PROMISES: [(c_int, Assert); 5] = [
    (1, Assert::NO_STORE),
    (2, Assert::NO_PUT),
    (4, Assert::NO_PRECEDE),
    (8, Assert::NO_SUCCEED),
    (16, Assert::NO_CHECK),
];

pub(super) fn promise(bits: c_int) -> Called<Assert> {
    if bits & !31 != 0 {
        return Err(Failure::argument(format!("promises {bits:#x}: join STRAIT_NO_* by |")));
    }
    let made = PROMISES.iter().filter(|(bit, _)| bits & bit != 0);
    Ok(made.fold(Assert::NONE, |all, (_, promise)| all | *promise))
}

/// The places that C lists.
///
/// # Safety
///
/// `places` leads to `count` of them.
unsafe fn places<'a>(places: *const u32, count: u32) -> Called<&'a [u32]> {
    if count == 0 {
        return Ok(&[]);
    }
    need(places)?;
    // SAFETY: by the contract.
    Ok(unsafe { core::slice::from_raw_parts(places, count as usize) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_fence(window: Handle, promises: c_int) -> c_int {
    let fence = |window: &Window<'_>| Ok(window.fence(promise(promises)?)?);
    // SAFETY: by the contract.
    unsafe { with("strait_window_fence", window, fence) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_post(
    window: Handle,
    origins: *const u32,
    count: u32,
    promises: c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        with("strait_window_post", window, |window| {
            Ok(window.post(places(origins, count)?, promise(promises)?)?)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_start(
    window: Handle,
    targets: *const u32,
    count: u32,
    promises: c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        with("strait_window_start", window, |window| {
            Ok(window.start(places(targets, count)?, promise(promises)?)?)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_complete(window: Handle) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_complete", window, |window| Ok(window.complete()?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_wait(window: Handle) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_wait", window, |window| Ok(window.wait()?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_test(window: Handle, done: *mut c_int) -> c_int {
    let test = |window: &Window<'_>| {
        need(done)?;
        // SAFETY: by the contract.
        unsafe { answer(done, window.test()?.into()) }
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_test", window, test) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_flush(window: Handle, target: u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_flush", window, |window| Ok(window.flush(target)?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_flush_all(window: Handle) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_flush_all", window, |window| Ok(window.flush_all()?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_flush_local(window: Handle, target: u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { with("strait_window_flush_local", window, |window| Ok(window.flush_local(target)?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_flush_local_all(window: Handle) -> c_int {
    // What has no request is complete here when its call returns, at whichever target.
    // SAFETY: by the contract.
    unsafe { with("strait_window_flush_local_all", window, |_| Ok(())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_window_sync(window: Handle) -> c_int {
    let sync = |window: &Window<'_>| {
        window.sync();
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with("strait_window_sync", window, sync) }
}
