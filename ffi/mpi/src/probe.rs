//! Probes, and messages that a probe has matched (MPI-5.0 §3.8).

use core::ffi::c_int;

use strait::raw::{Matched, RawEndpoint as _, RawRequests as _, ShortName};
use strait::{Call, Error, Source, Wait};

use super::comms::Comm;
use super::host::{self, HandlePtr, Ints, MpiCount, Pointer};
use super::operation::{Finished, StartedOperation, source, wanted_tag};
use super::pack::Elements;
use super::requests::{FROM_NONE, RequestEntry};
use super::send::not_started;
use super::state::{self, Entered, Front};
use super::{complete, errors, helper, recv};
use crate::abi::{self, Handle};
use crate::front::operation::MessageArgs;
use crate::front::shared::Shared;

/// The message that a probe looks for.
struct ProbeArgs {
    comm: Shared<Comm>,
    peer: u32,
    tag: u32,
}

/// How a probe goes on.
enum Probe {
    Ours(Entered, ProbeArgs),
    /// The program probes `PROC_NULL`.
    FromNone,
    Hosts,
}

fn probe(peer: c_int, tag: c_int, comm: Handle) -> Probe {
    let Some(front) = state::enter() else { return Probe::Hosts };
    let Some(found) = front.comms.find(comm) else { return Probe::Hosts };
    if peer == abi::PROC_NULL {
        return Probe::FromNone;
    }
    // The host's own function reports a wrong argument.
    let (Some(peer), Some(tag)) = (source(&found, peer), wanted_tag(tag)) else {
        return Probe::Hosts;
    };
    Probe::Ours(front, ProbeArgs { comm: found, peer, tag })
}

/// Describes a message of ours that lies in lines. Looks once, or, if the program `waits`, for a
/// short time. Returns false if it found none.
///
/// # Safety
///
/// The program passes the place of a status.
#[inline(always)]
unsafe fn probe_lines(
    (peer, tag, comm): (c_int, c_int, Handle),
    waits: bool,
    status: Pointer,
) -> bool {
    let Some(front) = complete::alone() else { return false };
    let mut held = None;
    let Some(comm) = front.comms.find_in(comm, &mut held) else { return false };
    let Some((peer, tag)) = source(comm, peer).zip(wanted_tag(tag)) else { return false };
    let endpoint = comm.endpoint(&front.world);
    let found =
        if waits { endpoint.poll_probe(peer, tag) } else { endpoint.probe_lines(peer, tag) };
    let Some(found) = found else { return false };
    // SAFETY: the caller guarantees the same (contract of `probe_lines`).
    unsafe { recv::tell(comm, found, status) };
    true
}

/// Returns whether a probe of ours is over that does not wait, since no message waits, no line has
/// come, and there is no more to do.
#[inline(always)]
fn probes_in_vain((peer, tag, comm): (c_int, c_int, Handle)) -> bool {
    let Some(front) = complete::alone() else { return false };
    let mut held = None;
    let Some(comm) = front.comms.find_in(comm, &mut held) else { return false };
    source(comm, peer).is_some() && wanted_tag(tag).is_some() && front.ends_probe_in_vain()
}

/// Looks for a message, and describes it.
fn find(front: &Front, wanted: &ProbeArgs) -> Result<Option<Finished>, Error> {
    let endpoint = wanted.comm.endpoint(&front.world);
    let found = endpoint.iprobe(Source::from(wanted.peer), wanted.tag)?;
    Ok(found.map(|status| Finished::received(&wanted.comm, status)))
}

/// Looks for a message, and takes it out of matching.
fn take(front: &Front, wanted: &ProbeArgs) -> Result<Option<Matched>, Error> {
    wanted.comm.endpoint(&front.world).try_to_match(wanted.peer, wanted.tag)
}

fn what(wanted: &ProbeArgs, caller: &str) -> Wait {
    let (tag, context) = (Some(wanted.tag), Some(wanted.comm.context));
    Wait { tag, context, caller: ShortName::new(caller), ..Wait::on(Call::Probe, wanted.peer) }
}

/// Ends a probe that failed.
fn failed(front: Entered, wanted: &ProbeArgs, error: &Error) -> c_int {
    drop(front);
    errors::report(wanted.comm.handle, error)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Probe(peer: c_int, tag: c_int, comm: Handle, status: Pointer) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    if unsafe { probe_lines((peer, tag, comm), true, status) } {
        return 0;
    }
    // SAFETY: as above.
    unsafe { probe_longer(peer, tag, comm, status) }
}

#[inline(never)]
unsafe fn probe_longer(peer: c_int, tag: c_int, comm: Handle, status: Pointer) -> c_int {
    match probe(peer, tag, comm) {
        Probe::FromNone => complete::write(status, &Finished::FROM_NONE),
        Probe::Ours(mut front, wanted) => {
            let what = || what(&wanted, "MPI_Probe");
            let (peer, tag) = (wanted.peer, wanted.tag);
            let found = front.wait(what, |front| {
                wanted.comm.endpoint(&front.world).find_arrived(peer, tag).transpose()
            });
            match found.unwrap_or_else(Err) {
                Ok(found) => complete::write(status, &Finished::received(&wanted.comm, found)),
                Err(error) => failed(front, &wanted, &error),
            }
        }
        Probe::Hosts => {
            let _helper = helper::inside_host();
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe { host::Probe(peer, tag, comm, status) }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Iprobe(
    peer: c_int,
    tag: c_int,
    comm: Handle,
    flag: Ints,
    status: Pointer,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if probe_lines((peer, tag, comm), false, status) {
            flag.write(1);
            return 0;
        }
        if probes_in_vain((peer, tag, comm)) {
            flag.write(0);
            return 0;
        }
        iprobe_longer(peer, tag, comm, flag, status)
    }
}

#[inline(never)]
unsafe fn iprobe_longer(
    peer: c_int,
    tag: c_int,
    comm: Handle,
    flag: Ints,
    status: Pointer,
) -> c_int {
    // SAFETY: the caller passes the arguments of `MPI_Iprobe`.
    unsafe {
        match probe(peer, tag, comm) {
            Probe::FromNone => {
                flag.write(1);
                complete::write(status, &Finished::FROM_NONE)
            }
            Probe::Ours(front, wanted) => match find(&front, &wanted) {
                Ok(found) => {
                    flag.write(found.is_some().into());
                    complete::turn_host(front, found.is_some());
                    found.map_or(0, |found| complete::write(status, &found))
                }
                Err(error) => failed(front, &wanted, &error),
            },
            Probe::Hosts => {
                complete::turn_ours();
                host::Iprobe(peer, tag, comm, flag, status)
            }
        }
    }
}

/// Gives the program a message that was matched.
unsafe fn give(
    front: &Entered,
    wanted: &ProbeArgs,
    matched: Matched,
    message: HandlePtr,
    status: Pointer,
) -> c_int {
    let found = Finished::received(&wanted.comm, matched.status());
    // SAFETY: the program passes the place of a message.
    unsafe { message.write(front.messages.add((matched, Shared::clone(&wanted.comm)))) };
    complete::write(status, &found)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Mprobe(
    peer: c_int,
    tag: c_int,
    comm: Handle,
    message: HandlePtr,
    status: Pointer,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        match probe(peer, tag, comm) {
            Probe::FromNone => {
                message.write(abi::message_no_proc());
                complete::write(status, &Finished::FROM_NONE)
            }
            Probe::Ours(mut front, wanted) => {
                let what = || what(&wanted, "MPI_Mprobe");
                let (peer, tag) = (wanted.peer, wanted.tag);
                // Looks at lines see an arrival sooner than rounds of progress do.
                if front.guard.is_none()
                    && front.host_open.get() == 0
                    && wanted.comm.endpoint(&front.world).poll_probe(peer, tag).is_some()
                {
                    front.world.progress_in_lines();
                }
                let found = front.wait(what, |front| {
                    wanted.comm.endpoint(&front.world).match_arrived(peer, tag).transpose()
                });
                match found.unwrap_or_else(Err) {
                    Ok(matched) => give(&front, &wanted, matched, message, status),
                    Err(error) => failed(front, &wanted, &error),
                }
            }
            Probe::Hosts => {
                let _helper = helper::inside_host();
                host::Mprobe(peer, tag, comm, message, status)
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Improbe(
    peer: c_int,
    tag: c_int,
    comm: Handle,
    flag: Ints,
    message: HandlePtr,
    status: Pointer,
) -> c_int {
    // SAFETY: the program guarantees the contract of the function in the standard.
    unsafe {
        if probes_in_vain((peer, tag, comm)) {
            flag.write(0);
            return 0;
        }
        match probe(peer, tag, comm) {
            Probe::FromNone => {
                flag.write(1);
                message.write(abi::message_no_proc());
                complete::write(status, &Finished::FROM_NONE)
            }
            Probe::Ours(front, wanted) => match take(&front, &wanted) {
                Ok(None) => {
                    flag.write(0);
                    complete::turn_host(front, false);
                    0
                }
                Ok(Some(matched)) => {
                    flag.write(1);
                    give(&front, &wanted, matched, message, status)
                }
                Err(error) => failed(front, &wanted, &error),
            },
            Probe::Hosts => {
                complete::turn_ours();
                host::Improbe(peer, tag, comm, flag, message, status)
            }
        }
    }
}

/// Starts to receive a message of ours. `Err` has the code that the program gets.
unsafe fn begin(
    elements: Elements,
    message: HandlePtr,
    host: impl Fn() -> c_int,
) -> Result<(Entered, StartedOperation), c_int> {
    // SAFETY: the program passes the place of a message.
    let slot = unsafe { abi::request_slot(*message) };
    let (Some(slot), Some(front)) = (slot, state::enter()) else {
        let _helper = helper::inside_host();
        return Err(host());
    };
    let Some((matched, comm)) = front.messages.take(slot) else {
        drop(front);
        return Err(errors::raise(abi::comm_world(), abi::ERR_REQUEST));
    };
    let args = MessageArgs { elements, peer: abi::ANY_SOURCE, tag: abi::ANY_TAG };
    // SAFETY: the program keeps the buffer of its elements until it has asked for the end.
    let begun = unsafe { StartedOperation::mrecv(&front, &comm, &matched, &args.elements) };
    // SAFETY: the program passes the place of a message.
    unsafe { message.write(abi::message_null()) };
    match begun {
        Ok(operation) => Ok((front, operation)),
        Err(error) => {
            // The message goes back, for another receive.
            strait::raw::RawWorld::put_back(&front.world, &matched);
            Err(not_started(front, comm.handle, error))
        }
    }
}

/// Defines the functions that receive matched messages.
macro_rules! mrecvs {
    ($($name:ident, $iname:ident = $host:ident, $ihost:ident: $count:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            message: HandlePtr,
            status: Pointer,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                if *message == abi::message_no_proc() {
                    message.write(abi::message_null());
                    return complete::write(status, &Finished::FROM_NONE);
                }
                let elements = Elements::new(buffer, count.into(), datatype);
                let host = || host::$host(buffer, count, datatype, message, status);
                match begin(elements, message, host) {
                    Err(code) => code,
                    Ok((mut front, operation)) => {
                        let comm = Shared::clone(&operation.comm);
                        let caller = || stringify!($name);
                        let finished = recv::finish(&mut front, &comm, operation, caller);
                        drop(front);
                        complete::write(status, &finished);
                        let error = finished.error.as_ref();
                        error.map_or(0, |error| errors::report(comm.handle, error))
                    }
                }
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $iname(
            buffer: Pointer,
            count: $count,
            datatype: Handle,
            message: HandlePtr,
            request: HandlePtr,
        ) -> c_int {
            // SAFETY: the program guarantees the contract of the function in the standard.
            unsafe {
                if *message == abi::message_no_proc() {
                    message.write(abi::message_null());
                    request.write(abi::request_handle(FROM_NONE));
                    return 0;
                }
                let elements = Elements::new(buffer, count.into(), datatype);
                let host = || host::$ihost(buffer, count, datatype, message, request);
                match begin(elements, message, host) {
                    Err(code) => code,
                    Ok((front, operation)) => {
                        let comm = operation.comm.handle;
                        let handle = front.requests.add(RequestEntry::One(operation));
                        drop(front);
                        let Some(handle) = handle else { return errors::no_request(comm) };
                        request.write(handle);
                        0
                    }
                }
            }
        }
    )*};
}

mrecvs! {
    MPI_Mrecv, MPI_Imrecv = Mrecv, Imrecv: c_int;
    MPI_Mrecv_c, MPI_Imrecv_c = Mrecv_c, Imrecv_c: MpiCount;
}
