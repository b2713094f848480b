//! A short way to test an array of requests, without the lock of the world.

use strait::raw::RawRequests as _;

use super::super::host::Pointer;
use super::super::progress::ShortPoll;
use super::super::requests::ShortEnd;
use super::super::state::Front;
use super::array::RequestArray;
use super::{alone, write_ended};
use crate::abi;

/// Returns whether no request of an array is over: all are ours and go on, no line has come, and
/// there is no more to do. At least one is not null.
///
/// Most tests of a program that computes meanwhile end here. So this makes no call.
///
/// # Safety
///
/// The program passes an array of that many requests.
#[inline(always)]
pub(super) unsafe fn tests_in_vain(array: RequestArray) -> bool {
    let Some(front) = alone() else { return false };
    let mut has_active = false;
    for (_, place) in array.places() {
        // SAFETY: the caller guarantees it (contract of `tests_in_vain`).
        let handle = unsafe { *place };
        if handle == abi::request_null() {
            continue;
        }
        let goes_on = |slot| front.requests.goes_on(front, slot);
        if !abi::request_slot(handle).is_some_and(goes_on) {
            return false;
        }
        has_active = true;
    }
    has_active && front.ends_test_in_vain()
}

/// Waits a short time until a request of an array is over, if all are ours.
///
/// # Safety
///
/// The program passes an array of that many requests.
pub(super) unsafe fn await_any(array: RequestArray) {
    let Some(front) = alone() else { return };
    // SAFETY: the caller guarantees it (contract of `await_any`).
    let handles = || array.places().map(|(_, place)| unsafe { *place });
    let active = || handles().filter(|handle| *handle != abi::request_null());
    let goes_on = |slot| front.requests.goes_on(front, slot);
    let is_any_over = || active().any(|handle| !abi::request_slot(handle).is_some_and(goes_on));
    if active().next().is_some() && !is_any_over() {
        front.world.serve_until(is_any_over);
    }
}

/// What a short look at an array found.
pub(super) enum ShortLook {
    /// The request with this number has ended. Its status is written.
    Ended(usize),
    /// Requests are pending, and none is over.
    Pending,
    /// The array needs the longer way.
    Other,
}

/// Ends the first request of the array that is over, if all are ours and simple.
///
/// # Safety
///
/// The program passes an array of that many requests and the place of a status.
pub(super) unsafe fn end_any_short(array: RequestArray, status: Pointer) -> ShortLook {
    let Some(front) = alone() else { return ShortLook::Other };
    // SAFETY: the caller guarantees it (contract of `end_any_short`).
    let look = || unsafe { look_short(front, array, status) };
    match look() {
        ShortLook::Pending => match front.poll_in_short_test() {
            ShortPoll::Nothing => ShortLook::Pending,
            ShortPoll::Moved => look(),
            ShortPoll::Longer => ShortLook::Other,
        },
        found => found,
    }
}

/// Makes no progress.
///
/// # Safety
///
/// The contract of [`end_any_short`] holds.
#[inline]
unsafe fn look_short(front: &Front, array: RequestArray, status: Pointer) -> ShortLook {
    let mut found = ShortLook::Other;
    for (number, place) in array.places() {
        // SAFETY: the caller guarantees it (contract of `look_short`).
        let handle = unsafe { *place };
        if handle == abi::request_null() {
            continue;
        }
        let Some(slot) = abi::request_slot(handle) else { return ShortLook::Other };
        match front.requests.end_by(slot, |request| front.world.test_in_lines(request)) {
            ShortEnd::Ended(message) => {
                // SAFETY: as above.
                unsafe { write_ended(place, status, message) };
                return ShortLook::Ended(number);
            }
            ShortEnd::Pending => found = ShortLook::Pending,
            ShortEnd::Other => return ShortLook::Other,
        }
    }
    found
}
