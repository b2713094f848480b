//! Active messages: the embedder's own packets, which a handler receives by id.
//!
//! They are messages of a context of their own, so packets of one source arrive in order. A packet
//! without a handler waits, and so do the later packets.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::collections::HashMap;

use shim::{ANY_SOURCE, ANY_TAG, Status};

use crate::border::{CountArg, HandleArg, LastingPartsArg, OutArg};
use crate::entry::{Called, enter};
use crate::failure::{Code, Failure};
use crate::handle::Handle;
use crate::instance::{Instance, PACKETS};

/// `strait_packet_handler` in C.
type PacketCallback = unsafe extern "C" fn(*mut c_void, Handle, u32, u32, *const c_void, usize);

#[derive(Clone, Copy, Debug)]
struct PacketHandler {
    call: PacketCallback,
    context: *mut c_void,
}

/// The handlers of a world.
#[derive(Debug, Default)]
pub(crate) struct PacketHandlers {
    by_id: RefCell<HashMap<u32, PacketHandler>>,
    /// True while a handler runs.
    busy: Cell<bool>,
    /// Buffer of a packet while its handler runs.
    packet: RefCell<Vec<u8>>,
}

impl PacketHandlers {
    /// Returns whether a handler runs.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy.get()
    }
}

/// Number of packets that are delivered before other work is checked.
const AT_ONCE: u32 = 64;

/// A guard that marks a running handler while it lives.
struct Busy<'a>(&'a Cell<bool>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Instance {
    /// Returns whether packets that have a handler may arrive.
    pub(crate) fn expects_packets(&self) -> bool {
        !self.packets().busy.get() && !self.packets().by_id.borrow().is_empty()
    }

    /// Passes arrived packets to their handlers. Does nothing while a handler runs.
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
            let Some(PacketHandler { call, context }) = handler else { break };
            let mut packet = handlers.packet.take();
            make_room(&mut packet, bytes)?;
            endpoint.recv(&mut packet, source, id)?;
            // SAFETY: the embedder's function takes these arguments. The call holds no borrow in
            // this library.
            unsafe { call(context, self.handle(), source, id, packet.as_ptr().cast(), bytes) };
            handlers.packet.replace(packet);
        }
        Ok(())
    }
}

/// Resizes the packet to `bytes` bytes, and discards its old contents.
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
extern "C" fn strait_packet_handle(
    world: HandleArg<'_>,
    id: u32,
    handler: Option<PacketCallback>,
    context: *mut c_void,
) -> c_int {
    enter("strait_packet_handle", world, || {
        let instance = world.world()?;
        if id > shim::TAG_MAX {
            let text = format!("packet {id}: ids go from 0 to {}", shim::TAG_MAX);
            return Err(Failure::new(Code::Tag, text));
        }
        let mut handlers = instance.packets().by_id.borrow_mut();
        match handler {
            Some(call) => handlers.insert(id, PacketHandler { call, context }),
            None => handlers.remove(&id),
        };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_packet_send(
    world: HandleArg<'_>,
    destination: u32,
    id: u32,
    parts: LastingPartsArg<'_>,
    count: CountArg<c_int>,
    request: OutArg<'_, Handle>,
) -> c_int {
    enter("strait_packet_send", world, || {
        let instance = world.world()?;
        let parts = parts.list(count)?;
        let mut pending = parts.send(instance.any_endpoint(PACKETS), destination, id)?;
        if request.is_null() {
            // There is no request, so the buffers must belong to the caller again when the call
            // returns.
            pending.settle(instance.world());
            return Ok(());
        }
        instance.give(pending, request)
    })
}
