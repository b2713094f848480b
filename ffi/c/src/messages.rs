//! Sending and receiving.

use core::ffi::c_int;

use shim::raw::{RawEndpoint as _, RawRequests as _, ReceivedShort, SHORT_MAX, SentShort};
use shim::{Endpoint, Error};

use crate::border::{
    BufferArg, CountArg, DataArg, HandleArg, LastingArg, LastingPartsArg, OperationMemory, OutArg,
    SendKind,
};
use crate::contexts::CONTEXT_MAX;
use crate::entries::full;
use crate::entry::enter;
use crate::failure::Called;
use crate::handle::{Handle, HandleKind};
use crate::instance::Instance;
use crate::pending::PendingOperation;
use crate::requests::CStatus;

/// Length in bytes of the most frequent message of most programs: one number.
///
/// This length has its own path, which touches only a free line or an arrived line and saves no
/// register. The other lengths up to [`SHORT_MAX`] have another such path. Separate functions do
/// all other work.
const ONE_NUMBER: usize = 8;

/// Context and tag of a message, in one register.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct ContextTag(u64);

impl ContextTag {
    #[inline(always)]
    const fn new(context: u32, tag: u32) -> Self {
        Self((context as u64) << 32 | tag as u64)
    }

    #[inline(always)]
    const fn context(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    const fn tag(self) -> u32 {
        self.0 as u32
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_send(
    world: HandleArg<'_>,
    context: u32,
    data: DataArg<'_>,
    bytes: CountArg,
    destination: u32,
    tag: u32,
) -> c_int {
    if bytes.get() != ONE_NUMBER {
        return send_short(world, context, data, bytes, destination, tag);
    }
    if context <= CONTEXT_MAX
        && let Some(number) = data.exactly::<ONE_NUMBER>(bytes)
        && let Some(instance) = world.find()
    {
        return match instance.any_endpoint(context).send_short(number, destination, tag) {
            SentShort::Yes => 0,
            SentShort::ToSleeper => wake(instance, destination),
            SentShort::No => {
                send_number(instance, ContextTag::new(context, tag), number, destination)
            }
        };
    }
    send(world, context, data, bytes, destination, tag)
}

/// Sends a message of any length up to [`SHORT_MAX`], if a free line is all that it needs.
#[inline(never)]
extern "C" fn send_short(
    world: HandleArg<'_>,
    context: u32,
    data: DataArg<'_>,
    bytes: CountArg,
    destination: u32,
    tag: u32,
) -> c_int {
    if context <= CONTEXT_MAX
        && let Some(message) = data.at_most(bytes, SHORT_MAX)
        && let Some(instance) = world.find()
    {
        return match instance.any_endpoint(context).send_short(message, destination, tag) {
            SentShort::Yes => 0,
            SentShort::ToSleeper => wake(instance, destination),
            SentShort::No => {
                send_bytes(instance, ContextTag::new(context, tag), message, destination)
            }
        };
    }
    send(world, context, data, bytes, destination, tag)
}

#[inline(never)]
extern "C" fn send(
    world: HandleArg<'_>,
    context: u32,
    data: DataArg<'_>,
    bytes: CountArg,
    destination: u32,
    tag: u32,
) -> c_int {
    enter("strait_send", world, || {
        let instance = world.world()?;
        let data = data.readable(bytes)?;
        Ok(instance.endpoint(context)?.send(data, destination, tag)?)
    })
}

#[inline(never)]
extern "C" fn send_number(
    instance: &Instance,
    context_tag: ContextTag,
    number: &[u8; ONE_NUMBER],
    destination: u32,
) -> c_int {
    send_bytes(instance, context_tag, number, destination)
}

#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "no function in C calls it, and it does not unwind")]
extern "C" fn send_bytes(
    instance: &Instance,
    context_tag: ContextTag,
    message: &[u8],
    destination: u32,
) -> c_int {
    enter("strait_send", HandleArg::of(instance), || {
        let endpoint = instance.endpoint(context_tag.context())?;
        Ok(endpoint.send(message, destination, context_tag.tag())?)
    })
}

#[cold]
#[inline(never)]
extern "C" fn wake(instance: &Instance, destination: u32) -> c_int {
    enter("strait_send", HandleArg::of(instance), || {
        instance.world().endpoint().wake(destination);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_recv(
    world: HandleArg<'_>,
    context: u32,
    mut buffer: BufferArg<'_>,
    bytes: CountArg,
    source: u32,
    tag: u32,
    status: OutArg<'_, CStatus>,
) -> c_int {
    let source_tag = SourceTag { source, tag };
    if bytes.get() != ONE_NUMBER {
        return recv_short(world, context, buffer, bytes, source_tag, status);
    }
    if context <= CONTEXT_MAX
        && let Some(number) = buffer.exactly::<ONE_NUMBER>(bytes)
        && let Some(instance) = world.find()
    {
        return match instance.any_endpoint(context).recv_exactly(number, source, tag) {
            Some(received) => {
                status.write_if_wanted(received.into());
                0
            }
            None => recv_number(instance, ContextTag::new(context, tag), number, source, status),
        };
    }
    recv(world, context, buffer, bytes, source_tag, status)
}

/// What a receive selects, in one register: context, source and tag.
#[derive(Clone, Copy)]
#[repr(C)]
struct SourceTag {
    source: u32,
    tag: u32,
}

/// Receives a message into a buffer of any length up to [`SHORT_MAX`], if the message is in the
/// next line.
#[inline(never)]
extern "C" fn recv_short(
    world: HandleArg<'_>,
    context: u32,
    mut buffer: BufferArg<'_>,
    bytes: CountArg,
    source_tag: SourceTag,
    status: OutArg<'_, CStatus>,
) -> c_int {
    let SourceTag { source, tag } = source_tag;
    if context <= CONTEXT_MAX
        && let Some(room) = buffer.at_most(bytes, SHORT_MAX)
        && let Some(instance) = world.find()
    {
        return match instance.any_endpoint(context).recv_short(room, source, tag) {
            Some(received) => {
                status.write_if_wanted(received.into());
                0
            }
            None => recv_bytes(instance, ContextTag::new(context, tag), room, source, status),
        };
    }
    recv(world, context, buffer, bytes, source_tag, status)
}

#[inline(never)]
extern "C" fn recv(
    world: HandleArg<'_>,
    context: u32,
    buffer: BufferArg<'_>,
    bytes: CountArg,
    SourceTag { source, tag }: SourceTag,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_recv", world, || {
        let instance = world.world()?;
        let buffer = buffer.writable(bytes)?;
        let received = instance.endpoint(context)?.recv(buffer, source, tag)?;
        status.write_if_wanted(received.into());
        Ok(())
    })
}

#[inline(never)]
extern "C" fn recv_number(
    instance: &Instance,
    context_tag: ContextTag,
    number: &mut [u8; ONE_NUMBER],
    source: u32,
    status: OutArg<'_, CStatus>,
) -> c_int {
    recv_bytes(instance, context_tag, number, source, status)
}

#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "no function in C calls it, and it does not unwind")]
extern "C" fn recv_bytes(
    instance: &Instance,
    context_tag: ContextTag,
    buffer: &mut [u8],
    source: u32,
    status: OutArg<'_, CStatus>,
) -> c_int {
    let endpoint = instance.any_endpoint(context_tag.context());
    if let Some(received) = endpoint.recv_lines(buffer, source, context_tag.tag()) {
        status.write_if_wanted(received.into());
        return 0;
    }
    enter("strait_recv", HandleArg::of(instance), || {
        let endpoint = instance.endpoint(context_tag.context())?;
        let received = endpoint.recv(buffer, source, context_tag.tag())?;
        status.write_if_wanted(received.into());
        Ok(())
    })
}

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
        match instance.any_endpoint(context).send_short(message, destination, tag) {
            SentShort::Yes => {
                request.write_if_wanted(Handle::DONE);
                return 0;
            }
            SentShort::ToSleeper => {
                request.write_if_wanted(Handle::DONE);
                return wake(instance, destination);
            }
            SentShort::No => {}
        }
    }
    isend(world, context, data, bytes, (destination, tag), request)
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
    let memory = || data.memory(bytes);
    start("strait_isend", (world, context), memory, request, |memory, endpoint| {
        memory.send(SendKind::Standard, endpoint, destination, tag)
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
        let id = match buffer.recv_short(bytes, endpoint, source, tag) {
            ReceivedShort::Done(status) => instance.world().keep_outcome(Ok(status)).ok(),
            ReceivedShort::Pending(id) => Some(id),
            ReceivedShort::Declined => {
                return irecv(world, context, buffer, bytes, (source, tag), request);
            }
        };
        if let Some(Ok(handle)) = id.map(|id| instance.handle_of(id)) {
            request.write_if_wanted(handle);
            return 0;
        }
        return no_request(instance);
    }
    irecv(world, context, buffer, bytes, (source, tag), request)
}

/// Reports that a receive has started and has no request. It was settled.
#[cold]
#[inline(never)]
fn no_request(instance: &Instance) -> c_int {
    enter("strait_irecv", HandleArg::of(instance), || Err(full(HandleKind::Request)))
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
extern "C" fn strait_ssend(
    world: HandleArg<'_>,
    context: u32,
    data: DataArg<'_>,
    bytes: CountArg,
    destination: u32,
    tag: u32,
) -> c_int {
    enter("strait_ssend", world, || {
        let instance = world.world()?;
        let data = data.readable(bytes)?;
        Ok(instance.endpoint(context)?.ssend(data, destination, tag)?)
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

#[unsafe(no_mangle)]
extern "C" fn strait_probe(
    world: HandleArg<'_>,
    context: u32,
    source: u32,
    tag: u32,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_probe", world, || {
        let found = world.world()?.endpoint(context)?.probe(source, tag)?;
        status.write_if_wanted(found.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_iprobe(
    world: HandleArg<'_>,
    context: u32,
    source: u32,
    tag: u32,
    found: OutArg<'_, c_int>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_iprobe", world, || {
        let message = world.world()?.endpoint(context)?.iprobe(source, tag)?;
        if let Some(message) = message {
            status.write_if_wanted(message.into());
        }
        found.write(message.is_some().into())
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
