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
        WindowError::Lengths { .. } => abi::ERR_TYPE,
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
            let class = match error {
                Error::Window(error) => class(*error),
                _ => None,
            };
            let code = match class {
                Some(class) => errors::code_of_class(class, error),
                None => errors::code(error),
            };
            raise(win, code)
        }
    }
}

/// Makes a call on a window, if it is ours. `by_host` is the host's function with the same
/// arguments. It may wait for peers: an operation may wait for its target's epoch.
#[inline(always)]
pub(crate) fn call(
    win: Handle,
    act: impl FnOnce(&Front, &Shared<Win>) -> Result<(), WindowRefusal>,
    by_host: impl Fn() -> c_int,
) -> c_int {
    let name = name_of(&by_host);
    let act = |front: &Front, found: &Shared<Win>| {
        front.world.set_caller(name);
        act(front, found)
    };
    let done = match state::unlocked() {
        Some(front) => front.windows.find(win).map(|found| act(front, &found)),
        None => call_locked(win, act),
    };
    match done {
        Some(Ok(())) => 0,
        Some(Err(refusal)) => report(win, &refusal),
        None => inside_host(by_host),
    }
}

/// As [`call`], in a program with several threads that call MPI, or without a front.
#[cold]
#[inline(never)]
fn call_locked(
    win: Handle,
    act: impl FnOnce(&Front, &Shared<Win>) -> Result<(), WindowRefusal>,
) -> Option<Result<(), WindowRefusal>> {
    let front = Waiting::begin(state::enter()?);
    let found = front.windows.find(win)?;
    Some(act(&front, &found))
}
