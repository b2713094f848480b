//! The handlers of windows, which receive active messages ([`AmHandler`], `[OneSided04]` §3.3.2).
//!
//! A handler runs where progress is made: in the calls of the target, and in its progress thread.
//! An origin sends a message behind each active message. It makes an event of the device, so a
//! target that sleeps wakes up for it.

use core::ptr::NonNull;

use strait_core::buffer::Part;
use strait_core::hca::{Hca, Sge};
use strait_core::layout::Corrupt;
use strait_core::rma::{AmHandler, Lane, LaneAccess, LaneError, Station};
use strait_platform::Rank;

use super::Network;
use super::window_tables::{AmHandlers, HandlerId, LaneId, LaneOrigin, OpenHandler};

impl<H: Hca> Network<H> {
    /// Opens a handler, which runs until [`Network::close_handler`] on the regions that it is
    /// given.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`AmHandler::new`], until [`Network::close_handler`].
    pub(crate) unsafe fn open_handler(
        &mut self,
        station: Station<LaneId>,
        origins: Vec<LaneOrigin>,
    ) -> HandlerId {
        // SAFETY: the caller guarantees the same (contract of `open_handler`).
        let handler = unsafe { AmHandler::new(station, origins) };
        let wanted = handler.room();
        let AmHandlers { all, owed, spare } = &mut self.handlers;
        let found = wanted.min(*spare);
        (*spare, *owed) = (*spare - found, *owed + wanted - found);
        let id = all.add(OpenHandler { handler, grounds: Vec::new() });
        self.post_owed();
        HandlerId(id)
    }

    /// Adds a memory region on which active messages operate under this name.
    ///
    /// # Safety
    ///
    /// The memory is valid until it is removed or the handler is closed. Its accesses follow the
    /// rules of [`strait_core::rma::ActiveMessage::carry_out`].
    pub(crate) unsafe fn add_ground(&mut self, HandlerId(id): HandlerId, name: u64, ground: Part) {
        if let Some(open) = self.handlers.all.get_mut(id) {
            open.grounds.push((name, ground));
        }
    }

    /// Removes a memory region. Later operations on it are refused.
    pub(crate) fn remove_ground(&mut self, HandlerId(id): HandlerId, name: u64) {
        if let Some(open) = self.handlers.all.get_mut(id) {
            open.grounds.retain(|(other, _)| *other != name);
        }
    }

    /// Closes a handler. No origin sends it an active message any more.
    pub(crate) fn close_handler(&mut self, HandlerId(id): HandlerId) {
        if let Some(open) = self.handlers.all.take(id) {
            self.handlers.spare += open.handler.room();
        }
    }

    /// Handles the arrival of an active message on a lane.
    pub(super) fn active_message_came(&mut self, lane: LaneId) {
        // One handler has this lane, or the lane belongs to a closed window.
        let _known = self.handlers.all.iter_mut().any(|(_, open)| open.handler.handle(lane));
        self.handlers.owed += 1;
        self.post_owed();
    }

    /// Posts the receives that are due, as far as the device has room.
    fn post_owed(&mut self) {
        // The receive holds no bytes, so its address does not matter.
        let nothing = Sge { base: NonNull::dangling(), length: 0, key: 0 };
        while self.handlers.owed > 0 {
            // SAFETY: the receive has no bytes that would have to stay valid.
            match unsafe { self.device.post_receive(0, nothing) } {
                Ok(()) => self.handlers.owed -= 1,
                // A later call tries again. If the receive is never posted, its connections break.
                Err(_) => return,
            }
        }
    }

    /// Continues the operations of origins. Returns whether anything moved. `is_gone` tells which
    /// ranks will never release a lock.
    pub(crate) fn serve(&mut self, is_gone: impl Fn(Rank) -> bool) -> Result<bool, Corrupt> {
        let mut moved = false;
        for id in 0..self.handlers.all.end() {
            let Some(OpenHandler { mut handler, grounds }) = self.handlers.all.take(id) else {
                continue;
            };
            let ground = |name| {
                let known = grounds.iter().find(|(other, _)| *other == name);
                known.map(|(_, ground)| *ground)
            };
            // SAFETY: the callers guarantee the contract of `add_ground`.
            let served = unsafe { handler.serve(self, ground, &is_gone) };
            self.handlers.all.put_back(id, OpenHandler { handler, grounds });
            moved |= served?;
        }
        Ok(moved)
    }
}

impl<H: Hca> LaneAccess for Network<H> {
    type Name = LaneId;
    type Device = H;

    fn on<R>(
        &mut self,
        lane: LaneId,
        act: impl FnOnce(&mut Lane, &mut H) -> Result<R, LaneError>,
    ) -> Result<R, LaneError> {
        self.on_lane(lane, act)
    }

    fn break_lane(&mut self, lane: LaneId) {
        Self::break_lane(self, lane);
    }
}
