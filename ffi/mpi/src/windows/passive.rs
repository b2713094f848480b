//! Passive synchronisation: locks and flushes (MPI-5.0 §12.5.3, §12.5.4).

use core::ffi::c_int;

use strait::LockType;

use super::epochs::{in_order, promises};
use super::errors::call;
use super::host;
use super::refusal::WindowRefusal;
use super::table::{AccessEpoch, Win};
use crate::abi::{ERR_RANK, Handle, PROC_NULL, windows as abi};

fn lock(win: &Win, kind: c_int, rank: c_int, promise: c_int) -> Result<(), WindowRefusal> {
    if rank == PROC_NULL {
        return Ok(());
    }
    let kind = match kind {
        abi::LOCK_SHARED => LockType::Shared,
        abi::LOCK_EXCLUSIVE => LockType::Exclusive,
        _ => return Err(WindowRefusal::Class(abi::ERR_LOCKTYPE)),
    };
    let Some(open) = win.open.get(rank as usize) else {
        return Err(WindowRefusal::Class(ERR_RANK));
    };
    let others = match win.access.get() {
        AccessEpoch::None | AccessEpoch::Fence => 0,
        AccessEpoch::Locks(others) if !open.get() => others,
        _ => return in_order(false),
    };
    win.window.lock(kind, rank as u32, promises(promise))?;
    open.set(true);
    win.access.set(AccessEpoch::Locks(others + 1));
    Ok(())
}

fn unlock(win: &Win, rank: c_int) -> Result<(), WindowRefusal> {
    if rank == PROC_NULL {
        return Ok(());
    }
    let Some(open) = win.open.get(rank as usize) else {
        return Err(WindowRefusal::Class(ERR_RANK));
    };
    let AccessEpoch::Locks(locks) = win.access.get() else { return in_order(false) };
    in_order(open.replace(false))?;
    win.access.set(if locks > 1 { AccessEpoch::Locks(locks - 1) } else { AccessEpoch::None });
    Ok(win.window.unlock(rank as u32)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_lock(kind: c_int, rank: c_int, promise: c_int, win: Handle) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    let by_host = || unsafe { host::Win_lock(kind, rank, promise, win) };
    call(win, |_, win| lock(win, kind, rank, promise), by_host)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_unlock(rank: c_int, win: Handle) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    let by_host = || unsafe { host::Win_unlock(rank, win) };
    call(win, |_, win| unlock(win, rank), by_host)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_lock_all(promise: c_int, win: Handle) -> c_int {
    let lock_all = |win: &Win| {
        in_order(matches!(win.access.get(), AccessEpoch::None | AccessEpoch::Fence))?;
        win.window.lock_all(promises(promise))?;
        win.access.set(AccessEpoch::All);
        Ok(())
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    let by_host = || unsafe { host::Win_lock_all(promise, win) };
    call(win, |_, win| lock_all(win), by_host)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_unlock_all(win: Handle) -> c_int {
    let unlock_all = |win: &Win| {
        in_order(win.access.get() == AccessEpoch::All)?;
        win.access.set(AccessEpoch::None);
        Ok(win.window.unlock_all()?)
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| unlock_all(win), || unsafe { host::Win_unlock_all(win) })
}

/// Completes operations at one target.
macro_rules! flushes {
    ($($name:ident = $host:ident by $act:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(rank: c_int, win: Handle) -> c_int {
            let flush = |win: &Win| {
                if rank == PROC_NULL {
                    return Ok(());
                }
                Ok(win.window.$act(win.locked(rank)?)?)
            };
            // SAFETY: the program guarantees the contract of the function in the standard.
            call(win, |_, win| flush(win), || unsafe { host::$host(rank, win) })
        }
    )*};
}

flushes! {
    MPI_Win_flush = Win_flush by flush;
    MPI_Win_flush_local = Win_flush_local by flush_local;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_flush_all(win: Handle) -> c_int {
    let flush_all = |win: &Win| {
        win.all_locked()?;
        // A lock that was asked for is waited for, as by a flush of each target.
        for (target, open) in (0..).zip(&win.open) {
            if open.get() {
                win.window.flush(target)?;
            }
        }
        Ok(win.window.flush_all()?)
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| flush_all(win), || unsafe { host::Win_flush_all(win) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_flush_local_all(win: Handle) -> c_int {
    let flush = |win: &Win| {
        win.all_locked()?;
        let targets = 0..win.open.len() as u32;
        let ended = targets.map(|target| win.window.flush_local(target));
        Ok(ended.fold(Ok(()), Result::and)?)
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| flush(win), || unsafe { host::Win_flush_local_all(win) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_sync(win: Handle) -> c_int {
    let sync = |win: &Win| {
        win.window.sync();
        Ok(())
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    call(win, |_, win| sync(win), || unsafe { host::Win_sync(win) })
}
