//! Functions on single requests that do not wait: status, free, cancel (MPI-5.0 §3.7.3, §3.7.6,
//! §3.8.4).

use core::ffi::c_int;

use super::super::host::{self, HandlePtr, Ints, Pointer};
use super::super::request_view::RequestView;
use super::super::requests::RequestEntry;
use super::super::state::{self, Front};
use super::several::view_after_turn;
use super::{status_at, turn_ours, write, write_empty};
use crate::abi::{self, Handle};
use crate::front::errors;

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Request_get_status(request: Handle, flag: Ints, status: Pointer) -> c_int {
    let Some(slot) = abi::request_slot(request) else {
        turn_ours();
        // SAFETY: the program guarantees the contract of the function in the standard.
        return unsafe { host::Request_get_status(request, flag, status) };
    };
    let Some(front) = state::enter() else { return abi::ERR_REQUEST };
    let view = view_after_turn(&front, slot);
    // SAFETY: the program passes the place of a flag.
    unsafe { flag.write((view != RequestView::Pending).into()) };
    match view {
        RequestView::Pending => 0,
        RequestView::Over => write(status, &front.requests.report(slot)),
        RequestView::Inactive => write_empty(status),
        RequestView::Nothing => {
            drop(front);
            errors::raise(abi::comm_world(), abi::ERR_REQUEST)
        }
    }
}

/// Returns whether a request is over or inactive, without an effect on it, and writes its status.
unsafe fn peek(request: Handle, status: Pointer) -> Result<bool, c_int> {
    let mut flag = 1;
    // SAFETY: the request is the program's.
    match unsafe { MPI_Request_get_status(request, &raw mut flag, status) } {
        0 => Ok(flag != 0),
        code => Err(code),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Request_get_status_all(
    n: c_int,
    requests: HandlePtr,
    flag: Ints,
    statuses: Pointer,
) -> c_int {
    let mut all = true;
    for number in 0..n.max(0) as usize {
        // SAFETY: the program passes arrays of `n` requests and statuses.
        match unsafe { peek(*requests.add(number), status_at(statuses, number)) } {
            Ok(over) => all &= over,
            Err(code) => return code,
        }
    }
    // SAFETY: the program passes the place of a flag.
    unsafe { flag.write(all.into()) };
    0
}

/// Returns whether a request is null, or persistent and not started.
unsafe fn is_inactive(request: Handle) -> bool {
    if request == abi::request_null() {
        return true;
    }
    let Some(slot) = abi::request_slot(request) else { return false };
    state::enter().is_some_and(|front| front.requests.view(&front, slot) == RequestView::Inactive)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Request_get_status_any(
    n: c_int,
    requests: HandlePtr,
    index: Ints,
    flag: Ints,
    status: Pointer,
) -> c_int {
    let mut has_active = false;
    for number in 0..n.max(0) as usize {
        // SAFETY: the program passes an array of `n` requests, and the places of the results.
        unsafe {
            let request = *requests.add(number);
            if is_inactive(request) {
                continue;
            }
            has_active = true;
            match peek(request, status) {
                Ok(false) => {}
                Ok(true) => {
                    index.write(number as c_int);
                    flag.write(1);
                    return 0;
                }
                Err(code) => return code,
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        index.write(abi::UNDEFINED);
        flag.write((!has_active).into());
    }
    if has_active { 0 } else { write_empty(status) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Request_get_status_some(
    n: c_int,
    requests: HandlePtr,
    done: Ints,
    indices: Ints,
    statuses: Pointer,
) -> c_int {
    let (mut count, mut has_active) = (0, false);
    for number in 0..n.max(0) as usize {
        // SAFETY: the program passes arrays of `n` requests, indices and statuses.
        unsafe {
            let request = *requests.add(number);
            if is_inactive(request) {
                continue;
            }
            has_active = true;
            match peek(request, status_at(statuses, count)) {
                Ok(false) => {}
                Ok(true) => {
                    indices.add(count).write(number as c_int);
                    count += 1;
                }
                Err(code) => return code,
            }
        }
    }
    // SAFETY: the program passes the place of the number.
    unsafe { done.write(if has_active { count as c_int } else { abi::UNDEFINED }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Request_free(request: HandlePtr) -> c_int {
    // SAFETY: the program passes the place of a request.
    let handle = unsafe { *request };
    let Some(slot) = abi::request_slot(handle) else {
        // SAFETY: the program guarantees the contract of the function in the standard.
        return unsafe { host::Request_free(request) };
    };
    if let Some(front) = state::enter() {
        free(&front, slot);
    }
    // SAFETY: the program passes the place of a request.
    unsafe { request.write(abi::request_null()) };
    0
}

/// Forgets a request. Its operation goes on.
fn free(front: &Front, slot: u32) {
    match front.requests.take(slot) {
        Some(RequestEntry::One(operation)) => front.requests.adopt(operation),
        Some(RequestEntry::Pair(pair)) => {
            pair.into_iter().for_each(|half| front.requests.adopt(half));
        }
        Some(RequestEntry::Persistent(persistent)) => {
            persistent.into_active().into_iter().for_each(|active| front.requests.adopt(active));
        }
        Some(RequestEntry::Free { .. } | RequestEntry::Received(_)) | None => {}
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Cancel(request: HandlePtr) -> c_int {
    // SAFETY: the program passes the place of a request.
    let handle = unsafe { *request };
    let Some(slot) = abi::request_slot(handle) else {
        // SAFETY: the program guarantees the contract of the function in the standard.
        return unsafe { host::Cancel(request) };
    };
    let Some(front) = state::enter() else { return abi::ERR_REQUEST };
    front.requests.with(slot, |entry| {
        let operation = match entry {
            RequestEntry::One(operation) => Some(operation),
            RequestEntry::Persistent(persistent) => persistent.active(),
            RequestEntry::Pair(_) | RequestEntry::Received(_) | RequestEntry::Free { .. } => None,
        };
        // A send goes on: its message may be matched already.
        if let Some(operation) = operation
            && !operation.is_send
        {
            operation.was_cancelled |= operation.unscoped.cancel(&front.world);
            front.expect_end();
        }
    });
    0
}
