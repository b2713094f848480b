//! The lanes of windows, which are connections of their own beside the links.

use core::ptr::NonNull;

use strait_core::hca::{Address, Completion, Connection, Hca, HcaError, WorkError};
use strait_core::rma::{Lane, LaneError};
use strait_platform::Rank;

use super::{ConnectionOwner, Network, own};

/// The name of a lane, until it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LaneId(usize);

/// The lanes, by name.
#[derive(Debug, Default)]
pub(super) struct LaneTable(Vec<Option<Lane>>);

impl LaneTable {
    /// Handles the completion of a request, and posts the gathered puts after the last completion.
    pub(super) fn handle<H: Hca>(&mut self, id: LaneId, completion: &Completion, device: &mut H) {
        if let Some(lane) = self.0.get_mut(id.0).and_then(Option::as_mut) {
            lane.handle(completion);
            lane.go_on(device);
        }
    }
}

impl<H: Hca> Network<H> {
    /// Opens this side's end of a lane to `peer`. The peer passes the returned address to
    /// [`Network::connect_lane`].
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Lane::open`], until [`Network::close_lane`].
    pub(crate) unsafe fn open_lane(
        &mut self,
        peer: Rank,
        slots: NonNull<u8>,
        key: u32,
    ) -> Result<(LaneId, Address), HcaError> {
        // SAFETY: the caller guarantees the same (contract of `open_lane`).
        let (lane, address) = unsafe { Lane::open(&mut self.device, peer, slots, key) }?;
        let lanes = &mut self.lanes.0;
        let free = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        lanes.resize_with(lanes.len().max(free + 1), || None);
        own(&mut self.owners, lane.connection(), ConnectionOwner::Lane(LaneId(free)));
        lanes[free] = Some(lane);
        Ok((LaneId(free), address))
    }

    /// Returns whether a lane is open.
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes.0.iter().any(Option::is_some)
    }

    /// Connects a lane to the peer's end. The caller repeats the call until it returns true.
    pub(crate) fn connect_lane(
        &mut self,
        id: LaneId,
        address: &Address,
    ) -> Result<bool, LaneError> {
        self.on_lane(id, |lane, device| lane.connect(device, address))
    }

    /// Runs `act` on a lane and the device.
    pub(crate) fn on_lane<R>(
        &mut self,
        id: LaneId,
        act: impl FnOnce(&mut Lane, &mut H) -> Result<R, LaneError>,
    ) -> Result<R, LaneError> {
        let lane = self.lanes.0.get_mut(id.0).and_then(Option::as_mut);
        act(lane.ok_or(LaneError::Failed(WorkError::Flushed))?, &mut self.device)
    }

    /// Ends a lane, which takes no more requests. None of its requests accesses memory of this rank
    /// from now on.
    pub(crate) fn break_lane(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.0.get_mut(id.0).and_then(Option::as_mut) else { return };
        let Connection(connection) = lane.connection();
        if matches!(
            self.owners[connection as usize],
            Some(ConnectionOwner::Lane(owner)) if owner == id
        ) {
            self.owners[connection as usize] = None;
        }
        // The lane counts as closed even if the device fails, and no caller needs the error.
        let _ = lane.close(&mut self.device);
    }

    /// Ends a lane as [`Network::break_lane`] does, and frees its name for another lane.
    pub(crate) fn close_lane(&mut self, id: LaneId) {
        self.break_lane(id);
        self.lanes.0[id.0] = None;
    }
}
