//! Receives (MPI-5.0 §3.2.4, §3.7.2).

use core::ffi::c_int;

use strait::Status;
use strait::raw::{RawEndpoint as _, RawRequests as _, ReceivedShort, SHORT_MAX, Unscoped};

use super::comms::Comm;
use super::host::{self, HandlePtr, MpiCount, Pointer};
use super::operation::{Finished, MessageArgs, StartedOperation, source, wanted_tag};
use super::pack::{Elements, MessageMemory, whole};
use super::requests::{FROM_NONE, ReceivedMessage, RequestEntry};
use super::send::{ONE_NUMBER, Target, not_started};
use super::short_messages::begin_short;
use super::state::{self, Entered, Front};
use super::{complete, errors, names};
use crate::abi::{self, Handle};
use crate::front::shared::Shared;

/// Receives a message that is in the next line of its source, in a communicator with the world's
/// ranks. Returns false if it received nothing.
#[inline(always)]
pub(crate) unsafe fn recv_short(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
    status: Pointer,
) -> bool {
    if target.comm != abi::comm_world() || target.tag < 0 {
        return false;
    }
    let Some(part) = whole(&front.types, base, count, datatype) else { return false };
    if part.length > SHORT_MAX {
        return false;
    }
    // SAFETY: the program passes a buffer of that many bytes.
    let buffer = unsafe { core::slice::from_raw_parts_mut(part.base.as_ptr(), part.length) };
    // A rank below zero is above all that exist, or `ANY_SOURCE`, which is no rank's number.
    let (endpoint, peer, tag) = (front.world.endpoint(), target.peer as u32, target.tag as u32);
    let received = if part.length == ONE_NUMBER
        && let Ok(number) = <&mut [u8; ONE_NUMBER]>::try_from(&mut *buffer)
    {
        endpoint.recv_exactly(number, peer, tag)
    } else {
        endpoint.recv_short(buffer, peer, tag)
    };
    let Some(received) = received else { return false };
    if !abi::is_ignored(status) {
        let from = (received.source as c_int, received.tag as c_int);
        // SAFETY: the program passes the place of a status.
        unsafe { abi::write_status(status, from, received.bytes, false) };
    }
    true
}

/// Returns whether [`recv_soon`] may receive.
#[inline(always)]
pub(crate) fn may_recv_soon(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
) -> bool {
    let mut held = None;
    let comm = front.comms.find_in(target.comm, &mut held);
    comm.is_some_and(|comm| source(comm, target.peer).is_some())
        && wanted_tag(target.tag).is_some()
        && whole(&front.types, base, count, datatype).is_some()
}

/// Receives a message of any length in any communicator of ours, if it has arrived or soon comes,
/// and needs no other step. Returns false if it received nothing.
#[inline(always)]
pub(crate) unsafe fn recv_soon(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
    status: Pointer,
) -> bool {
    let Some(part) = whole(&front.types, base, count, datatype) else { return false };
    let mut held = None;
    let Some(comm) = front.comms.find_in(target.comm, &mut held) else { return false };
    let Some((peer, tag)) = source(comm, target.peer).zip(wanted_tag(target.tag)) else {
        return false;
    };
    let endpoint = comm.endpoint(&front.world);
    // SAFETY: the program passes a buffer of that many bytes.
    let buffer = unsafe { core::slice::from_raw_parts_mut(part.base.as_ptr(), part.length) };
    let received = match front.host_open.get() {
        0 => endpoint.poll_lines(buffer, peer, tag),
        // The host has to progress meanwhile.
        _ => endpoint.recv_lines(buffer, peer, tag),
    };
    let Some(received) = received else { return false };
    // SAFETY: the program passes the place of a status.
    unsafe { tell(comm, received, status) };
    true
}

/// Receives a short message from any source in any communicator of ours, if it has arrived or soon
/// comes, and needs no other step. Returns false if it received nothing.
#[inline(always)]
unsafe fn recv_any_soon(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
    status: Pointer,
) -> bool {
    let Some(part) = whole(&front.types, base, count, datatype) else { return false };
    let mut held = None;
    let Some(comm) = front.comms.find_in(target.comm, &mut held) else { return false };
    let Some(tag) = wanted_tag(target.tag) else { return false };
    let endpoint = comm.endpoint(&front.world);
    // SAFETY: the program passes a buffer of that many bytes.
    let buffer = unsafe { core::slice::from_raw_parts_mut(part.base.as_ptr(), part.length) };
    let mut received = match <&mut [u8; ONE_NUMBER]>::try_from(&mut *buffer) {
        Ok(number) => endpoint.recv_exactly_from_any(number, tag),
        Err(_) => None,
    };
    if received.is_none() && front.host_open.get() == 0 {
        received = endpoint.poll_short_from_any(buffer, tag);
    }
    let Some(received) = received else { return false };
    // SAFETY: the program passes the place of a status.
    unsafe { tell(comm, received, status) };
    true
}

/// Writes what was received, unless the program ignores it.
///
/// # Safety
///
/// The program passes the place of a status.
#[inline(always)]
pub(crate) unsafe fn tell(comm: &Comm, received: Status, status: Pointer) {
    if !abi::is_ignored(status) {
        let from = (comm.of_world(received.source), received.tag as c_int);
        // SAFETY: the caller guarantees it (contract of `tell`).
        unsafe { abi::write_status(status, from, received.bytes, false) };
    }
}

/// Receives a message and waits until it has arrived. `host` is the host's function with the same
/// arguments.
#[inline(never)]
pub(crate) unsafe fn recv(
    elements: Elements,
    target: Target,
    status: Pointer,
    host: impl Fn() -> c_int,
    host_start: impl Fn(HandlePtr) -> c_int,
) -> c_int {
    let Some(mut front) = state::enter() else { return host() };
    let Some(comm) = front.comms.find(target.comm) else {
        drop(front);
        return complete::by_host_with_status(host, host_start, status);
    };
    if target.peer == abi::PROC_NULL {
        return complete::write(status, &Finished::FROM_NONE);
    }
    let args = MessageArgs { elements, peer: target.peer, tag: target.tag };
    // SAFETY: the program passes a buffer of its elements, which this call waits for.
    let operation = match unsafe { StartedOperation::recv(&front, &comm, &args) } {
        Ok(operation) => operation,
        Err(error) => return not_started(front, target.comm, error),
    };
    let finished = finish(&mut front, &comm, operation, names::name_of(&host));
    drop(front);
    complete::write(status, &finished);
    match &finished.error {
        None => 0,
        Some(error) => errors::report(target.comm, error),
    }
}

/// Waits for a receive in the function `caller`.
pub(crate) fn finish(
    front: &mut Entered,
    comm: &Shared<Comm>,
    mut operation: StartedOperation,
    caller: fn() -> &'static str,
) -> Finished {
    if !operation.unscoped.is_over() {
        if front.guard.is_none()
            && front.host_open.get() == 0
            && operation.is_whole()
            && let Some(request) = operation.unscoped.request()
            && let Some(status) = front.world.wait_in_lines(front.world.ticket(request))
        {
            return Finished::received(comm, status);
        }
        let what = operation.describe(front.front(), caller);
        if let Err(error) = front.wait(what, |front| operation.look(front).then_some(())) {
            operation.unscoped.settle(&front.world);
            return Finished { error: Some(error), ..Finished::EMPTY };
        }
    }
    operation.finish()
}

/// Starts a receive into one piece of memory that takes a short path. Returns false if it started
/// nothing.
#[inline(always)]
unsafe fn irecv_short(
    front: &Front,
    (base, count, datatype): (Pointer, i64, Handle),
    target: Target,
    request: HandlePtr,
) -> bool {
    let Some(part) = whole(&front.types, base, count, datatype) else { return false };
    let mut held = None;
    let Some(comm) = front.comms.find_in(target.comm, &mut held) else { return false };
    let Some((peer, tag)) = source(comm, target.peer).zip(wanted_tag(target.tag)) else {
        return false;
    };
    if !front.requests.has_room() {
        return false;
    }
    // SAFETY: the program keeps the buffer until it has asked for the end.
    let started = unsafe { begin_short(comm.endpoint(&front.world), part, peer, tag) };
    let added = match started {
        ReceivedShort::Declined => return false,
        ReceivedShort::Done(status) => {
            front.requests.add(RequestEntry::Received(ReceivedMessage::new(comm, status)))
        }
        ReceivedShort::Pending(id, _) => front.requests.add_started(|| {
            let unscoped = Unscoped::of_request(&front.world, id);
            StartedOperation::new(unscoped, MessageMemory::Whole(part), Shared::clone(comm), false)
        }),
    };
    let Some(handle) = added else { return false };
    // SAFETY: the program passes the place of a request.
    unsafe { request.write(handle) };
    true
}

/// Starts to receive. `host` is the host's function with the same arguments.
#[inline]
unsafe fn irecv(
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
        unsafe { request.write(abi::request_handle(FROM_NONE)) };
        return 0;
    }
    let args = MessageArgs { elements, peer: target.peer, tag: target.tag };
    // SAFETY: the program keeps the buffer of its elements until it has asked for the end.
    let operation = match unsafe { StartedOperation::recv(&front, &comm, &args) } {
        Ok(operation) => operation,
        Err(error) => return not_started(front, target.comm, error),
    };
    let handle = front.requests.add(RequestEntry::One(operation));
    drop(front);
    let Some(handle) = handle else { return errors::no_request(target.comm) };
    // SAFETY: the program passes the place of a request.
    unsafe { request.write(handle) };
    0
}

/// Defines the functions that receive, each with both kinds of counts.
macro_rules! recvs {
    ($($name:ident, $iname:ident = $host:ident, $ihost:ident: $count:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            peer: c_int,
            tag: c_int,
            comm: Handle,
            status: Pointer,
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
                status: Pointer,
            ) -> c_int {
                let target = Target { peer, tag, comm };
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    if let Some(front) = state::unlocked()
                        && recv_soon(front, (buffer, count.into(), datatype), target, status)
                    {
                        return 0;
                    }
                    let elements = Elements::new(buffer, count.into(), datatype);
                    let host = || host::$host(buffer, count, datatype, peer, tag, comm, status);
                    let start =
                        |request| host::$ihost(buffer, count, datatype, peer, tag, comm, request);
                    recv(elements, target, status, host, start)
                }
            }
            /// A receive from any source. It gets the arguments in the same registers, too.
            #[inline(never)]
            unsafe extern "C" fn from_any(
                buffer: Pointer,
                count: $count,
                datatype: Handle,
                peer: c_int,
                tag: c_int,
                comm: Handle,
                status: Pointer,
            ) -> c_int {
                let target = Target { peer, tag, comm };
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    if let Some(front) = state::unlocked()
                        && recv_any_soon(front, (buffer, count.into(), datatype), target, status)
                    {
                        return 0;
                    }
                    longer(buffer, count, datatype, peer, tag, comm, status)
                }
            }
            let target = Target { peer, tag, comm };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                if let Some(front) = state::unlocked()
                    && recv_short(front, (buffer, count.into(), datatype), target, status)
                {
                    return 0;
                }
                if peer == abi::ANY_SOURCE {
                    return from_any(buffer, count, datatype, peer, tag, comm, status);
                }
                longer(buffer, count, datatype, peer, tag, comm, status)
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $iname(
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
                let elements = Elements::new(buffer, count.into(), datatype);
                // SAFETY: the program guarantees the contract of the function in the standard.
                unsafe {
                    let host = || host::$ihost(buffer, count, datatype, peer, tag, comm, request);
                    irecv(elements, target, request, host)
                }
            }
            let target = Target { peer, tag, comm };
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                if let Some(front) = state::unlocked()
                    && irecv_short(front, (buffer, count.into(), datatype), target, request)
                {
                    return 0;
                }
                longer(buffer, count, datatype, peer, tag, comm, request)
            }
        }
    )*};
}

recvs! {
    MPI_Recv, MPI_Irecv = Recv, Irecv: c_int;
    MPI_Recv_c, MPI_Irecv_c = Recv_c, Irecv_c: MpiCount;
}
