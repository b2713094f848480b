//! Messages that a probe has matched.

use core::ffi::{c_int, c_void};

use shim::{Error, Matched, Unscoped, World};

use crate::buffer::{answer, answer_if_wanted, need, part, writable};
use crate::entry::{Called, enter};
use crate::handle::{self, Handle, Kind};
use crate::instance::Instance;
use crate::messages::{keep, list};
use crate::requests::Status;

impl Instance {
    /// The handle of what `probe` matches, if that finds anything, and what it found.
    fn matched(
        &self,
        probe: impl FnOnce() -> Result<Option<Matched>, Error>,
    ) -> Called<Option<(Handle, Status)>> {
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

    /// Has `receive` receive a message, whose handle ends unless that could not begin.
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

/// Begins to receive the message at `place`, and gives C the request. `parts` is the list that it reads.
///
/// # Safety
///
/// As `strait.h` says of `strait_imrecv`.
unsafe fn begin(
    place: *mut Handle,
    parts: Option<Box<[shim::Part]>>,
    request: *mut Handle,
    begin: impl FnOnce(&World, &Matched) -> Result<Unscoped, Error>,
) -> Called {
    // SAFETY: by the contract.
    let (message, instance) = unsafe { handle::at(place, Kind::Message) }?;
    need(request)?;
    instance.requests().need_room()?;
    let (begun, ended) = instance.receive_matched(message, begin)?;
    // SAFETY: by the contract.
    unsafe {
        if ended {
            place.write(Handle::NONE);
        }
        keep(instance, begun?, parts, request)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_mprobe(
    world: Handle,
    context: u32,
    source: u32,
    tag: u32,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    enter("strait_mprobe", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        let endpoint = instance.endpoint(context)?;
        need(message)?;
        let found = instance.matched(|| endpoint.match_one(source, tag).map(Some))?;
        let Some((handle, found)) = found else { return Ok(()) };
        // SAFETY: by the contract.
        unsafe {
            answer_if_wanted(status, found);
            answer(message, handle)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_improbe(
    world: Handle,
    context: u32,
    source: u32,
    tag: u32,
    found: *mut c_int,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    enter("strait_improbe", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        let endpoint = instance.endpoint(context)?;
        need(found)?;
        need(message)?;
        let matched = instance.matched(|| endpoint.try_to_match(source, tag))?;
        // SAFETY: by the contract.
        unsafe {
            answer(found, matched.is_some().into())?;
            if let Some((handle, found)) = matched {
                answer_if_wanted(status, found);
                answer(message, handle)?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_mrecv(
    message: *mut Handle,
    buffer: *mut c_void,
    bytes: usize,
    status: *mut Status,
) -> c_int {
    // SAFETY: by the contract.
    enter("strait_mrecv", unsafe { handle::peek(message) }, || {
        // SAFETY: by the contract.
        let (handle, instance) = unsafe { handle::at(message, Kind::Message) }?;
        // SAFETY: by the contract.
        let buffer = unsafe { writable(buffer, bytes) }?;
        let receive = |world: &World, matched: &Matched| world.mrecv(matched, buffer);
        let (received, ended) = instance.receive_matched(handle, receive)?;
        // SAFETY: by the contract.
        unsafe {
            if ended {
                message.write(Handle::NONE);
            }
            answer_if_wanted(status, received?.into());
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_imrecv(
    message: *mut Handle,
    buffer: *mut c_void,
    bytes: usize,
    request: *mut Handle,
) -> c_int {
    // SAFETY: by the contract.
    enter("strait_imrecv", unsafe { handle::peek(message) }, || {
        let buffer = part(buffer, bytes)?;
        // SAFETY: by the contract.
        unsafe {
            begin(message, None, request, |world, matched| world.begin_mrecv(matched, buffer))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_imrecvv(
    message: *mut Handle,
    parts: *const libc::iovec,
    count: c_int,
    request: *mut Handle,
) -> c_int {
    // SAFETY: by the contract.
    enter("strait_imrecvv", unsafe { handle::peek(message) }, || {
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        let buffers: *const [shim::Part] = &raw const *parts;
        // SAFETY: by the contract; the list stays with the request.
        unsafe {
            begin(message, Some(parts), request, |world, matched| {
                world.begin_mrecv_vectored(matched, &*buffers)
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_message_free(message: *mut Handle) -> c_int {
    // SAFETY: by the contract.
    enter("strait_message_free", unsafe { handle::peek(message) }, || {
        // SAFETY: by the contract.
        let (handle, instance) = unsafe { handle::at(message, Kind::Message) }?;
        let matched = instance.messages().take(handle)?;
        instance.world().put_back(&matched);
        instance.messages().remove(handle);
        // SAFETY: by the contract.
        unsafe { message.write(Handle::NONE) };
        Ok(())
    })
}
