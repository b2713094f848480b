//! Active messages: the embedder's own packets, handed to a handler by id.
//!
//! They are messages of a context of their own, so each source's come in order and none overtakes. One whose id has no handler yet
//! waits, and with it those that came after it.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::collections::HashMap;

use shim::{ANY_SOURCE, ANY_TAG, Status};

use crate::buffer::answer;
use crate::entry::{Called, enter};
use crate::failure::{Code, Failure};
use crate::handle::{self, Handle};
use crate::instance::{Instance, PACKETS};
use crate::messages::list;
use crate::requests::Pending;

/// `strait_packet_handler` in C.
type Call = unsafe extern "C" fn(*mut c_void, Handle, u32, u32, *const c_void, usize);

#[derive(Clone, Copy, Debug)]
struct Handler {
    call: Call,
    context: *mut c_void,
}

/// The handlers of a world.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    by_id: RefCell<HashMap<u32, Handler>>,
    /// A handler runs.
    busy: Cell<bool>,
    /// Where a packet lies while its handler runs.
    packet: RefCell<Vec<u8>>,
}

impl Handlers {
    /// Whether a handler runs.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy.get()
    }
}

/// Packets handed over between two looks at everything else.
const AT_ONCE: u32 = 64;

/// While it lives a handler runs.
struct Busy<'a>(&'a Cell<bool>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Instance {
    /// Whether packets may come that somebody wants.
    pub(crate) fn expects_packets(&self) -> bool {
        !self.packets().busy.get() && !self.packets().by_id.borrow().is_empty()
    }

    /// Hands packets that have arrived to their handlers. Not while one of them runs.
    pub(crate) fn deliver(&self) -> Called {
        let handlers = self.packets();
        if !self.expects_packets() {
            return Ok(());
        }
        handlers.busy.set(true);
        let _busy = Busy(&handlers.busy);
        let endpoint = self.any_endpoint(PACKETS);
        for _ in 0..AT_ONCE {
            let Some(Status { source, tag: id, bytes }) = endpoint.iprobe(ANY_SOURCE, ANY_TAG)?
            else {
                break;
            };
            let handler = handlers.by_id.borrow().get(&id).copied();
            let Some(Handler { call, context }) = handler else { break };
            let mut packet = handlers.packet.take();
            make_room(&mut packet, bytes)?;
            endpoint.recv(&mut packet, source, id)?;
            // SAFETY: the embedder's function takes these; nothing of this library is borrowed meanwhile.
            unsafe { call(context, self.handle(), source, id, packet.as_ptr().cast(), bytes) };
            handlers.packet.replace(packet);
        }
        Ok(())
    }
}

/// Makes the packet so long. What it held goes.
pub(crate) fn make_room(packet: &mut Vec<u8>, bytes: usize) -> Called {
    packet.clear();
    packet.try_reserve(bytes).map_err(|_| {
        let text = format!("no private memory for a packet of {bytes} bytes: send it in pieces");
        Failure::new(Code::Memory, text)
    })?;
    packet.resize(bytes, 0);
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_packet_handle(
    world: Handle,
    id: u32,
    handler: Option<Call>,
    context: *mut c_void,
) -> c_int {
    enter("strait_packet_handle", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        if id > shim::TAG_MAX {
            let text = format!("packet {id}: ids go from 0 to {}", shim::TAG_MAX);
            return Err(Failure::new(Code::Tag, text));
        }
        let mut handlers = instance.packets().by_id.borrow_mut();
        match handler {
            Some(call) => handlers.insert(id, Handler { call, context }),
            None => handlers.remove(&id),
        };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_packet_send(
    world: Handle,
    destination: u32,
    id: u32,
    parts: *const libc::iovec,
    count: c_int,
    request: *mut Handle,
) -> c_int {
    enter("strait_packet_send", world, || {
        // SAFETY: by the contract.
        let instance = unsafe { handle::world(world) }?;
        // SAFETY: by the contract.
        let parts = unsafe { list(parts, count) }?;
        let endpoint = instance.any_endpoint(PACKETS);
        // SAFETY: by the contract; without a request it is settled below. The list stays as long.
        let begun = unsafe { endpoint.begin_send_vectored(&parts, destination, id) }?;
        let mut pending = Pending::new(begun, Some(parts));
        if request.is_null() {
            pending.settle(instance.world());
            return Ok(());
        }
        // SAFETY: by the contract.
        unsafe { answer(request, instance.keep(pending)?) }
    })
}
