//! The end of operations: functions that wait for requests, and test them (MPI-5.0 §3.7.3,
//! §3.7.5).
//!
//! An array may have requests of ours, of the host's, and none. Requests of the host's alone go to
//! the host, unless an operation of ours is open, which needs progress meanwhile.

use core::ffi::c_int;

use strait::Wait;
use strait::raw::{RawRequests as _, ShortName};

use super::host::{self, HandlePtr, Ints, Pointer};
use super::operation::Finished;
use super::progress::ShortPoll;
use super::request_view::RequestView;
use super::requests::{DONE, ReceivedMessage, ShortEnd};
use super::state::{self, Entered, Front};
use super::{errors, helper};
use crate::abi::{self, Handle};

use any_short::tests_in_vain;
use array::RequestArray;

mod all;
mod any_short;
mod array;
mod several;
mod special;

/// Notes that the program started operations of the host's.
pub(crate) fn count_host_start(n: c_int) {
    if let Some(front) = state::enter() {
        front.host_open.set(front.host_open.get().saturating_add(n.max(0) as u32));
    }
}

/// Notes that an operation of the host's has ended.
pub(crate) fn count_host_end() {
    if let Some(front) = state::enter() {
        front.host_open.set(front.host_open.get().saturating_sub(1));
    }
}

/// Writes a status, if the program wants it, but not its error. Returns success.
#[inline(always)]
pub(crate) fn write(status: Pointer, finished: &Finished) -> c_int {
    if !abi::is_ignored(status) {
        let from = (finished.source, finished.tag);
        // SAFETY: the program passes the place of a status.
        unsafe { abi::write_status(status, from, finished.bytes, finished.was_cancelled) };
    }
    0
}

/// Writes the status of no operation, with success as its error. Returns success.
pub(crate) fn write_empty(status: Pointer) -> c_int {
    if !abi::is_ignored(status) {
        // SAFETY: the program passes the place of a status.
        unsafe { abi::write_error(status, 0) };
    }
    write(status, &Finished::EMPTY)
}

/// Returns the place of a status of an array, if the program wants it.
fn status_at(statuses: Pointer, number: usize) -> Pointer {
    if abi::is_ignored(statuses) {
        return abi::STATUS_IGNORE;
    }
    statuses.cast::<u8>().wrapping_add(number * abi::STATUS_BYTES).cast()
}

/// Calls a blocking function of the host's on a communicator of the host's. Where ours needs
/// progress meanwhile, it starts the operation and makes progress of both.
pub(crate) fn by_host(host: impl Fn() -> c_int, start: impl Fn(HandlePtr) -> c_int) -> c_int {
    by_host_with_status(host, start, abi::STATUS_IGNORE)
}

/// As [`by_host`], with a status.
pub(crate) fn by_host_with_status(
    host: impl Fn() -> c_int,
    start: impl Fn(HandlePtr) -> c_int,
    status: Pointer,
) -> c_int {
    if !state::enter().is_some_and(|front| front.needs_progress()) {
        return host();
    }
    let mut request = abi::request_null();
    let code = start(&raw mut request);
    if code != 0 {
        return code;
    }
    // SAFETY: the request has just been started.
    unsafe { wait_for_host(&raw mut request, status) }
}

/// Waits for a request of the host's, and makes progress of ours.
unsafe fn wait_for_host(request: HandlePtr, status: Pointer) -> c_int {
    let Some(mut front) = state::enter().filter(|front| front.needs_progress()) else {
        // SAFETY: the caller passes the place of a request.
        return unsafe { host::Wait(request, status) };
    };
    front.wait_for_host(|| {
        let mut flag = 0;
        // SAFETY: the caller passes the place of a request.
        let code = unsafe { host::Test(request, &raw mut flag, status) };
        (code != 0 || flag != 0).then_some(code)
    })
}

/// What a request that has ended leaves to be done without the lock.
pub(crate) struct EndedRequest {
    comm: Handle,
    finished: Finished,
}

impl EndedRequest {
    /// Calls the error handler if the operation failed, and returns the code.
    fn report(&self) -> c_int {
        self.finished.error.as_ref().map_or(0, |error| errors::report(self.comm, error))
    }
}

/// Returns the communicator of a request.
fn comm_of(front: &Front, slot: u32) -> Handle {
    use super::requests::RequestEntry;
    let of = |entry: &mut RequestEntry| match entry {
        RequestEntry::One(operation) => Some(operation.comm.handle),
        RequestEntry::Pair(pair) => Some(pair[1].comm.handle),
        RequestEntry::Persistent(persistent) => Some(persistent.comm_handle()),
        RequestEntry::Free { .. } | RequestEntry::Received(_) => None,
    };
    front.requests.with(slot, of).flatten().unwrap_or_else(abi::comm_world)
}

/// Ends the request of ours at `place`, which is over, and writes its status.
unsafe fn end(front: &Front, slot: u32, place: HandlePtr, status: Pointer) -> EndedRequest {
    let finished = front.requests.report(slot);
    let comm = if finished.error.is_some() { comm_of(front, slot) } else { abi::comm_world() };
    // SAFETY: the program passes the place of a request.
    unsafe { place.write(front.requests.end(slot, *place)) };
    write(status, &finished);
    EndedRequest { comm, finished }
}

/// Returns the front, where calls take no lock and the host need not progress meanwhile.
#[inline(always)]
pub(crate) fn alone() -> Option<&'static Front> {
    state::unlocked().filter(|front| front.host_open.get() == 0)
}

/// Writes what a request that has ended reports.
///
/// # Safety
///
/// The program passes the places of a request and of a status.
#[inline(always)]
unsafe fn write_ended(place: HandlePtr, status: Pointer, message: ReceivedMessage) {
    // SAFETY: the caller guarantees it (contract of `write_ended`).
    unsafe {
        place.write(abi::request_null());
        if !abi::is_ignored(status) {
            let from = (message.source, message.tag);
            abi::write_status(status, from, message.bytes, false);
        }
    }
}

/// Ends a request of ours that is over or soon is. Returns false if it goes on or failed, or needs
/// a longer way.
///
/// # Safety
///
/// The program passes the places of a request and of a status.
#[inline]
unsafe fn end_soon(place: HandlePtr, slot: u32, status: Pointer) -> bool {
    let Some(front) = alone() else { return false };
    let find = |request| front.world.wait_for_lines(request);
    match front.requests.end_by(slot, find) {
        ShortEnd::Ended(message) => {
            // SAFETY: the caller guarantees it (contract of `end_soon`).
            unsafe { write_ended(place, status, message) };
            true
        }
        ShortEnd::Pending => false,
        ShortEnd::Other => end_persistent_soon(front, slot, status),
    }
}

/// Does the work of [`end_soon`] for a persistent request, which keeps its handle.
#[inline(never)]
fn end_persistent_soon(front: &Front, slot: u32, status: Pointer) -> bool {
    let find = |request| front.world.wait_for_lines(request);
    let ended = front.requests.end_persistent_by(slot, find);
    ended.is_some_and(|finished| write(status, &finished) == 0)
}

/// Tests a request of ours by a short way, without the lock of the world. Returns whether it has
/// ended, or `None` if that needs the longer way.
///
/// # Safety
///
/// The program passes the places of a request and of a status.
#[inline]
unsafe fn test_at_once(place: HandlePtr, slot: u32, status: Pointer) -> Option<bool> {
    let front = alone()?;
    let test = || front.requests.end_by(slot, |request| front.world.test_in_lines(request));
    let mut ended = test();
    if matches!(ended, ShortEnd::Pending) {
        match front.poll_in_short_test() {
            ShortPoll::Nothing => {}
            ShortPoll::Moved => ended = test(),
            ShortPoll::Longer => return None,
        }
    }
    match ended {
        ShortEnd::Ended(message) => {
            // SAFETY: the caller guarantees it (contract of `test_at_once`).
            unsafe { write_ended(place, status, message) };
            Some(true)
        }
        ShortEnd::Pending => Some(false),
        ShortEnd::Other => None,
    }
}

/// Ends the request of a send that was over when it began. Returns success.
///
/// # Safety
///
/// The program passes the place of a request.
#[inline(always)]
unsafe fn end_done(place: HandlePtr, status: Pointer) -> c_int {
    // SAFETY: the caller guarantees it (contract of `end_done`).
    unsafe { place.write(abi::request_null()) };
    write(status, &Finished::EMPTY)
}

/// Waits for a request of ours in the function `caller`, as the next of `number` and `of` requests
/// in all. Returns false if there is no such request.
fn wait_for(
    front: &mut Entered,
    slot: u32,
    caller: &str,
    over: Option<(u32, u32)>,
) -> Result<bool, strait::Error> {
    match front.requests.view(front, slot) {
        RequestView::Over | RequestView::Inactive => return Ok(true),
        RequestView::Nothing => return Ok(false),
        RequestView::Pending => {}
    }
    let this = front.front();
    let what = || {
        let wait = this.requests.wait_of(this, slot);
        Wait { caller: ShortName::new(caller), over, ..wait }
    };
    front.wait(what, |front| {
        (front.requests.view(front, slot) != RequestView::Pending).then_some(true)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Wait(request: HandlePtr, status: Pointer) -> c_int {
    // SAFETY: the program passes the place of a request.
    let handle = unsafe { *request };
    match abi::request_slot(handle) {
        // SAFETY: the program passes the place of a request.
        Some(DONE) => unsafe { end_done(request, status) },
        // SAFETY: the program guarantees the contract of the function in the standard.
        Some(slot) => unsafe { wait(request, slot, status) },
        // SAFETY: as above.
        None => unsafe { wait_for_other(request, status) },
    }
}

/// Waits for a request that is not ours.
unsafe fn wait_for_other(request: HandlePtr, status: Pointer) -> c_int {
    // SAFETY: the caller passes the place of a request.
    unsafe {
        let is_open = *request != abi::request_null();
        let code = wait_for_host(request, status);
        if is_open {
            count_host_end();
        }
        code
    }
}

#[inline(never)]
unsafe fn wait(request: HandlePtr, slot: u32, status: Pointer) -> c_int {
    // SAFETY: the caller passes the places of a request and of a status.
    if unsafe { end_soon(request, slot, status) } {
        return 0;
    }
    let Some(mut front) = state::enter() else { return abi::ERR_REQUEST };
    match wait_for(&mut front, slot, "MPI_Wait", None) {
        Ok(true) => {
            // SAFETY: the caller passes the place of a request.
            let ended = unsafe { end(&front, slot, request, status) };
            drop(front);
            ended.report()
        }
        Ok(false) => {
            drop(front);
            errors::raise(abi::comm_world(), abi::ERR_REQUEST)
        }
        Err(error) => {
            drop(front);
            errors::report(abi::comm_world(), &error)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Test(request: HandlePtr, flag: Ints, status: Pointer) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if tests_in_vain(RequestArray::new(1, request)) {
            flag.write(0);
            return 0;
        }
        test(request, flag, status)
    }
}

/// Tests a request by all but the shortest way.
#[inline(never)]
unsafe fn test(request: HandlePtr, flag: Ints, status: Pointer) -> c_int {
    // SAFETY: the caller passes the places of a request, a flag and a status.
    unsafe {
        let handle = *request;
        let Some(slot) = abi::request_slot(handle) else {
            return test_other(request, flag, status);
        };
        if let Some(has_ended) = test_at_once(request, slot, status) {
            flag.write(has_ended.into());
            return 0;
        }
        let Some(front) = state::enter() else { return abi::ERR_REQUEST };
        let mut view = front.requests.view(&front, slot);
        if view == RequestView::Pending {
            if let Err(error) = front.poll() {
                drop(front);
                return errors::report(abi::comm_world(), &error);
            }
            view = front.requests.view(&front, slot);
        }
        match view {
            RequestView::Nothing => {
                drop(front);
                errors::raise(abi::comm_world(), abi::ERR_REQUEST)
            }
            RequestView::Pending => {
                flag.write(0);
                turn_host(front, false);
                0
            }
            RequestView::Inactive => {
                flag.write(1);
                write_empty(status)
            }
            RequestView::Over => {
                flag.write(1);
                let ended = end(&front, slot, request, status);
                drop(front);
                ended.report()
            }
        }
    }
}

/// Lets the host progress in a test that found nothing, as [`Front::poll_host_in_test`] does, and
/// ranks run that have no processor.
pub(crate) fn turn_host(front: Entered, has_found: bool) {
    if !has_found {
        let yields = front.poll_host_in_test();
        drop(front);
        if yields {
            std::thread::yield_now();
        }
    }
}

/// Tests a request that is not ours.
unsafe fn test_other(request: HandlePtr, flag: Ints, status: Pointer) -> c_int {
    // SAFETY: the caller passes the places of a request and a flag.
    unsafe {
        let is_open = *request != abi::request_null();
        let code = host::Test(request, flag, status);
        if is_open {
            turn_ours();
            if code == 0 && *flag != 0 {
                count_host_end();
            }
        }
        code
    }
}

/// Makes progress of ours in a test of the host's operations, where ours needs it.
pub(crate) fn turn_ours() {
    if let Some(front) = state::enter()
        && front.needs_progress()
    {
        // The call that waits for the operation that fails reports it.
        let _ = front.poll_in_test();
    }
}

/// Calls a function of the host's that may wait, while a helper makes progress of ours.
pub(crate) fn inside_host(host: impl FnOnce() -> c_int) -> c_int {
    let _helper = helper::inside_host();
    host()
}
