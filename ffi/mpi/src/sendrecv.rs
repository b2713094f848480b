//! A send and a receive in one call (MPI-5.0 §3.11).

use core::ffi::c_int;

use super::comms::Comm;
use super::host::{self, HandlePtr, MpiCount, Pointer};
use super::operation::{Finished, MessageArgs, NotStarted, SendForm, StartedOperation};
use super::pack::Elements;
use super::requests::{FROM_NONE, RequestEntry, RequestTable};
use super::send::{self, Target, not_started};
use super::state::{self, Entered};
use super::{complete, errors, names, recv};
use crate::abi::{self, Handle};
use crate::front::shared::Shared;

/// The operations of a call that have started. `None`: the peer is `PROC_NULL`.
struct Halves {
    send: Option<StartedOperation>,
    recv: Option<StartedOperation>,
}

/// Starts both.
unsafe fn start(
    front: &Entered,
    comm: &Shared<Comm>,
    send: &MessageArgs,
    recv: &MessageArgs,
    mode: SendForm,
) -> Result<Halves, NotStarted> {
    let is_open = |args: &MessageArgs| args.peer != abi::PROC_NULL;
    // A send in place reads its buffer before the receive may write it.
    // SAFETY: the program keeps both buffers until the call, or its request, has ended.
    unsafe {
        let mut halves = Halves { send: None, recv: None };
        let (buffered, other) = (mode == SendForm::Buffered, mode != SendForm::Buffered);
        if buffered && is_open(send) {
            halves.send = Some(StartedOperation::send(front, comm, mode, send)?);
        }
        if is_open(recv) {
            halves.recv = Some(StartedOperation::recv(front, comm, recv)?);
        }
        if other && is_open(send) {
            match StartedOperation::send(front, comm, mode, send) {
                Ok(operation) => halves.send = Some(operation),
                Err(error) => {
                    if let Some(recv) = &mut halves.recv {
                        recv.unscoped.settle(&front.world);
                    }
                    return Err(error);
                }
            }
        }
        Ok(halves)
    }
}

/// Sends and receives, and waits for both.
#[inline(never)]
unsafe fn both(
    send: MessageArgs,
    recv: MessageArgs,
    mode: SendForm,
    comm: Handle,
    status: Pointer,
    host: impl Fn() -> c_int,
) -> c_int {
    let Some(mut front) = state::enter() else { return host() };
    let Some(found) = front.comms.find(comm) else {
        drop(front);
        return complete::inside_host(host);
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    let halves = match unsafe { start(&front, &found, &send, &recv, mode) } {
        Ok(halves) => halves,
        Err(error) => return not_started(front, comm, error),
    };
    let caller = names::name_of(&host);
    let finished = match halves.recv {
        Some(operation) => recv::finish(&mut front, &found, operation, caller),
        None => Finished::FROM_NONE,
    };
    let mut sent = Ok(());
    if let Some(mut operation) = halves.send {
        let what = operation.describe(front.front(), caller);
        sent = front.wait(what, |front| operation.look(front).then_some(()));
        match &sent {
            Ok(()) => sent = operation.finish().error.map_or(Ok(()), Err),
            Err(_) => operation.unscoped.settle(&front.world),
        }
    }
    drop(front);
    complete::write(status, &finished);
    match finished.error.or(sent.err()) {
        None => 0,
        Some(error) => errors::report(comm, &error),
    }
}

/// Starts to send and to receive, with one request.
unsafe fn start_both(
    send: MessageArgs,
    recv: MessageArgs,
    mode: SendForm,
    comm: Handle,
    request: HandlePtr,
    host: impl Fn() -> c_int,
) -> c_int {
    let Some(front) = state::enter() else { return host() };
    let Some(found) = front.comms.find(comm) else {
        drop(front);
        complete::count_host_start(1);
        return host();
    };
    // SAFETY: the program guarantees the contract of the function in the standard.
    let halves = match unsafe { start(&front, &found, &send, &recv, mode) } {
        Ok(halves) => halves,
        Err(error) => return not_started(front, comm, error),
    };
    let handle = match (halves.send, halves.recv) {
        (Some(send), Some(recv)) => front.requests.add(RequestEntry::Pair(Box::new([send, recv]))),
        (None, Some(recv)) => front.requests.add(RequestEntry::One(recv)),
        // The status is that of the receive, which is from `PROC_NULL`.
        (Some(send), None) if !send.unscoped.is_over() => {
            front.requests.add(RequestEntry::One(send))
        }
        (Some(_), None) => Some(RequestTable::done()),
        (None, None) => Some(abi::request_handle(FROM_NONE)),
    };
    drop(front);
    let Some(handle) = handle else { return errors::no_request(comm) };
    // SAFETY: the program passes the place of a request.
    unsafe { request.write(handle) };
    0
}

/// Elements without gaps, perhaps: address, number, type.
type MaybeWhole = (Pointer, i64, Handle);

/// Sends the message if that needs no wait, and then receives, by `host` and `start` where the host
/// has to. Otherwise calls `longer`, before anything was sent.
#[inline(always)]
unsafe fn send_first_and_recv(
    (message, to): (MaybeWhole, Target),
    (into, from): (MaybeWhole, Target),
    status: Pointer,
    (host, start): (impl Fn() -> c_int, impl Fn(HandlePtr) -> c_int),
    longer: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        let is_sent =
            |front| recv::may_recv_soon(front, into, from) && send::send_first(front, message, to);
        let Some(front) = state::unlocked().filter(|front| is_sent(front)) else {
            return longer();
        };
        if recv::recv_short(front, into, from, status) || recv::recv_soon(front, into, from, status)
        {
            return 0;
        }
        let (base, count, datatype) = into;
        recv::recv(Elements::new(base, count, datatype), from, status, host, start)
    }
}

/// Defines the functions that wait, with one kind of counts.
macro_rules! sendrecvs {
    ($name:ident, $replace:ident = $host:ident, $rhost:ident, $recv:ident, $irecv:ident:
        $count:ty) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            data: Pointer,
            count: $count,
            datatype: Handle,
            dest: c_int,
            tag: c_int,
            buffer: Pointer,
            room: $count,
            buffer_type: Handle,
            from: c_int,
            recv_tag: c_int,
            comm: Handle,
            status: Pointer,
        ) -> c_int {
            let message = ((data, count.into(), datatype), Target { peer: dest, tag, comm });
            let source = Target { peer: from, tag: recv_tag, comm };
            let into = ((buffer, room.into(), buffer_type), source);
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                let host = || host::$recv(buffer, room, buffer_type, from, recv_tag, comm, status);
                let start = |request| {
                    host::$irecv(buffer, room, buffer_type, from, recv_tag, comm, request)
                };
                send_first_and_recv(message, into, status, (host, start), || {
                    let send = message_args(message);
                    both(send, message_args(into), SendForm::Standard, comm, status, || {
                        host::$host(
                            data,
                            count,
                            datatype,
                            dest,
                            tag,
                            buffer,
                            room,
                            buffer_type,
                            from,
                            recv_tag,
                            comm,
                            status,
                        )
                    })
                })
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $replace(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            dest: c_int,
            tag: c_int,
            from: c_int,
            recv_tag: c_int,
            comm: Handle,
            status: Pointer,
        ) -> c_int {
            let elements = (buffer, count.into(), datatype);
            let message = (elements, Target { peer: dest, tag, comm });
            let into = (elements, Target { peer: from, tag: recv_tag, comm });
            // SAFETY: as above. A message that was sent is no longer read from the buffer.
            unsafe {
                let host = || host::$recv(buffer, count, datatype, from, recv_tag, comm, status);
                let start =
                    |request| host::$irecv(buffer, count, datatype, from, recv_tag, comm, request);
                send_first_and_recv(message, into, status, (host, start), || {
                    let send = message_args(message);
                    both(send, message_args(into), SendForm::Buffered, comm, status, || {
                        host::$rhost(
                            buffer, count, datatype, dest, tag, from, recv_tag, comm, status,
                        )
                    })
                })
            }
        }
    };
}

/// Defines the functions that start, with one kind of counts.
macro_rules! isendrecvs {
    ($name:ident, $replace:ident = $host:ident, $rhost:ident: $count:ty) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            data: Pointer,
            count: $count,
            datatype: Handle,
            dest: c_int,
            tag: c_int,
            buffer: Pointer,
            room: $count,
            buffer_type: Handle,
            from: c_int,
            recv_tag: c_int,
            comm: Handle,
            request: HandlePtr,
        ) -> c_int {
            let message = ((data, count.into(), datatype), Target { peer: dest, tag, comm });
            let source = Target { peer: from, tag: recv_tag, comm };
            let into = ((buffer, room.into(), buffer_type), source);
            let (send, recv) = (message_args(message), message_args(into));
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                start_both(send, recv, SendForm::Standard, comm, request, || {
                    host::$host(
                        data,
                        count,
                        datatype,
                        dest,
                        tag,
                        buffer,
                        room,
                        buffer_type,
                        from,
                        recv_tag,
                        comm,
                        request,
                    )
                })
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $replace(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            dest: c_int,
            tag: c_int,
            from: c_int,
            recv_tag: c_int,
            comm: Handle,
            request: HandlePtr,
        ) -> c_int {
            let elements = (buffer, count.into(), datatype);
            let send = message_args((elements, Target { peer: dest, tag, comm }));
            let recv = message_args((elements, Target { peer: from, tag: recv_tag, comm }));
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                start_both(send, recv, SendForm::Buffered, comm, request, || {
                    host::$rhost(buffer, count, datatype, dest, tag, from, recv_tag, comm, request)
                })
            }
        }
    };
}

fn message_args(
    ((base, count, datatype), Target { peer, tag, .. }): (MaybeWhole, Target),
) -> MessageArgs {
    MessageArgs { elements: Elements::new(base, count, datatype), peer, tag }
}

sendrecvs!(MPI_Sendrecv, MPI_Sendrecv_replace
    = Sendrecv, Sendrecv_replace, Recv, Irecv: c_int);
sendrecvs!(MPI_Sendrecv_c, MPI_Sendrecv_replace_c
    = Sendrecv_c, Sendrecv_replace_c, Recv_c, Irecv_c: MpiCount);
isendrecvs!(MPI_Isendrecv, MPI_Isendrecv_replace = Isendrecv, Isendrecv_replace: c_int);
isendrecvs!(MPI_Isendrecv_c, MPI_Isendrecv_replace_c
    = Isendrecv_c, Isendrecv_replace_c: MpiCount);
