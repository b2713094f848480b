//! Active messages: the embedder's own packets, which a handler receives by id.
//!
//! They are messages of a context of their own, so packets of one source arrive in order. A packet
//! without a handler waits, and so do the later packets.

use core::ffi::{c_int, c_void};

use shim::raw::ANY_SOURCE;
use shim::{ANY_TAG, Status};

use crate::border::{CountArg, HandleArg, LastingPartsArg, OutArg, SendKind};
use crate::contexts::PACKETS;
use crate::entry::enter;
use crate::failure::{Called, Code, Failure};
use crate::handle::Handle;
use crate::handlers::{PacketCallback, PacketHandler};
use crate::instance::Instance;

/// Number of packets that are delivered before other work is checked.
const AT_ONCE: u32 = 64;

impl Instance {
    /// Returns whether packets that have a handler may arrive.
    pub(crate) fn expects_packets(&self) -> bool {
        self.packets().are_expected()
    }

    /// Makes progress, and delivers packets, for a call that does not wait.
    pub(crate) fn progress(&self) -> Called {
        self.world().endpoint().progress()?;
        self.deliver()
    }

    /// Passes arrived packets to their handlers. Does nothing while a handler runs.
    pub(crate) fn deliver(&self) -> Called {
        let handlers = self.packets();
        if !self.expects_packets() {
            return Ok(());
        }
        let _busy = handlers.begin();
        let endpoint = self.any_endpoint(PACKETS);
        for _ in 0..AT_ONCE {
            let Some(Status { source, tag: id, bytes }) = endpoint.iprobe(ANY_SOURCE, ANY_TAG)?
            else {
                break;
            };
            let Some(handler) = handlers.of(id) else { break };
            handlers.with_packet(bytes, |packet| {
                endpoint.recv(packet, source, id)?;
                handler.call(self.handle(), source, id, packet);
                Ok(())
            })?;
        }
        Ok(())
    }
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
        instance.packets().set(id, handler.map(|call| PacketHandler::new(call, context)));
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
        let memory = parts.memory(count)?;
        let endpoint = instance.any_endpoint(PACKETS);
        let mut pending = memory.send(SendKind::Standard, endpoint, destination, id)?;
        if request.is_null() {
            // There is no request, so the buffers must belong to the caller again when the call
            // returns.
            pending.settle(instance.world());
            return Ok(());
        }
        instance.give(pending, request)
    })
}
