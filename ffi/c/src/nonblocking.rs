//! Starting to send and to receive.

use core::ffi::c_int;

use shim::raw::{
    RawEndpoint as _, RawRequests as _, ReceivedShort, SHORT_MAX, SentShort, Ticket, Ticketed,
    Unscoped,
};
use shim::{Endpoint, Error};

use crate::border::{
    CountArg, HandleArg, LastingArg, LastingPartsArg, OperationMemory, OutArg, SendKind,
};
use crate::contexts::CONTEXT_MAX;
use crate::entries::full;
use crate::entry::enter;
use crate::failure::Called;
use crate::handle::{Handle, HandleKind};
use crate::instance::Instance;
use crate::messages::wake;
use crate::pending::PendingOperation;

#[unsafe(no_mangle)]
extern "C" fn strait_isend(
    world: HandleArg<'_>,
    context: u32,
    data: LastingArg,
    bytes: CountArg,
    destination: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    if context <= CONTEXT_MAX
        && !request.is_null()
        && let Some(message) = data.at_most(bytes, SHORT_MAX)
        && let Some(instance) = world.find()
    {
        let sent = instance.any_endpoint(context).send_short(message, destination, tag);
        if let Some(result) = ended(sent, instance, destination, request) {
            return result;
        }
    }
    isend(world, context, data, bytes, (destination, tag), request)
}

/// Ends the call after a message that was sent at once.
#[inline(always)]
fn ended(
    sent: SentShort,
    instance: &Instance,
    destination: u32,
    request: OutArg<'_, Handle>,
) -> Option<c_int> {
    let result = match sent {
        SentShort::Yes => 0,
        SentShort::ToSleeper => wake(instance, destination),
        SentShort::No => return None,
    };
    request.write_if_wanted(Handle::DONE);
    Some(result)
}

#[inline(never)]
fn isend(
    world: HandleArg<'_>,
    context: u32,
    data: LastingArg,
    bytes: CountArg,
    (destination, tag): (u32, u32),
    request: OutArg<'_, Handle>,
) -> c_int {
    // What comes of this send is in a register. Most others leave an operation in memory, which is
    // read right after it was written: that waits until the lines of the message are written, too.
    if context <= CONTEXT_MAX
        && !request.is_null()
        && let Some(message) = data.at_most(bytes, usize::MAX)
        && let Some(instance) = world.find()
    {
        let sent = instance.any_endpoint(context).send_medium(message, destination, tag);
        if let Some(result) = ended(sent, instance, destination, request) {
            return result;
        }
    }
    let memory = || data.memory(bytes);
    start("strait_isend", (world, context), memory, request, |memory, endpoint| {
        memory.send_after_medium(endpoint, destination, tag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_irecv(
    world: HandleArg<'_>,
    context: u32,
    buffer: LastingArg,
    bytes: CountArg,
    source: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    if context <= CONTEXT_MAX
        && !request.is_null()
        && let Some(instance) = world.find()
    {
        let endpoint = instance.any_endpoint(context);
        let ticket = match buffer.recv_short(bytes, endpoint, source, tag) {
            ReceivedShort::Done(status) => instance.world().keep_status(status),
            ReceivedShort::Pending(_, ticket) => Some(ticket),
            ReceivedShort::Declined => {
                return irecv(world, context, buffer, bytes, (source, tag), request);
            }
        };
        if let Some(handle) = ticket.and_then(|ticket| instance.handle_of_ticket(ticket)) {
            request.write_if_wanted(handle);
            return 0;
        }
        return no_request(instance, ticket);
    }
    irecv(world, context, buffer, bytes, (source, tag), request)
}

/// Settles a receive that has started and gets no handle, and reports that.
#[cold]
#[inline(never)]
fn no_request(instance: &Instance, ticket: Option<Ticket>) -> c_int {
    enter("strait_irecv", HandleArg::of(instance), || {
        let world = instance.world();
        if let Some(Ticketed::Request(request)) = ticket.map(|ticket| world.find_ticket(ticket)) {
            Unscoped::of_request(world, request).settle(world);
        }
        Err(full(HandleKind::Request))
    })
}

#[inline(never)]
fn irecv(
    world: HandleArg<'_>,
    context: u32,
    buffer: LastingArg,
    bytes: CountArg,
    (source, tag): (u32, u32),
    request: OutArg<'_, Handle>,
) -> c_int {
    let memory = || buffer.memory(bytes);
    start("strait_irecv", (world, context), memory, request, |memory, endpoint| {
        memory.recv(endpoint, source, tag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_isendv(
    world: HandleArg<'_>,
    context: u32,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    destination: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    let memory = || parts.memory(count);
    start("strait_isendv", (world, context), memory, request, |memory, endpoint| {
        memory.send(SendKind::Standard, endpoint, destination, tag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_irecvv(
    world: HandleArg<'_>,
    context: u32,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    source: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    let memory = || parts.memory(count);
    start("strait_irecvv", (world, context), memory, request, |memory, endpoint| {
        memory.recv(endpoint, source, tag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_issend(
    world: HandleArg<'_>,
    context: u32,
    data: LastingArg,
    bytes: CountArg,
    destination: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    let memory = || data.memory(bytes);
    start("strait_issend", (world, context), memory, request, |memory, endpoint| {
        memory.send(SendKind::Synchronous, endpoint, destination, tag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_issendv(
    world: HandleArg<'_>,
    context: u32,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    destination: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    let memory = || parts.memory(count);
    start("strait_issendv", (world, context), memory, request, |memory, endpoint| {
        memory.send(SendKind::Synchronous, endpoint, destination, tag)
    })
}

/// Starts an operation of `memory` in a context of `world`, and gives C its request.
#[inline(always)]
fn start(
    call: &'static str,
    (world, context): (HandleArg<'_>, u32),
    memory: impl FnOnce() -> Called<OperationMemory>,
    request: OutArg<'_, Handle>,
    start: impl FnOnce(OperationMemory, Endpoint<'_>) -> Result<PendingOperation, Error>,
) -> c_int {
    enter(call, world, || {
        let instance = world.world()?;
        request.need()?;
        let started = start(memory()?, instance.endpoint(context)?)?;
        instance.give(started, request)
    })
}
