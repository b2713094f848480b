//! Errors of windows: to the window's error handler, with the host's class and our sentence.

use core::ffi::c_int;

use strait::raw::RawRecords as _;
use strait::{Error, WindowError};

use super::host;
use super::pause::Waiting;
use super::refusal::WindowRefusal;
use super::table::Win;
use crate::abi::{Handle, windows as abi};
use crate::front::complete::inside_host;
use crate::front::errors;
use crate::front::names::name_of;
use crate::front::shared::Shared;
use crate::front::state::{self, Front};

/// Returns the host's class of an error of a window.
const fn class(error: WindowError) -> Option<c_int> {
    Some(match error {
        WindowError::Target { .. } => crate::abi::ERR_RANK,
        WindowError::Bounds { .. } | WindowError::Detached { .. } => abi::ERR_RMA_RANGE,
        WindowError::Attachments | WindowError::Registration { .. } => abi::ERR_RMA_ATTACH,
        WindowError::Lengths { .. } => crate::abi::ERR_TYPE,
        WindowError::Operation { .. } => abi::ERR_OP,
        WindowError::EpochOpen { .. } | WindowError::NoEpoch { .. } => abi::ERR_RMA_SYNC,
        _ => return None,
    })
}

/// Calls the error handler of a window, and returns the code. The caller holds no lock.
fn raise(win: Handle, code: c_int) -> c_int {
    // SAFETY: the window exists: a call on it has just failed.
    unsafe { host::Win_call_errhandler(win, code) };
    code
}

/// Reports why a call failed. The caller holds no lock.
#[cold]
#[inline(never)]
fn report(win: Handle, refusal: &WindowRefusal) -> c_int {
    match refusal {
        WindowRefusal::Class(class) => raise(win, *class),
        WindowRefusal::Reported(code) => *code,
        WindowRefusal::Failed(error) => {
            let class = match &**error {
                Error::Window(error) => class(*error),
                _ => None,
            };
            let code = match class {
                Some(class) => errors::code_of_class(class, error),
                None => errors::code(error),
            };
            // SAFETY: the window exists: a call on it has just failed.
            let handler_of = |handler| unsafe { host::Win_get_errhandler(win, handler) };
            errors::print_before_abort(error, handler_of);
            raise(win, code)
        }
    }
}

/// Makes a call on a window of ours where calls take no lock, by a short way. Returns `None` if
/// `act` does, which has done nothing then, and if the call may need a longer way.
#[inline(always)]
pub(crate) fn call_at_once(
    win: Handle,
    act: impl FnOnce(&Front, &Win) -> Option<Result<(), Error>>,
) -> Option<c_int> {
    let front = state::unlocked()?;
    let found = front.windows.find(win)?;
    front.world.set_caller(name_of(&act));
    // Moved out of the option before it is known to be none, the error would be read in wider
    // pieces than those in which the result was written (docs/instruction-count.md).
    let refusal = match act(front, &found) {
        Some(Ok(())) => return Some(0),
        Some(Err(error)) => error.into(),
        None => return None,
    };
    drop(found);
    Some(report(win, &refusal))
}

/// Makes a call on a window, if it is ours. `by_host` is the host's function with the same
/// arguments. It may wait for peers: an operation may wait for its target's epoch.
#[inline(always)]
pub(crate) fn call(
    win: Handle,
    act: impl FnOnce(&Front, &Shared<Win>) -> Result<(), WindowRefusal>,
    by_host: impl Fn() -> c_int,
) -> c_int {
    let unlocked = state::unlocked();
    // In a program with several threads that call MPI.
    let locked = if unlocked.is_some() { None } else { enter_locked() };
    let refusal = {
        let front = match (unlocked, &locked) {
            (Some(front), _) => front,
            (None, Some(locked)) => locked.front(),
            (None, None) => return inside_host(by_host),
        };
        let Some(found) = front.windows.find(win) else {
            drop(locked);
            return inside_host(by_host);
        };
        front.world.set_caller(name_of(&by_host));
        // `act` is called in one place, so that it is compiled into the function.
        match act(front, &found) {
            Ok(()) => return 0,
            Err(refusal) => refusal,
        }
    };
    drop(locked);
    report(win, &refusal)
}

#[cold]
#[inline(never)]
fn enter_locked() -> Option<Waiting> {
    state::enter().map(Waiting::begin)
}
