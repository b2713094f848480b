//! Synchronisation.

use core::ffi::c_int;

use shim::Assert;

use super::with;
use crate::border::{ArrayArg, CountArg, HandleArg, OutArg};
use crate::failure::{Called, Failure};

/// The assertions, by their bits in `strait_assert` in C.
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

#[unsafe(no_mangle)]
extern "C" fn strait_window_fence(window: HandleArg<'_>, promises: c_int) -> c_int {
    with("strait_window_fence", window, |window| Ok(window.fence(promise(promises)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_post(
    window: HandleArg<'_>,
    origins: ArrayArg<'_, u32>,
    count: CountArg<u32>,
    promises: c_int,
) -> c_int {
    with("strait_window_post", window, |window| {
        Ok(window.post(origins.slice(count.widened())?, promise(promises)?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_start(
    window: HandleArg<'_>,
    targets: ArrayArg<'_, u32>,
    count: CountArg<u32>,
    promises: c_int,
) -> c_int {
    with("strait_window_start", window, |window| {
        Ok(window.start(targets.slice(count.widened())?, promise(promises)?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_complete(window: HandleArg<'_>) -> c_int {
    with("strait_window_complete", window, |window| Ok(window.complete()?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_wait(window: HandleArg<'_>) -> c_int {
    with("strait_window_wait", window, |window| Ok(window.wait()?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_test(window: HandleArg<'_>, done: OutArg<'_, c_int>) -> c_int {
    with("strait_window_test", window, |window| {
        done.need()?;
        done.write(window.test()?.into())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_flush(window: HandleArg<'_>, target: u32) -> c_int {
    with("strait_window_flush", window, |window| Ok(window.flush(target)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_flush_all(window: HandleArg<'_>) -> c_int {
    with("strait_window_flush_all", window, |window| Ok(window.flush_all()?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_flush_local(window: HandleArg<'_>, target: u32) -> c_int {
    with("strait_window_flush_local", window, |window| Ok(window.flush_local(target)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_flush_local_all(window: HandleArg<'_>) -> c_int {
    with("strait_window_flush_local_all", window, |window| {
        let targets = 0..window.group().ranks().len() as u32;
        let ended = targets.map(|target| window.flush_local(target));
        Ok(ended.fold(Ok(()), Result::and)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_window_sync(window: HandleArg<'_>) -> c_int {
    with("strait_window_sync", window, |window| {
        window.sync();
        Ok(())
    })
}
