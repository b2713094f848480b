//! Active synchronisation: fences, and epochs of groups (MPI-5.0 §12.5.1, §12.5.2).

use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use strait::Assert;

use super::errors::call;
use super::host;
use super::refusal::WindowRefusal;
use super::table::{AccessEpoch, NamedGroup, Win};
use crate::abi::{Handle, windows as abi};
use crate::front::host::{HandlePtr, Ints};
use crate::front::shared::Shared;

/// Returns the promises of a call.
#[inline]
pub(super) fn promises(bits: c_int) -> Assert {
    if bits == 0 {
        return Assert::NONE;
    }
    let all = [
        (abi::MODE_NOSTORE, Assert::NO_STORE),
        (abi::MODE_NOPUT, Assert::NO_PUT),
        (abi::MODE_NOPRECEDE, Assert::NO_PRECEDE),
        (abi::MODE_NOSUCCEED, Assert::NO_SUCCEED),
        (abi::MODE_NOCHECK, Assert::NO_CHECK),
    ];
    let made = all.iter().filter(|(bit, _)| bits & bit != 0);
    made.fold(Assert::NONE, |made, (_, promise)| made | *promise)
}

/// Refuses a call that does not fit what the program may do now.
pub(super) const fn in_order(fits: bool) -> Result<(), WindowRefusal> {
    if fits { Ok(()) } else { Err(WindowRefusal::Class(abi::ERR_RMA_SYNC)) }
}

fn fence(win: &Win, bits: c_int) -> Result<(), WindowRefusal> {
    let promise = promises(bits);
    in_order(matches!(win.access.get(), AccessEpoch::None | AccessEpoch::Fence))?;
    win.window.fence(promise)?;
    let goes_on = !promise.has(Assert::NO_SUCCEED);
    win.access.set(if goes_on { AccessEpoch::Fence } else { AccessEpoch::None });
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_fence(promise: c_int, win: Handle) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    let by_host = || unsafe { host::Win_fence(promise, win) };
    call(win, |_, win| fence(win, promise), by_host)
}

/// Number of groups that the program has freed.
static FREED: AtomicU64 = AtomicU64::new(0);

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Group_free(group: HandlePtr) -> c_int {
    FREED.fetch_add(1, Relaxed);
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe { crate::front::host::Group_free(group) }
}

/// Returns the places of a group's members in the window.
///
/// # Safety
///
/// The handle is of a group.
unsafe fn places(win: &Win, group: Handle) -> Result<Shared<Box<[u32]>>, WindowRefusal> {
    let freed = FREED.load(Relaxed);
    if let Some(named) = &*win.named.borrow()
        && (named.handle, named.freed) == (group, freed)
    {
        return Ok(Shared::clone(&named.places));
    }
    // SAFETY: the caller guarantees the same.
    let places = Shared::new(unsafe { translate(win, group) }?.into());
    let named = NamedGroup { handle: group, freed, places: Shared::clone(&places) };
    *win.named.borrow_mut() = Some(named);
    Ok(places)
}

/// Asks the host for the places.
///
/// # Safety
///
/// The caller guarantees the contract of [`places`].
#[inline(never)]
unsafe fn translate(win: &Win, group: Handle) -> Result<Vec<u32>, WindowRefusal> {
    let mut size = 0;
    // SAFETY: the result has a place.
    let code = unsafe { host::Group_size(group, &raw mut size) };
    if code != 0 {
        return Err(WindowRefusal::Reported(code));
    }
    let mut ranks: Vec<c_int> = (0..size).collect();
    let mut places = vec![crate::abi::UNDEFINED; ranks.len()];
    // SAFETY: both groups exist, and each list has a place for each member.
    let code = unsafe {
        let (from, to) = (ranks.as_mut_ptr(), places.as_mut_ptr());
        crate::front::host::Group_translate_ranks(group, size, from, win.group, to)
    };
    if code != 0 {
        return Err(WindowRefusal::Reported(code));
    }
    let places: Result<_, _> = places.into_iter().map(u32::try_from).collect();
    places.map_err(|_| WindowRefusal::Class(crate::abi::ERR_RANK))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_post(group: Handle, promise: c_int, win: Handle) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        let post = |win: &Win| {
            in_order(!win.is_exposed.get())?;
            win.window.post(&places(win, group)?, promises(promise))?;
            win.is_exposed.set(true);
            Ok(())
        };
        call(win, |_, win| post(win), || host::Win_post(group, promise, win))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_start(group: Handle, promise: c_int, win: Handle) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        let start = |win: &Win| {
            in_order(matches!(win.access.get(), AccessEpoch::None | AccessEpoch::Fence))?;
            let places = places(win, group)?;
            win.window.start(&places, promises(promise))?;
            places.iter().for_each(|place| win.open[*place as usize].set(true));
            win.access.set(AccessEpoch::Group);
            Ok(())
        };
        call(win, |_, win| start(win), || host::Win_start(group, promise, win))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_complete(win: Handle) -> c_int {
    let complete = |win: &Win| {
        in_order(win.access.get() == AccessEpoch::Group)?;
        let ended = win.window.complete();
        win.open.iter().for_each(|open| open.set(false));
        win.access.set(AccessEpoch::None);
        Ok(ended?)
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| complete(win), || unsafe { host::Win_complete(win) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_wait(win: Handle) -> c_int {
    let wait = |win: &Win| {
        in_order(win.is_exposed.get())?;
        let ended = win.window.wait();
        win.is_exposed.set(false);
        Ok(ended?)
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| wait(win), || unsafe { host::Win_wait(win) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_test(win: Handle, flag: Ints) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        let test = |win: &Win| {
            in_order(win.is_exposed.get())?;
            let ended = win.window.test();
            win.is_exposed.set(matches!(ended, Ok(false)));
            flag.write(ended?.into());
            Ok(())
        };
        call(win, |_, win| test(win), || host::Win_test(win, flag))
    }
}
