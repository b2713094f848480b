//! Sends (MPI-5.0 §3.2, §3.4, §3.7).

use core::ffi::c_int;

use strait::raw::{RawEndpoint as _, RawRequests as _, SHORT_MAX, SentShort};

use super::host::{self, HandlePtr, MpiCount, Pointer};
use super::operation::{MessageArgs, NotStarted, SendForm, StartedOperation};
use super::pack::{Elements, whole};
use super::requests::{RequestEntry, RequestTable};
use super::short_messages::send_bytes;
use super::state::{self, Entered, Front};
use super::{complete, errors, names};
use crate::abi::{self, Handle};

/// Length in bytes of the most frequent message of most programs: one number. It has a path of its
/// own, with a copy of fixed length.
pub(crate) const ONE_NUMBER: usize = 8;

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) peer: c_int,
    pub(crate) tag: c_int,
    pub(crate) comm: Handle,
}

/// Sends a message that needs no more than a free line, in a communicator with the world's
/// ranks. Returns false if it sent nothing.
#[inline(always)]
unsafe fn send_short(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
) -> bool {
    if target.comm != abi::comm_world() {
        return false;
    }
    let Some(part) = whole(&front.types, base, count, datatype) else { return false };
    if part.length > SHORT_MAX {
        return false;
    }
    // SAFETY: the program passes a buffer of that many bytes.
    let data = unsafe { core::slice::from_raw_parts(part.base.as_ptr(), part.length) };
    // A rank or tag below zero is above all that exist.
    let (endpoint, peer, tag) = (front.world.endpoint(), target.peer as u32, target.tag as u32);
    let sent = match <&[u8; ONE_NUMBER]>::try_from(data) {
        Ok(number) => endpoint.send_short(number, peer, tag),
        Err(_) => endpoint.send_short(data, peer, tag),
    };
    match sent {
        SentShort::Yes => true,
        SentShort::ToSleeper => {
            endpoint.wake(peer);
            true
        }
        SentShort::No => false,
    }
}

/// Sends a message of any length in any communicator of ours, if that needs no wait, or a short one
/// for lines if the caller `may_wait`. Returns false if it sent nothing.
#[inline(always)]
unsafe fn send_at_once(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
    may_wait: bool,
) -> bool {
    let Some(part) = whole(&front.types, base, count, datatype) else { return false };
    let mut held = None;
    let Some(comm) = front.comms.find_in(target.comm, &mut held) else { return false };
    let Some(peer) = comm.in_world(target.peer) else { return false };
    // SAFETY: the program passes a buffer of that many bytes.
    let data = unsafe { core::slice::from_raw_parts(part.base.as_ptr(), part.length) };
    // A tag below zero is above all that exist.
    send_bytes(comm.endpoint(&front.world), data, (peer, target.tag as u32), may_wait)
}

/// Longest message, in bytes, that is sent before the receive of the same call is posted. With both
/// posted first, messages of 64 KiB both ways take a fifth less time.
const SENT_FIRST_MAX: usize = 32 << 10;

/// Sends a message before a receive of the same call, if that needs no wait. Returns false if it
/// sent nothing. A message to oneself waits for the receive, into which it is copied.
#[inline(always)]
pub(crate) unsafe fn send_first(
    front: &Front,
    message: (Pointer, i64, Handle),
    target: Target,
) -> bool {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if send_short(front, message, target) {
            return true;
        }
        let mut held = None;
        let Some(comm) = front.comms.find_in(target.comm, &mut held) else { return false };
        let (base, count, datatype) = message;
        whole(&front.types, base, count, datatype).is_some_and(|part| part.length <= SENT_FIRST_MAX)
            && comm.in_world(target.peer) != Some(front.world.rank())
            && send_at_once(front, message, target, false)
    }
}

/// Sends a message and waits until its buffer may be used again. `host` is the host's function with
/// the same arguments.
#[inline(never)]
unsafe fn send(
    mode: SendForm,
    elements: Elements,
    target: Target,
    host: impl Fn() -> c_int,
    host_start: impl Fn(HandlePtr) -> c_int,
) -> c_int {
    let Some(mut front) = state::enter() else { return host() };
    let Some(comm) = front.comms.find(target.comm) else {
        drop(front);
        return complete::by_host(host, host_start);
    };
    if target.peer == abi::PROC_NULL {
        return 0;
    }
    let args = MessageArgs { elements, peer: target.peer, tag: target.tag };
    // SAFETY: the program passes a buffer of its elements, which this call waits for.
    let mut operation = match unsafe { StartedOperation::send(&front, &comm, mode, &args) } {
        Ok(operation) => operation,
        Err(error) => return not_started(front, target.comm, error),
    };
    if mode == SendForm::Buffered {
        front.requests.adopt(operation);
        return 0;
    }
    if !operation.unscoped.is_over() {
        if front.guard.is_none()
            && front.host_open.get() == 0
            && operation.is_whole()
            && let Some(request) = operation.unscoped.request()
            && front.world.wait_in_lines(front.world.ticket(request)).is_some()
        {
            return 0;
        }
        let what = operation.describe(front.front(), names::name_of(&host));
        if let Err(error) = front.wait(what, |front| operation.look(front).then_some(())) {
            operation.unscoped.settle(&front.world);
            drop(front);
            return errors::report(target.comm, &error);
        }
    }
    drop(front);
    match operation.finish().error {
        None => 0,
        Some(error) => errors::report(target.comm, &error),
    }
}

/// Ends a call after its operation did not start.
#[cold]
pub(crate) fn not_started(front: Entered, comm: Handle, error: NotStarted) -> c_int {
    drop(front);
    errors::not_started(comm, error)
}

/// Starts to send. `host` is the host's function with the same arguments.
#[inline(never)]
unsafe fn isend(
    mode: SendForm,
    elements: Elements,
    target: Target,
    request: HandlePtr,
    host: impl Fn() -> c_int,
) -> c_int {
    let Some(front) = state::enter() else { return host() };
    let Some(comm) = front.comms.find(target.comm) else {
        drop(front);
        complete::count_host_start(1);
        return host();
    };
    if target.peer == abi::PROC_NULL {
        // SAFETY: the program passes the place of a request.
        unsafe { request.write(RequestTable::done()) };
        return 0;
    }
    let args = MessageArgs { elements, peer: target.peer, tag: target.tag };
    // SAFETY: the program keeps the buffer of its elements until it has asked for the end.
    let operation = match unsafe { StartedOperation::send(&front, &comm, mode, &args) } {
        Ok(operation) => operation,
        Err(error) => return not_started(front, target.comm, error),
    };
    let handle = if mode == SendForm::Buffered {
        front.requests.adopt(operation);
        Some(RequestTable::done())
    } else if let Some(Ok(_)) = operation.unscoped.outcome() {
        Some(RequestTable::done())
    } else {
        front.requests.add(RequestEntry::One(operation))
    };
    drop(front);
    let Some(handle) = handle else { return errors::no_request(target.comm) };
    // SAFETY: the program passes the place of a request.
    unsafe { request.write(handle) };
    0
}

/// Defines the functions that send, each with both kinds of counts.
macro_rules! sends {
    ($($name:ident, $large:ident, $iname:ident, $ilarge:ident
        = $host:ident, $host_large:ident, $ihost:ident, $ihost_large:ident: $mode:ident;)*) => {$(
        sends!(@blocking $name, $host, $ihost, c_int, $mode);
        sends!(@blocking $large, $host_large, $ihost_large, MpiCount, $mode);
        sends!(@start $iname, $ihost, c_int, $mode);
        sends!(@start $ilarge, $ihost_large, MpiCount, $mode);
    )*};
    (@blocking $name:ident, $host:ident, $ihost:ident, $count:ty, $mode:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            peer: c_int,
            tag: c_int,
            comm: Handle,
        ) -> c_int {
            /// All but the short path. It gets the arguments in the same registers.
            #[inline(never)]
            unsafe extern "C" fn longer(
                buffer: Pointer,
                count: $count,
                datatype: Handle,
                peer: c_int,
                tag: c_int,
                comm: Handle,
            ) -> c_int {
                let target = Target { peer, tag, comm };
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    if matches!(SendForm::$mode, SendForm::Standard)
                        && let Some(front) = state::unlocked()
                        && send_at_once(front, (buffer, count.into(), datatype), target, true)
                    {
                        return 0;
                    }
                    let elements = Elements::new(buffer, count.into(), datatype);
                    let host = || host::$host(buffer, count, datatype, peer, tag, comm);
                    let start =
                        |request| host::$ihost(buffer, count, datatype, peer, tag, comm, request);
                    send(SendForm::$mode, elements, target, host, start)
                }
            }
            let target = Target { peer, tag, comm };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                if matches!(SendForm::$mode, SendForm::Standard)
                    && let Some(front) = state::unlocked()
                    && send_short(front, (buffer, count.into(), datatype), target)
                {
                    return 0;
                }
                longer(buffer, count, datatype, peer, tag, comm)
            }
        }
    };
    (@start $name:ident, $host:ident, $count:ty, $mode:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            peer: c_int,
            tag: c_int,
            comm: Handle,
            request: HandlePtr,
        ) -> c_int {
            /// All but the short path. It gets the arguments in the same registers.
            #[inline(never)]
            unsafe extern "C" fn longer(
                buffer: Pointer,
                count: $count,
                datatype: Handle,
                peer: c_int,
                tag: c_int,
                comm: Handle,
                request: HandlePtr,
            ) -> c_int {
                let target = Target { peer, tag, comm };
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    if matches!(SendForm::$mode, SendForm::Standard)
                        && let Some(front) = state::unlocked()
                        && send_at_once(front, (buffer, count.into(), datatype), target, false)
                    {
                        request.write(RequestTable::done());
                        return 0;
                    }
                    let elements = Elements::new(buffer, count.into(), datatype);
                    let host = || host::$host(buffer, count, datatype, peer, tag, comm, request);
                    isend(SendForm::$mode, elements, target, request, host)
                }
            }
            let target = Target { peer, tag, comm };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                if matches!(SendForm::$mode, SendForm::Standard)
                    && let Some(front) = state::unlocked()
                    && send_short(front, (buffer, count.into(), datatype), target)
                {
                    request.write(RequestTable::done());
                    return 0;
                }
                longer(buffer, count, datatype, peer, tag, comm, request)
            }
        }
    };
}

sends! {
    MPI_Send, MPI_Send_c, MPI_Isend, MPI_Isend_c = Send, Send_c, Isend, Isend_c: Standard;
    MPI_Rsend, MPI_Rsend_c, MPI_Irsend, MPI_Irsend_c = Rsend, Rsend_c, Irsend, Irsend_c: Standard;
    MPI_Ssend, MPI_Ssend_c, MPI_Issend, MPI_Issend_c
        = Ssend, Ssend_c, Issend, Issend_c: Synchronous;
    MPI_Bsend, MPI_Bsend_c, MPI_Ibsend, MPI_Ibsend_c
        = Bsend, Bsend_c, Ibsend, Ibsend_c: Buffered;
}
