//! Functions that wait for all requests of an array, and test them.

use core::ffi::c_int;

use super::super::host::{self, HandlePtr, Ints, Pointer};
use super::super::request_view::RequestView;
use super::super::requests::DONE;
use super::super::state;
use super::any_short::{ShortLook, end_any_short, tests_in_vain};
use super::array::RequestArray;
use super::several::{in_status, needs_progress, turn};
use super::{
    count_host_end, end, end_done, end_soon, status_at, turn_ours, wait_for, wait_for_other,
};
use crate::abi;
use crate::front::errors;

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Waitall(n: c_int, requests: HandlePtr, statuses: Pointer) -> c_int {
    let array = RequestArray::new(n, requests);
    for (number, place) in array.places() {
        let status = status_at(statuses, number);
        // SAFETY: the program passes an array of that many requests.
        let is_over = unsafe {
            match abi::request_slot(*place) {
                Some(DONE) => end_done(place, status) == 0,
                Some(slot) => end_soon(place, slot, status),
                None => false,
            }
        };
        if !is_over {
            // SAFETY: the program guarantees the contract of the function in the standard.
            return unsafe { wait_for_rest(n, requests, statuses, number) };
        }
    }
    if array.count > 0 {
        return 0;
    }
    // SAFETY: as above.
    unsafe { wait_for_rest(n, requests, statuses, 0) }
}

/// Waits for the requests of an array from the one of that number on. Those before it are over.
#[inline(never)]
unsafe fn wait_for_rest(n: c_int, requests: HandlePtr, statuses: Pointer, first: usize) -> c_int {
    let array = RequestArray::new(n, requests);
    if first == 0 && array.is_hosts() && !needs_progress() {
        (0..array.count).for_each(|_| count_host_end());
        // SAFETY: the program guarantees the contract of the function in the standard.
        return unsafe { host::Waitall(n, requests, statuses) };
    }
    let mut codes = Vec::new();
    for (number, place) in array.places().skip(first) {
        let status = status_at(statuses, number);
        // SAFETY: the program passes an array of that many requests.
        let code = unsafe {
            match abi::request_slot(*place) {
                Some(DONE) => end_done(place, status),
                Some(slot) => {
                    let over = Some((number as u32, array.count as u32));
                    wait_for_ours(place, slot, status, over)
                }
                None => wait_for_other(place, status),
            }
        };
        if code != 0 && codes.is_empty() {
            codes = vec![0; number];
        }
        if code != 0 || !codes.is_empty() {
            codes.push(code);
        }
    }
    in_status(&codes, statuses, array.count)
}

/// Waits for a request of ours, and returns its code. The error handler is called for all together.
unsafe fn wait_for_ours(
    place: HandlePtr,
    slot: u32,
    status: Pointer,
    over: Option<(u32, u32)>,
) -> c_int {
    // SAFETY: the caller passes the places of a request and of a status.
    if unsafe { end_soon(place, slot, status) } {
        return 0;
    }
    let Some(mut front) = state::enter() else { return abi::ERR_REQUEST };
    match wait_for(&mut front, slot, "MPI_Waitall", over) {
        Ok(true) => {
            // SAFETY: the caller passes the place of a request.
            let ended = unsafe { end(&front, slot, place, status) };
            drop(front);
            ended.finished.error.as_ref().map_or(0, errors::code)
        }
        Ok(false) => abi::ERR_REQUEST,
        Err(error) => {
            drop(front);
            errors::code(&error)
        }
    }
}

/// Returns whether each request is over or inactive, without an effect on it.
unsafe fn all_over(array: RequestArray) -> bool {
    array.places().all(|(_, place)| {
        // SAFETY: the program passes an array of that many requests.
        let handle = unsafe { *place };
        if let Some(slot) = abi::request_slot(handle) {
            return state::enter()
                .is_none_or(|front| front.requests.view(&front, slot) != RequestView::Pending);
        }
        let mut flag = 1;
        if handle != abi::request_null() {
            // SAFETY: as above.
            unsafe { host::Request_get_status(handle, &raw mut flag, abi::STATUS_IGNORE) };
        }
        flag != 0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Testall(
    n: c_int,
    requests: HandlePtr,
    flag: Ints,
    statuses: Pointer,
) -> c_int {
    let array = RequestArray::new(n, requests);
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if tests_in_vain(array) {
            flag.write(0);
            return 0;
        }
        if array.is_hosts() {
            turn_ours();
            return host::Testall(n, requests, flag, statuses);
        }
        if array.count == 1 {
            let look = end_any_short(array, status_at(statuses, 0));
            if !matches!(look, ShortLook::Other) {
                flag.write(matches!(look, ShortLook::Ended(_)).into());
                return 0;
            }
        }
        if !all_over(array) {
            turn();
            if !all_over(array) {
                flag.write(0);
                return 0;
            }
        }
        flag.write(1);
        MPI_Waitall(n, requests, statuses)
    }
}
