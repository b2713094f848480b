//! Persistent requests (MPI-5.0 §3.9).

use core::ffi::c_int;

use super::comms::Comm;
use super::host::{self, HandlePtr, MpiCount, Pointer};
use super::operation::{MessageArgs, SendForm};
use super::pack::{Elements, ElementsRefused};
use super::persistent_request::Persistent;
use super::requests::RequestEntry;
use super::state::{self, Entered, Front};
use super::{complete, errors};
use crate::abi::{self, Handle};

/// Makes a persistent request. `host` is the host's function with the same arguments.
unsafe fn init(
    mode: Option<SendForm>,
    elements: Elements,
    (peer, tag): (c_int, c_int),
    comm: Handle,
    request: HandlePtr,
    host: impl FnOnce() -> c_int,
) -> c_int {
    let Some(front) = state::enter() else { return host() };
    let Some(found) = front.comms.find(comm) else {
        drop(front);
        return host();
    };
    let mut args = MessageArgs { elements, peer, tag };
    if let Err(refused) = check(&found, &mut args, mode.is_none(), &front) {
        drop(front);
        return errors::not_started(comm, refused.into());
    }
    let persistent = Persistent::new(args, mode, found);
    let added = front.requests.add(RequestEntry::Persistent(Box::new(persistent)));
    drop(front);
    let Some(handle) = added else { return errors::no_request(comm) };
    // SAFETY: the program passes the place of a request.
    unsafe { request.write(handle) };
    0
}

/// Checks the arguments, and keeps the flat datatype.
fn check(
    comm: &Comm,
    args: &mut MessageArgs,
    is_receive: bool,
    front: &Front,
) -> Result<(), ElementsRefused> {
    let is_any = is_receive && args.peer == abi::ANY_SOURCE;
    if args.peer != abi::PROC_NULL && !is_any && comm.in_world(args.peer).is_none() {
        return Err(ElementsRefused::Argument(abi::ERR_RANK));
    }
    if args.tag < 0 && !(is_receive && args.tag == abi::ANY_TAG) {
        return Err(ElementsRefused::Argument(abi::ERR_TAG));
    }
    args.elements.hold(&front.types)
}

/// Defines the functions that make persistent requests, each with both kinds of counts.
macro_rules! inits {
    ($($name:ident, $large:ident = $host:ident, $host_large:ident: $mode:expr;)*) => {
        $(
            inits!(@one $name, $host, c_int, $mode);
            inits!(@one $large, $host_large, MpiCount, $mode);
        )*
    };
    (@one $name:ident, $host:ident, $count:ty, $mode:expr) => {
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
            let elements = Elements::new(buffer, count.into(), datatype);
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                init($mode, elements, (peer, tag), comm, request, || {
                    host::$host(buffer, count, datatype, peer, tag, comm, request)
                })
            }
        }
    };
}

inits! {
    MPI_Send_init, MPI_Send_init_c = Send_init, Send_init_c: Some(SendForm::Standard);
    MPI_Ssend_init, MPI_Ssend_init_c = Ssend_init, Ssend_init_c: Some(SendForm::Synchronous);
    MPI_Bsend_init, MPI_Bsend_init_c = Bsend_init, Bsend_init_c: Some(SendForm::Buffered);
    MPI_Rsend_init, MPI_Rsend_init_c = Rsend_init, Rsend_init_c: Some(SendForm::Standard);
    MPI_Recv_init, MPI_Recv_init_c = Recv_init, Recv_init_c: None;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Start(request: HandlePtr) -> c_int {
    // SAFETY: the program passes the place of a request.
    let handle = unsafe { *request };
    if let (Some(slot), Some(front)) = (abi::request_slot(handle), state::unlocked())
        // SAFETY: the program guarantees the contract of the function in the standard.
        && unsafe { front.requests.start_short(front, slot) }
    {
        return 0;
    }
    let started = match (abi::request_slot(handle), state::enter()) {
        // SAFETY: the program guarantees the contract of the function in the standard.
        (Some(slot), Some(front)) => unsafe { start(front, slot) },
        _ => None,
    };
    started.unwrap_or_else(|| {
        complete::count_host_start(1);
        // SAFETY: the program guarantees the contract of the function in the standard.
        unsafe { host::Start(request) }
    })
}

/// Starts a persistent request of ours, and returns the code. Returns `None` if the host's own
/// function reports what is wrong.
unsafe fn start(front: Entered, slot: u32) -> Option<c_int> {
    let started = front.requests.with(slot, |entry| match entry {
        RequestEntry::Persistent(persistent) if !persistent.is_active() => {
            // SAFETY: the program guarantees the contract of `MPI_Start`.
            Some((unsafe { persistent.start(&front) }, persistent.comm_handle()))
        }
        _ => None,
    });
    let (result, comm) = started??;
    match result {
        Ok(goes_on) => {
            front.requests.count_start();
            goes_on.into_iter().for_each(|operation| front.requests.adopt(operation));
            Some(0)
        }
        Err(error) => {
            drop(front);
            Some(errors::not_started(comm, error))
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Startall(n: c_int, requests: HandlePtr) -> c_int {
    // SAFETY: the program passes an array of `n` requests.
    let all = || (0..n.max(0) as usize).map(|number| unsafe { requests.add(number) });
    // SAFETY: as above.
    if !all().any(|request| abi::request_slot(unsafe { *request }).is_some()) {
        complete::count_host_start(n);
        // SAFETY: the program guarantees the contract of the function in the standard.
        return unsafe { host::Startall(n, requests) };
    }
    // SAFETY: as above.
    all().map(|request| unsafe { MPI_Start(request) }).find(|code| *code != 0).unwrap_or(0)
}
