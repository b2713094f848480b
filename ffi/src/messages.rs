//! Sending and receiving.

use core::ffi::{c_int, c_void};

use shim::{Endpoint, Error, Part, SentShort, Unscoped};

use crate::buffer::{answer, answer_if_wanted, need, part, readable, writable};
use crate::entry::{Called, enter};
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::instance::{CONTEXT_MAX, Instance};
use crate::requests::{Pending, Status};

/// Bytes of the message that most programs send most: one number. It has a path of its own, on which nothing but a free line or an
/// arrived one is touched, and no register has to be saved: whatever else there may be to do, functions of their own do.
const ONE_NUMBER: usize = 8;

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_send(
    world: Handle,
    context: u32,
    data: *const c_void,
    bytes: usize,
    destination: u32,
    tag: u32,
) -> c_int {
    if bytes != ONE_NUMBER || context > CONTEXT_MAX || data.is_null() {
        // SAFETY: by the contract.
        return unsafe { send(world, context, data, bytes, destination, tag) };
    }
    // SAFETY: by the contract.
    let Some(instance) = (unsafe { handle::find(world) }) else {
        // SAFETY: by the contract; it says why not.
        return unsafe { send(world, context, data, bytes, destination, tag) };
    };
    // SAFETY: by the contract, and not null.
    let number = unsafe { &*data.cast::<[u8; ONE_NUMBER]>() };
    match instance.any_endpoint(context).send_short(number, destination, tag) {
        SentShort::Yes => 0,
        SentShort::ToSleeper => wake(instance, destination),
        // SAFETY: by the contract.
        SentShort::No => unsafe { send_number(instance, context, data, destination, tag) },
    }
}

#[inline(never)]
unsafe extern "C" fn send_number(
    instance: &Instance,
    context: u32,
    data: *const c_void,
    destination: u32,
    tag: u32,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { send(instance.handle(), context, data, ONE_NUMBER, destination, tag) }
}

#[inline(never)]
unsafe extern "C" fn send(
    world: Handle,
    context: u32,
    data: *const c_void,
    bytes: usize,
    destination: u32,
    tag: u32,
) -> c_int {
    enter("strait_send", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        let data = unsafe { readable(data, bytes) }?;
        Ok(instance.endpoint(context)?.send(data, destination, tag)?)
    })
}

#[cold]
#[inline(never)]
extern "C" fn wake(instance: &Instance, destination: u32) -> c_int {
    enter("strait_send", instance.handle(), || {
        instance.world().endpoint().wake(destination);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_recv(
    world: Handle,
    context: u32,
    buffer: *mut c_void,
    bytes: usize,
    source: u32,
    tag: u32,
    status: *mut Status,
) -> c_int {
    let envelope = Envelope { source, tag };
    if bytes != ONE_NUMBER || context > CONTEXT_MAX || buffer.is_null() {
        // SAFETY: by the contract.
        return unsafe { recv(world, context, buffer, bytes, envelope, status) };
    }
    // SAFETY: by the contract.
    let Some(instance) = (unsafe { handle::find(world) }) else {
        // SAFETY: by the contract; it says why not.
        return unsafe { recv(world, context, buffer, bytes, envelope, status) };
    };
    // SAFETY: by the contract, and not null.
    let number = unsafe { &mut *buffer.cast::<[u8; ONE_NUMBER]>() };
    match instance.any_endpoint(context).recv_exactly(number, source, tag) {
        Some(received) => {
            // SAFETY: by the contract.
            unsafe { answer_if_wanted(status, received.into()) };
            0
        }
        // SAFETY: by the contract.
        None => unsafe { recv_number(instance, context, buffer, envelope, status) },
    }
}

/// What a receive wants, in one register.
#[derive(Clone, Copy)]
#[repr(C)]
struct Envelope {
    source: u32,
    tag: u32,
}

#[inline(never)]
unsafe extern "C" fn recv_number(
    instance: &Instance,
    context: u32,
    buffer: *mut c_void,
    envelope: Envelope,
    status: *mut Status,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { recv(instance.handle(), context, buffer, ONE_NUMBER, envelope, status) }
}

#[inline(never)]
unsafe extern "C" fn recv(
    world: Handle,
    context: u32,
    buffer: *mut c_void,
    bytes: usize,
    Envelope { source, tag }: Envelope,
    status: *mut Status,
) -> c_int {
    enter("strait_recv", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        let buffer = unsafe { writable(buffer, bytes) }?;
        let received = instance.endpoint(context)?.recv(buffer, source, tag)?;
        // SAFETY: by the contract.
        unsafe { answer_if_wanted(status, received.into()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_isend(
    world: Handle,
    context: u32,
    data: *const c_void,
    bytes: usize,
    destination: u32,
    tag: u32,
    request: *mut Handle,
) -> c_int {
    enter("strait_isend", world, || {
        // SAFETY: by the contract.
        unsafe {
            begin_one(world, context, (data, bytes), request, |endpoint, data| {
                endpoint.begin_send(data, destination, tag)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_irecv(
    world: Handle,
    context: u32,
    buffer: *mut c_void,
    bytes: usize,
    source: u32,
    tag: u32,
    request: *mut Handle,
) -> c_int {
    enter("strait_irecv", world, || {
        // SAFETY: by the contract.
        unsafe {
            begin_one(world, context, (buffer.cast_const(), bytes), request, |endpoint, buffer| {
                endpoint.begin_recv(buffer, source, tag)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_isendv(
    world: Handle,
    context: u32,
    parts: *const libc::iovec,
    count: c_int,
    destination: u32,
    tag: u32,
    request: *mut Handle,
) -> c_int {
    enter("strait_isendv", world, || {
        // SAFETY: by the contract.
        unsafe {
            begin_list(world, context, (parts, count), request, |endpoint, parts| {
                endpoint.begin_send_vectored(parts, destination, tag)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_irecvv(
    world: Handle,
    context: u32,
    parts: *const libc::iovec,
    count: c_int,
    source: u32,
    tag: u32,
    request: *mut Handle,
) -> c_int {
    enter("strait_irecvv", world, || {
        // SAFETY: by the contract.
        unsafe {
            begin_list(world, context, (parts, count), request, |endpoint, parts| {
                endpoint.begin_recv_vectored(parts, source, tag)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_ssend(
    world: Handle,
    context: u32,
    data: *const c_void,
    bytes: usize,
    destination: u32,
    tag: u32,
) -> c_int {
    enter("strait_ssend", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        let data = unsafe { readable(data, bytes) }?;
        Ok(instance.endpoint(context)?.ssend(data, destination, tag)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_issend(
    world: Handle,
    context: u32,
    data: *const c_void,
    bytes: usize,
    destination: u32,
    tag: u32,
    request: *mut Handle,
) -> c_int {
    enter("strait_issend", world, || {
        // SAFETY: by the contract.
        unsafe {
            begin_one(world, context, (data, bytes), request, |endpoint, data| {
                endpoint.begin_ssend(data, destination, tag)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_issendv(
    world: Handle,
    context: u32,
    parts: *const libc::iovec,
    count: c_int,
    destination: u32,
    tag: u32,
    request: *mut Handle,
) -> c_int {
    enter("strait_issendv", world, || {
        // SAFETY: by the contract.
        unsafe {
            begin_list(world, context, (parts, count), request, |endpoint, parts| {
                endpoint.begin_ssend_vectored(parts, destination, tag)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_probe(
    world: Handle,
    context: u32,
    source: u32,
    tag: u32,
    status: *mut Status,
) -> c_int {
    enter("strait_probe", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        let found = instance.endpoint(context)?.probe(source, tag)?;
        // SAFETY: by the contract.
        unsafe { answer_if_wanted(status, found.into()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_iprobe(
    world: Handle,
    context: u32,
    source: u32,
    tag: u32,
    found: *mut c_int,
    status: *mut Status,
) -> c_int {
    enter("strait_iprobe", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        let message = instance.endpoint(context)?.iprobe(source, tag)?;
        // SAFETY: by the contract.
        unsafe {
            if let Some(message) = message {
                answer_if_wanted(status, message.into());
            }
            answer(found, message.is_some().into())
        }
    })
}

/// Has `begin` begin with one buffer, and gives C the request.
///
/// # Safety
///
/// As `strait.h` says of `strait_isend`.
#[inline(always)]
unsafe fn begin_one(
    world: Handle,
    context: u32,
    (buffer, bytes): (*const c_void, usize),
    request: *mut Handle,
    begin: impl FnOnce(Endpoint<'_>, Part) -> Result<Unscoped, Error>,
) -> Called {
    // SAFETY: by the contract.
    let instance = unsafe { handle::world(world) }?;
    let (buffer, endpoint) = (part(buffer, bytes)?, instance.endpoint(context)?);
    need(request)?;
    // SAFETY: by the contract.
    unsafe { keep(instance, begin(endpoint, buffer)?, None, request) }
}

/// The same with a list of buffers, which stays with the request.
///
/// # Safety
///
/// As `strait.h` says of `strait_isendv`.
#[inline(always)]
unsafe fn begin_list(
    world: Handle,
    context: u32,
    (parts, count): (*const libc::iovec, c_int),
    request: *mut Handle,
    begin: impl FnOnce(Endpoint<'_>, &[Part]) -> Result<Unscoped, Error>,
) -> Called {
    // SAFETY: by the contract.
    let instance = unsafe { handle::world(world) }?;
    // SAFETY: by the contract.
    let (parts, endpoint) = (unsafe { list(parts, count) }?, instance.endpoint(context)?);
    need(request)?;
    let begun = begin(endpoint, &parts)?;
    // SAFETY: by the contract.
    unsafe { keep(instance, begun, Some(parts), request) }
}

/// Gives C the request for what was begun. `parts` is the list that it reads.
///
/// # Safety
///
/// `request` is as `strait.h` says.
#[inline(always)]
pub(crate) unsafe fn keep(
    instance: &Instance,
    begun: Unscoped,
    parts: Option<Box<[Part]>>,
    request: *mut Handle,
) -> Called {
    let handle = instance.keep(Pending::new(begun, parts))?;
    // SAFETY: by the contract.
    unsafe { answer(request, handle) }
}

/// A list of buffers, checked.
///
/// # Safety
///
/// `parts` leads to `count` of them.
pub(crate) unsafe fn list(parts: *const libc::iovec, count: c_int) -> Called<Box<[Part]>> {
    let Ok(count) = usize::try_from(count) else {
        return Err(Failure::argument(format!("a list of {count} buffers")));
    };
    if count == 0 {
        return Ok(Box::default());
    }
    need(parts)?;
    // SAFETY: by the contract.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    let list =
        parts.iter().map(|each| part(each.iov_base, each.iov_len)).collect::<Called<Box<_>>>()?;
    let total = list.iter().try_fold(0_usize, |sum, part: &Part| sum.checked_add(part.length));
    match total {
        Some(total) if total <= isize::MAX as usize => Ok(list),
        _ => Err(Failure::argument(
            "the buffers of the list have more bytes than there are addresses",
        )),
    }
}
