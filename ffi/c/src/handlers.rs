//! The embedder's handlers of active messages.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use std::collections::HashMap;

use crate::failure::{Called, Code, Failure};
use crate::handle::Handle;

/// `strait_packet_handler` in C.
pub(crate) type PacketCallback =
    unsafe extern "C" fn(*mut c_void, Handle, u32, u32, *const c_void, usize);

/// A handler of the packets with one id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketHandler {
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

/// A guard that marks a running handler while it lives.
pub(crate) struct Busy<'a>(&'a Cell<bool>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl PacketHandler {
    pub(crate) const fn new(call: PacketCallback, context: *mut c_void) -> Self {
        Self { call, context }
    }

    /// Passes a packet to the embedder. The caller holds no borrow of this library's data.
    pub(crate) fn call(self, world: Handle, source: u32, id: u32, packet: &[u8]) {
        // SAFETY: the embedder's function takes these arguments.
        unsafe {
            (self.call)(self.context, world, source, id, packet.as_ptr().cast(), packet.len());
        }
    }
}

impl PacketHandlers {
    /// Returns whether a handler runs.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Returns whether no handler runs, and there is one that may be called.
    pub(crate) fn are_expected(&self) -> bool {
        !self.busy.get() && !self.by_id.borrow().is_empty()
    }

    /// Marks that a handler runs.
    pub(crate) fn begin(&self) -> Busy<'_> {
        self.busy.set(true);
        Busy(&self.busy)
    }

    /// Sets the handler of `id`, or removes it.
    pub(crate) fn set(&self, id: u32, handler: Option<PacketHandler>) {
        let mut by_id = self.by_id.borrow_mut();
        match handler {
            Some(handler) => by_id.insert(id, handler),
            None => by_id.remove(&id),
        };
    }

    /// Returns the handler of `id`.
    pub(crate) fn of(&self, id: u32) -> Option<PacketHandler> {
        self.by_id.borrow().get(&id).copied()
    }

    /// Calls `act` with a buffer of `bytes` bytes, which the next packet uses again.
    pub(crate) fn with_packet(
        &self,
        bytes: usize,
        act: impl FnOnce(&mut [u8]) -> Called,
    ) -> Called {
        let mut packet = self.packet.take();
        make_room(&mut packet, bytes)?;
        act(&mut packet)?;
        self.packet.replace(packet);
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
