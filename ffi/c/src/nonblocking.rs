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
use crate::messages::{ContextTag, ONE_NUMBER, wake};
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
    if bytes.get() != ONE_NUMBER {
        return isend_bytes(world, context, data, bytes, destination, tag, request);
    }
    if context <= CONTEXT_MAX
        && !request.is_null()
        && let Some(number) = data.exactly::<ONE_NUMBER>(bytes)
        && let Some(instance) = world.find()
    {
        let sent = instance.any_endpoint(context).send_short(number, destination, tag);
        if let Some(result) = ended(sent, instance, destination, request) {
            return result;
        }
        let context_tag = ContextTag::new(context, tag);
        return isend_on(instance, context_tag, data, bytes, destination, request);
    }
    isend(world, context, data, bytes, destination, tag, request)
}

/// Starts to send a message of any length.
#[inline(never)]
extern "C" fn isend_bytes(
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
        && let Some(instance) = world.find()
    {
        if let Some(message) = data.at_most(bytes, SHORT_MAX) {
            let sent = instance.any_endpoint(context).send_short(message, destination, tag);
            if let Some(result) = ended(sent, instance, destination, request) {
                return result;
            }
        }
        let context_tag = ContextTag::new(context, tag);
        return isend_on(instance, context_tag, data, bytes, destination, request);
    }
    isend(world, context, data, bytes, destination, tag, request)
}

/// Ends the call after a message that was sent at once.
#[inline(always)]
fn ended(
    sent: SentShort,
    instance: &Instance,
    destination: u32,
    request: OutArg<'_, Handle>,
) -> Option<c_int> {
    if sent == SentShort::No {
        return None;
    }
    request.write_if_wanted(Handle::DONE);
    Some(if sent == SentShort::ToSleeper { wake(instance, destination) } else { 0 })
}

/// Starts to send a message, for which the short path has stopped, in a context that exists.
#[inline(never)]
extern "C" fn isend_on(
    instance: &Instance,
    context_tag: ContextTag,
    data: LastingArg,
    bytes: CountArg,
    destination: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    let (context, tag) = (context_tag.context(), context_tag.tag());
    // What comes of this send is in a register. Most others leave an operation in memory, which is
    // read right after it was written: that waits until the lines of the message are written, too.
    if let Some(message) = data.at_most(bytes, usize::MAX) {
        let sent = instance.any_endpoint(context).send_medium(message, destination, tag);
        if let Some(result) = ended(sent, instance, destination, request) {
            return result;
        }
    }
    isend(HandleArg::of(instance), context, data, bytes, destination, tag, request)
}

/// Starts to send a message that the short paths have declined, or reports what is wrong.
#[inline(never)]
extern "C" fn isend(
    world: HandleArg<'_>,
    context: u32,
    data: LastingArg,
    bytes: CountArg,
    destination: u32,
    tag: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
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
        let Some(ticket) = buffer.post_first(bytes, endpoint, source, tag) else {
            let context_tag = ContextTag::new(context, tag);
            return irecv_short(instance, context_tag, buffer, bytes, source, request);
        };
        return give_handle(instance, ticket, request);
    }
    irecv(world, context, buffer, bytes, source, tag, request)
}

/// Starts a receive that perhaps finds its message or is not the only one, in a context that
/// exists. It is a function of its own, so that a receive that is only posted saves no registers.
#[inline(never)]
extern "C" fn irecv_short(
    instance: &Instance,
    context_tag: ContextTag,
    buffer: LastingArg,
    bytes: CountArg,
    source: u32,
    request: OutArg<'_, Handle>,
) -> c_int {
    let (context, tag) = (context_tag.context(), context_tag.tag());
    let ticket = match buffer.recv_short(bytes, instance.any_endpoint(context), source, tag) {
        ReceivedShort::Done(status) => instance.world().keep_status(status),
        ReceivedShort::Pending(_, ticket) => Some(ticket),
        ReceivedShort::Declined => {
            return irecv(HandleArg::of(instance), context, buffer, bytes, source, tag, request);
        }
    };
    match ticket {
        Some(ticket) => give_handle(instance, ticket, request),
        None => no_memory(instance),
    }
}

/// Gives C the handle of a receive that has started.
#[inline(always)]
fn give_handle(instance: &Instance, ticket: Ticket, request: OutArg<'_, Handle>) -> c_int {
    let Some(handle) = instance.handle_of_ticket(ticket) else {
        return no_handle(instance, ticket.index, ticket.generation);
    };
    request.write_if_wanted(handle);
    0
}

/// Settles a receive that has started and gets no handle, and reports that. The ticket comes in two
/// registers, so that the caller keeps nothing in memory.
#[cold]
#[inline(never)]
extern "C" fn no_handle(instance: &Instance, index: u32, generation: u32) -> c_int {
    enter("strait_irecv", HandleArg::of(instance), || {
        let world = instance.world();
        if let Ticketed::Request(request) = world.find_ticket(Ticket { index, generation }) {
            Unscoped::of_request(world, request).settle(world);
        }
        Err(full(HandleKind::Request))
    })
}

/// Reports that there is no memory for the request of a receive that is over.
#[cold]
#[inline(never)]
extern "C" fn no_memory(instance: &Instance) -> c_int {
    enter("strait_irecv", HandleArg::of(instance), || Err(full(HandleKind::Request)))
}

/// Starts a receive that the short paths have declined, or reports what is wrong.
#[inline(never)]
extern "C" fn irecv(
    world: HandleArg<'_>,
    context: u32,
    buffer: LastingArg,
    bytes: CountArg,
    source: u32,
    tag: u32,
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
