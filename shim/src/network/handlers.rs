//! The handlers of windows: where errands come in, and what brings them to the handler ([`Handler`], `[OneSided04]` §3.3.2).
//!
//! A handler works where progress is made: in the calls of the target, and in its progress thread. A message that an origin sends
//! behind an errand is an event of the device, so a target that sleeps wakes up for it.

use core::ptr::NonNull;

use strait_core::hca::{Hca, Piece};
use strait_core::layout::Corrupt;
use strait_core::progress::Part;
use strait_core::rma::{self, Handler, Lane, LaneError, Lanes, Station};

use super::{LaneId, Network};
use crate::Rank;

/// An origin, as a handler knows it.
pub(crate) type Guest = rma::Guest<LaneId>;

/// The name of a handler, until it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HandlerId(usize);

/// A handler, and what its errands are done in, by the name that they have for it.
#[derive(Debug)]
struct Open {
    handler: Handler<LaneId, Vec<Guest>>,
    grounds: Vec<(u64, Part)>,
}

/// By name, and the receives for what wakes their handlers.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    all: Vec<Option<Open>>,
    /// Receives that are to be posted.
    owed: usize,
    /// Receives that are posted for handlers that are closed.
    spare: usize,
}

impl<H: Hca> Network<H> {
    /// Opens a handler: it works until [`Network::close_handler`], in the memories that it is given.
    ///
    /// # Safety
    ///
    /// As for [`Handler::new`], until then.
    pub(crate) unsafe fn open_handler(
        &mut self,
        station: Station<LaneId>,
        guests: Vec<Guest>,
    ) -> HandlerId {
        // SAFETY: by the contract.
        let handler = unsafe { Handler::new(station, guests) };
        let wanted = handler.room();
        let Handlers { all, owed, spare } = &mut self.handlers;
        let found = wanted.min(*spare);
        (*spare, *owed) = (*spare - found, *owed + wanted - found);
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        all.resize_with(all.len().max(free + 1), || None);
        all[free] = Some(Open { handler, grounds: Vec::new() });
        self.post_owed();
        HandlerId(free)
    }

    /// Has errands done in one more memory, which they call `name`.
    ///
    /// # Safety
    ///
    /// The memory is valid until it is taken away or the handler closed, and reached as [`rma::Errand::carry_out`] says.
    pub(crate) unsafe fn add_ground(&mut self, HandlerId(id): HandlerId, name: u64, ground: Part) {
        if let Some(open) = &mut self.handlers.all[id] {
            open.grounds.push((name, ground));
        }
    }

    /// Takes a memory away: whoever asks for something in it is refused from now on.
    pub(crate) fn remove_ground(&mut self, HandlerId(id): HandlerId, name: u64) {
        if let Some(open) = &mut self.handlers.all[id] {
            open.grounds.retain(|(other, _)| *other != name);
        }
    }

    /// Closes a handler. No origin asks it for anything any more.
    pub(crate) fn close_handler(&mut self, HandlerId(id): HandlerId) {
        if let Some(open) = self.handlers.all[id].take() {
            self.handlers.spare += open.handler.room();
        }
    }

    /// An errand has come on a lane.
    pub(super) fn errand_came(&mut self, lane: LaneId) {
        // Whosever it is: one has it, or it is of a window that is gone.
        let _known = self.handlers.all.iter_mut().flatten().any(|open| open.handler.handle(lane));
        self.handlers.owed += 1;
        self.post_owed();
    }

    /// Posts the receives that are owed, as far as the device has room.
    fn post_owed(&mut self) {
        // It holds no byte, so it may be anywhere.
        let nothing = Piece { base: NonNull::dangling(), length: 0, key: 0 };
        while self.handlers.owed > 0 {
            // SAFETY: there is nothing to keep valid.
            match unsafe { self.device.post_receive(0, nothing) } {
                Ok(()) => self.handlers.owed -= 1,
                // Later; or never, and then its connections are broken.
                Err(_) => return,
            }
        }
    }

    /// Goes on with what origins asked for. Says whether anything moved. `is_gone` says who will not give a lock back.
    pub(crate) fn serve(&mut self, is_gone: impl Fn(Rank) -> bool) -> Result<bool, Corrupt> {
        let mut moved = false;
        for id in 0..self.handlers.all.len() {
            let Some(Open { mut handler, grounds }) = self.handlers.all[id].take() else {
                continue;
            };
            let ground = |name| {
                let known = grounds.iter().find(|(other, _)| *other == name);
                known.map(|(_, ground)| *ground)
            };
            // SAFETY: by the contract of `add_ground`.
            let served = unsafe { handler.serve(self, ground, &is_gone) };
            self.handlers.all[id] = Some(Open { handler, grounds });
            moved |= served?;
        }
        Ok(moved)
    }
}

impl<H: Hca> Lanes for Network<H> {
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
