//! Messages that a probe has matched.

use core::ffi::c_int;

use shim::raw::{Matched, RawEndpoint as _, RawWorld as _};
use shim::{Error, World};

use crate::border::{
    BufferArg, CountArg, HandleArg, HandlePlaceArg, LastingArg, LastingPartsArg, OperationMemory,
    OutArg,
};
use crate::entry::enter;
use crate::failure::Called;
use crate::handle::{Handle, HandleKind};
use crate::instance::Instance;
use crate::requests::CStatus;

impl Instance {
    /// Calls `probe`, and returns the handle and the status of the message that it matched.
    fn matched(
        &self,
        probe: impl FnOnce() -> Result<Option<Matched>, Error>,
    ) -> Called<Option<(Handle, CStatus)>> {
        self.messages().need_room()?;
        let Some(matched) = probe()? else { return Ok(None) };
        let status = matched.status().into();
        let inserted = self.messages().insert(matched);
        match inserted {
            Ok(handle) => Ok(Some((handle, status))),
            Err((failure, matched)) => {
                self.world().put_back(&matched);
                Err(failure)
            }
        }
    }

    /// Calls `receive` with a message, and returns whether the handle has ended. It stays valid
    /// only if the receive could not start.
    fn receive_matched<T>(
        &self,
        message: Handle,
        receive: impl FnOnce(&World, &Matched) -> Result<T, Error>,
    ) -> Called<(Result<T, Error>, bool)> {
        let matched = self.messages().take(message)?;
        let received = receive(self.world(), &matched);
        let begun = !matches!(received, Err(Error::Start(_)));
        if begun {
            self.messages().remove(message);
        } else {
            self.messages().put_back(message, matched);
        }
        Ok((received, begun))
    }
}

/// Starts to receive the message in `place` into `memory`, and gives C the request.
fn start(
    place: HandlePlaceArg<'_>,
    request: OutArg<'_, Handle>,
    memory: OperationMemory,
) -> Called {
    let (message, instance) = place.open(HandleKind::Message)?;
    request.need()?;
    instance.requests().need_room()?;
    let receive = |world: &World, matched: &Matched| memory.mrecv(world, matched);
    let (started, ended) = instance.receive_matched(message, receive)?;
    if ended {
        place.clear();
    }
    instance.give(started?, request)
}

#[unsafe(no_mangle)]
extern "C" fn strait_mprobe(
    world: HandleArg<'_>,
    context: u32,
    source: u32,
    tag: u32,
    message: OutArg<'_, Handle>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_mprobe", world, || {
        let instance = world.world()?;
        let endpoint = instance.endpoint(context)?;
        message.need()?;
        let found = instance.matched(|| endpoint.match_one(source, tag).map(Some))?;
        let Some((handle, found)) = found else { return Ok(()) };
        status.write_if_wanted(found);
        message.write(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_improbe(
    world: HandleArg<'_>,
    context: u32,
    source: u32,
    tag: u32,
    found: OutArg<'_, c_int>,
    message: OutArg<'_, Handle>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_improbe", world, || {
        let instance = world.world()?;
        let endpoint = instance.endpoint(context)?;
        found.need()?;
        message.need()?;
        let matched = instance.matched(|| endpoint.try_to_match(source, tag))?;
        found.write(matched.is_some().into())?;
        let Some((handle, envelope)) = matched else { return Ok(()) };
        status.write_if_wanted(envelope);
        message.write(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_mrecv(
    message: HandlePlaceArg<'_>,
    buffer: BufferArg<'_>,
    bytes: CountArg,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_mrecv", message.peek(), || {
        let (handle, instance) = message.open(HandleKind::Message)?;
        let buffer = buffer.writable(bytes)?;
        let receive = |world: &World, matched: &Matched| world.mrecv(matched, buffer);
        let (received, ended) = instance.receive_matched(handle, receive)?;
        if ended {
            message.clear();
        }
        status.write_if_wanted(received?.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_imrecv(
    message: HandlePlaceArg<'_>,
    buffer: LastingArg,
    bytes: CountArg,
    request: OutArg<'_, Handle>,
) -> c_int {
    enter("strait_imrecv", message.peek(), || start(message, request, buffer.memory(bytes)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_imrecvv(
    message: HandlePlaceArg<'_>,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    request: OutArg<'_, Handle>,
) -> c_int {
    enter("strait_imrecvv", message.peek(), || start(message, request, parts.memory(count)?))
}

#[unsafe(no_mangle)]
extern "C" fn strait_message_free(message: HandlePlaceArg<'_>) -> c_int {
    enter("strait_message_free", message.peek(), || {
        let (handle, instance) = message.open(HandleKind::Message)?;
        let matched = instance.messages().take(handle)?;
        instance.world().put_back(&matched);
        instance.messages().remove(handle);
        message.clear();
        Ok(())
    })
}
