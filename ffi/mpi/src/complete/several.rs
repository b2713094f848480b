//! Functions that wait for one or some requests of an array, and test them.

use core::ffi::c_int;

use strait::raw::{LoopRecord, RawRecords as _, ShortName};
use strait::{Call, Wait};

use super::super::host::{self, HandlePtr, Ints, Pointer};
use super::super::request_view::RequestView;
use super::super::state::{self, Front};
use super::any_short::{ShortLook, await_any, end_any_short, tests_in_vain};
use super::array::RequestArray;
use super::{EndedRequest, count_host_end, end, status_at, turn_host, turn_ours, write_empty};
use crate::abi;
use crate::front::errors;

/// Returns whether a wait for the host has to make progress of ours.
pub(super) fn needs_progress() -> bool {
    state::enter().is_some_and(|front| front.needs_progress())
}

/// The result of a look at one request, which ends a request that is over.
enum Looked {
    /// The request is null or inactive.
    Inactive,
    Pending,
    /// The request has ended with this code. Ours is still to be reported.
    Ended(Result<EndedRequest, c_int>),
}

impl Looked {
    /// Calls the error handler, and returns the code of a request that has ended.
    fn code(&self) -> c_int {
        match self {
            Self::Ended(Ok(ended)) => ended.report(),
            Self::Ended(Err(code)) => *code,
            _ => 0,
        }
    }
}

/// Looks at the request at `place`, without progress of ours, and ends it if it is over.
unsafe fn look(place: HandlePtr, status: Pointer) -> Looked {
    // SAFETY: the caller passes the place of a request.
    let handle = unsafe { *place };
    if handle == abi::request_null() {
        return Looked::Inactive;
    }
    let Some(slot) = abi::request_slot(handle) else {
        // SAFETY: as above.
        return unsafe { look_at_hosts(place, status) };
    };
    let Some(front) = state::enter() else { return Looked::Ended(Err(abi::ERR_REQUEST)) };
    match front.requests.view(&front, slot) {
        RequestView::Nothing => Looked::Ended(Err(abi::ERR_REQUEST)),
        RequestView::Inactive => Looked::Inactive,
        RequestView::Pending => Looked::Pending,
        // SAFETY: as above.
        RequestView::Over => Looked::Ended(Ok(unsafe { end(&front, slot, place, status) })),
    }
}

/// Looks at a request of the host's. `Testany` tells an inactive one from one that has ended.
unsafe fn look_at_hosts(place: HandlePtr, status: Pointer) -> Looked {
    let (mut index, mut flag) = (abi::UNDEFINED, 0);
    // SAFETY: the caller passes the place of a request.
    let code = unsafe { host::Testany(1, place, &raw mut index, &raw mut flag, status) };
    if code == 0 && flag == 0 {
        return Looked::Pending;
    }
    if code == 0 && index == abi::UNDEFINED {
        return Looked::Inactive;
    }
    count_host_end();
    Looked::Ended(Err(code))
}

/// Makes progress of both in a test that found nothing.
pub(super) fn turn() {
    if let Some(front) = state::enter() {
        // The call that waits for the operation that fails reports it.
        let _ = front.poll_in_test();
        turn_host(front, false);
    }
}

/// The looks of a call that waits for one request of an array.
struct ArrayWait {
    array: RequestArray,
    call: Call,
    caller: &'static str,
    looks: u32,
    record: Option<LoopRecord<'static>>,
}

impl ArrayWait {
    const fn new(array: RequestArray, call: Call, caller: &'static str) -> Self {
        Self { array, call, caller, looks: 0, record: None }
    }

    /// Makes progress of both between two looks, and lets other threads run after many.
    fn turn(&mut self) {
        if let Some(front) = state::enter() {
            let front = front.front();
            let (array, call, caller) = (self.array, self.call, self.caller);
            let what = || Wait { caller: ShortName::new(caller), ..array.wait_of(front, call) };
            let record = self.record.get_or_insert_with(|| front.world.record_of_loop());
            // The call that waits for the operation that fails reports it.
            let _ = front.poll_in_loop(record, what);
            if front.host_open.get() > 0 || self.looks.is_multiple_of(64) {
                front.poll_host();
            }
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks > 500 {
            std::thread::yield_now();
        }
    }
}

impl Drop for ArrayWait {
    fn drop(&mut self) {
        // The end of the wait is recorded with the lock held.
        let _front = state::enter();
        self.record = None;
    }
}

/// Writes the errors of all statuses if there is one, calls the error handler, and returns the code
/// (MPI-5.0 §3.7.5).
pub(super) fn in_status(codes: &[c_int], statuses: Pointer, count: usize) -> c_int {
    let Some(first) = codes.iter().find(|code| **code != 0) else { return 0 };
    if abi::is_ignored(statuses) {
        return errors::raise(abi::comm_world(), *first);
    }
    for number in 0..count {
        let code = codes.get(number).copied().unwrap_or(0);
        // SAFETY: the program passes an array of that many statuses.
        unsafe { abi::write_error(status_at(statuses, number), code) };
    }
    errors::raise(abi::comm_world(), abi::ERR_IN_STATUS)
}

/// The result of a search for a request that is over.
enum FoundRequest {
    /// The request with this number has ended.
    At(usize, Looked),
    AllPending,
    /// No request is active.
    NoneActive,
}

/// Ends the first request that is over.
unsafe fn find_any(array: RequestArray, status: Pointer) -> FoundRequest {
    let mut has_active = false;
    for (number, place) in array.places() {
        // SAFETY: the program passes an array of that many requests.
        match unsafe { look(place, status) } {
            Looked::Inactive => {}
            Looked::Pending => has_active = true,
            ended @ Looked::Ended(_) => return FoundRequest::At(number, ended),
        }
    }
    if has_active { FoundRequest::AllPending } else { FoundRequest::NoneActive }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Waitany(
    n: c_int,
    requests: HandlePtr,
    index: Ints,
    status: Pointer,
) -> c_int {
    let array = RequestArray::new(n, requests);
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if array.is_hosts() && !needs_progress() {
            count_host_end();
            return host::Waitany(n, requests, index, status);
        }
        await_any(array);
        if let ShortLook::Ended(number) = end_any_short(array, status) {
            index.write(number as c_int);
            return 0;
        }
        let mut wait = ArrayWait::new(array, Call::WaitAny, "MPI_Waitany");
        loop {
            match find_any(array, status) {
                FoundRequest::At(number, looked) => {
                    index.write(number as c_int);
                    return looked.code();
                }
                FoundRequest::NoneActive => {
                    index.write(abi::UNDEFINED);
                    return write_empty(status);
                }
                FoundRequest::AllPending => wait.turn(),
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Testany(
    n: c_int,
    requests: HandlePtr,
    index: Ints,
    flag: Ints,
    status: Pointer,
) -> c_int {
    let array = RequestArray::new(n, requests);
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if tests_in_vain(array) {
            index.write(abi::UNDEFINED);
            flag.write(0);
            return 0;
        }
        test_any(array, index, flag, status)
    }
}

/// Tests an array of requests for one that is over, by all but the shortest way.
#[inline(never)]
unsafe fn test_any(array: RequestArray, index: Ints, flag: Ints, status: Pointer) -> c_int {
    // SAFETY: the caller passes such an array, and the places of an index, a flag and a status.
    unsafe {
        let at_once = match end_any_short(array, status) {
            ShortLook::Ended(number) => Some((number as c_int, 1)),
            ShortLook::Pending => Some((abi::UNDEFINED, 0)),
            ShortLook::Other => None,
        };
        if let Some((number, has_ended)) = at_once {
            index.write(number);
            flag.write(has_ended);
            return 0;
        }
        if array.is_hosts() {
            turn_ours();
            let (n, requests) = (array.count as c_int, array.place(0));
            return host::Testany(n, requests, index, flag, status);
        }
        let mut found = find_any(array, status);
        if matches!(found, FoundRequest::AllPending) {
            turn();
            found = find_any(array, status);
        }
        match found {
            FoundRequest::At(number, looked) => {
                index.write(number as c_int);
                flag.write(1);
                looked.code()
            }
            FoundRequest::NoneActive => {
                index.write(abi::UNDEFINED);
                flag.write(1);
                write_empty(status)
            }
            FoundRequest::AllPending => {
                index.write(abi::UNDEFINED);
                flag.write(0);
                0
            }
        }
    }
}

/// Ends all requests that are over, and returns their number and the first error. Returns `None` if
/// no request is active.
unsafe fn end_some(
    array: RequestArray,
    indices: Ints,
    statuses: Pointer,
) -> (Option<usize>, Vec<c_int>) {
    let (mut codes, mut has_active) = (Vec::new(), false);
    for (number, place) in array.places() {
        let at = codes.len();
        // SAFETY: the program passes arrays of that many requests, indices and statuses.
        match unsafe { look(place, status_at(statuses, at)) } {
            Looked::Inactive => {}
            Looked::Pending => has_active = true,
            Looked::Ended(ended) => {
                // SAFETY: as above.
                unsafe { indices.add(at).write(number as c_int) };
                codes.push(match ended {
                    Ok(ended) => ended.finished.error.as_ref().map_or(0, errors::code),
                    Err(code) => code,
                });
            }
        }
    }
    let count = (has_active || !codes.is_empty()).then_some(codes.len());
    (count, codes)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Waitsome(
    n: c_int,
    requests: HandlePtr,
    done: Ints,
    indices: Ints,
    statuses: Pointer,
) -> c_int {
    let array = RequestArray::new(n, requests);
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if array.is_hosts() && !needs_progress() {
            return host::Waitsome(n, requests, done, indices, statuses);
        }
        await_any(array);
        // What has arrived ends in one call.
        turn_ours();
        let mut wait = ArrayWait::new(array, Call::WaitSome, "MPI_Waitsome");
        loop {
            match end_some(array, indices, statuses) {
                (None, _) => {
                    done.write(abi::UNDEFINED);
                    return 0;
                }
                (Some(0), _) => wait.turn(),
                (Some(count), codes) => {
                    done.write(count as c_int);
                    return in_status(&codes, statuses, count);
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Testsome(
    n: c_int,
    requests: HandlePtr,
    done: Ints,
    indices: Ints,
    statuses: Pointer,
) -> c_int {
    let array = RequestArray::new(n, requests);
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if tests_in_vain(array) {
            done.write(0);
            return 0;
        }
        if array.is_hosts() {
            turn_ours();
            return host::Testsome(n, requests, done, indices, statuses);
        }
        turn_ours();
        let mut found = end_some(array, indices, statuses);
        if found.0 == Some(0) {
            turn();
            found = end_some(array, indices, statuses);
        }
        let (count, codes) = found;
        done.write(count.map_or(abi::UNDEFINED, |count| count as c_int));
        in_status(&codes, statuses, codes.len())
    }
}

/// Returns the state of a request of ours, after progress if it is pending.
pub(super) fn view_after_turn(front: &Front, slot: u32) -> RequestView {
    let view = front.requests.view(front, slot);
    if view != RequestView::Pending {
        return view;
    }
    // The call that waits for the operation that fails reports it.
    let _ = front.poll_in_test();
    front.requests.view(front, slot)
}
