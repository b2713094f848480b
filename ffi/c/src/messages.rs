//! Sending and receiving.

use core::ffi::c_int;

use shim::raw::{ANY_SOURCE, LINES_FIRST, RawEndpoint as _, SHORT_MAX, SentShort};

use crate::border::{BufferArg, CountArg, DataArg, HandleArg, OutArg};
use crate::contexts::CONTEXT_MAX;
use crate::entry::enter;
use crate::instance::Instance;
use crate::requests::CStatus;

/// Length in bytes of the most frequent message of most programs: one number.
///
/// This length has its own path, which touches only a free line or an arrived line and saves no
/// register. The other lengths up to [`SHORT_MAX`] have another such path. Separate functions do
/// all other work.
pub(crate) const ONE_NUMBER: usize = 8;

/// Context and tag of a message, in one register.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ContextTag(u64);

impl ContextTag {
    #[inline(always)]
    pub(crate) const fn new(context: u32, tag: u32) -> Self {
        Self((context as u64) << 32 | tag as u64)
    }

    #[inline(always)]
    pub(crate) const fn context(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(crate) const fn tag(self) -> u32 {
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
        if bytes.get() > SHORT_MAX {
            return send_straight(world, context, data, bytes, destination, tag);
        }
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
            SentShort::No => send_on(instance, ContextTag::new(context, tag), message, destination),
        };
    }
    send(world, context, data, bytes, destination, tag)
}

/// Sends a message of any length up to [`LINES_FIRST`], if free lines are all that it needs.
#[inline(never)]
extern "C" fn send_straight(
    world: HandleArg<'_>,
    context: u32,
    data: DataArg<'_>,
    bytes: CountArg,
    destination: u32,
    tag: u32,
) -> c_int {
    if context <= CONTEXT_MAX
        && let Some(message) = data.at_most(bytes, LINES_FIRST)
        && let Some(instance) = world.find()
    {
        return match instance.any_endpoint(context).send_straight(message, destination, tag) {
            SentShort::Yes => 0,
            SentShort::ToSleeper => wake(instance, destination),
            SentShort::No => send_on(instance, ContextTag::new(context, tag), message, destination),
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
    send_on(instance, context_tag, number, destination)
}

/// Sends a message in a context that exists, for which the short path has stopped, if the ring has
/// room behind the stop.
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "no function in C calls it, and it does not unwind")]
extern "C" fn send_on(
    instance: &Instance,
    context_tag: ContextTag,
    message: &[u8],
    destination: u32,
) -> c_int {
    let endpoint = instance.any_endpoint(context_tag.context());
    match endpoint.send_medium(message, destination, context_tag.tag()) {
        SentShort::Yes => 0,
        SentShort::ToSleeper => wake(instance, destination),
        SentShort::No => send_bytes(instance, context_tag, message, destination),
    }
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
pub(crate) extern "C" fn wake(instance: &Instance, destination: u32) -> c_int {
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
        if bytes.get() > SHORT_MAX {
            return recv_straight(world, context, buffer, bytes, source_tag, status);
        }
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

/// Receives a message of any length up to [`LINES_FIRST`] into a buffer of any length, if the
/// message is in the next lines.
#[inline(never)]
extern "C" fn recv_straight(
    world: HandleArg<'_>,
    context: u32,
    mut buffer: BufferArg<'_>,
    bytes: CountArg,
    source_tag: SourceTag,
    status: OutArg<'_, CStatus>,
) -> c_int {
    let SourceTag { source, tag } = source_tag;
    if context <= CONTEXT_MAX
        && let Some(room) = buffer.at_most(bytes, isize::MAX as usize)
        && let Some(instance) = world.find()
    {
        return match instance.any_endpoint(context).recv_straight(room, source, tag) {
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
    let endpoint = instance.any_endpoint(context_tag.context());
    if source == ANY_SOURCE {
        if let Some(received) = endpoint.recv_exactly_from_any(number, context_tag.tag()) {
            status.write_if_wanted(received.into());
            return 0;
        }
        return recv_number_later(instance, context_tag, number, status);
    }
    recv_bytes(instance, context_tag, number, source, status)
}

/// Receives a number from any source that has not come yet, or takes more than a look. Another look
/// at an empty line would take it from the peer that is to write it. The function is cold so that
/// it lies apart from the code of shorter ways.
#[cold]
#[inline(never)]
extern "C" fn recv_number_later(
    instance: &Instance,
    context_tag: ContextTag,
    number: &mut [u8; ONE_NUMBER],
    status: OutArg<'_, CStatus>,
) -> c_int {
    recv_and_wait(instance, context_tag, number, ANY_SOURCE, status)
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
    recv_and_wait(instance, context_tag, buffer, source, status)
}

#[inline(always)]
fn recv_and_wait(
    instance: &Instance,
    context_tag: ContextTag,
    buffer: &mut [u8],
    source: u32,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_recv", HandleArg::of(instance), || {
        let endpoint = instance.endpoint(context_tag.context())?;
        let received = endpoint.recv(buffer, source, context_tag.tag())?;
        status.write_if_wanted(received.into());
        Ok(())
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
