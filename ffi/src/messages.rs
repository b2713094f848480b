//! Sending and receiving.

use core::ffi::{c_int, c_void};

use shim::{Part, Unscoped};

use crate::buffer::{answer, answer_if_wanted, need, part, readable, writable};
use crate::entry::{Called, enter};
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::instance::Instance;
use crate::requests::{Pending, Status};

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_send(
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
        let instance = unsafe { handle::world(world) }?;
        let (data, endpoint) = (part(data, bytes)?, instance.endpoint(context)?);
        need(request)?;
        // SAFETY: by the contract.
        let begun = unsafe { endpoint.begin_send(data, destination, tag) }?;
        // SAFETY: by the contract.
        unsafe { keep(instance, begun, None, request) }
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
        let instance = unsafe { handle::world(world) }?;
        let (buffer, endpoint) = (part(buffer, bytes)?, instance.endpoint(context)?);
        need(request)?;
        // SAFETY: by the contract.
        let begun = unsafe { endpoint.begin_recv(buffer, source, tag) }?;
        // SAFETY: by the contract.
        unsafe { keep(instance, begun, None, request) }
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
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        let (parts, endpoint) = (unsafe { list(parts, count) }?, instance.endpoint(context)?);
        need(request)?;
        // SAFETY: by the contract; the list stays with the request.
        let begun = unsafe { endpoint.begin_send_vectored(&parts, destination, tag) }?;
        // SAFETY: by the contract.
        unsafe { keep(instance, begun, Some(parts), request) }
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
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        let (parts, endpoint) = (unsafe { list(parts, count) }?, instance.endpoint(context)?);
        need(request)?;
        // SAFETY: by the contract; the list stays with the request.
        let begun = unsafe { endpoint.begin_recv_vectored(&parts, source, tag) }?;
        // SAFETY: by the contract.
        unsafe { keep(instance, begun, Some(parts), request) }
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

/// Gives C the request for what was begun. `parts` is the list that it reads.
///
/// # Safety
///
/// `request` is as `strait.h` says.
#[inline(always)]
unsafe fn keep(
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
