//! The lanes of windows, which are connections of their own beside the links.

use core::ptr::NonNull;

use strait_core::hca::{Address, Completion, Hca, HcaError, WorkError};
use strait_core::rma::{Lane, LaneError};
use strait_platform::Rank;

use super::Network;
use super::owners::ConnectionOwner;
use super::window_tables::LaneId;

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
        let connection = lane.connection();
        let id = LaneId(self.lanes.add(lane));
        self.owners.set(connection, ConnectionOwner::Lane(id));
        Ok((id, address))
    }

    /// Handles the completion of a request, and posts the gathered puts after the last completion.
    pub(super) fn lane_completed(&mut self, id: LaneId, completion: &Completion) {
        if let Some(lane) = self.lanes.get_mut(id.0) {
            lane.handle(completion);
            lane.go_on(&mut self.device);
        }
    }

    /// Returns whether peers write what this rank waits for without an event of the device.
    pub(crate) fn is_written_silently(&self) -> bool {
        self.mailboxes.is_awaited() || self.lanes.find(|_| true).is_some()
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
        let lane = self.lanes.get_mut(id.0);
        act(lane.ok_or(LaneError::Failed(WorkError::Flushed))?, &mut self.device)
    }

    /// Ends a lane, which takes no more requests. None of its requests accesses memory of this rank
    /// from now on.
    pub(crate) fn break_lane(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(id.0) else { return };
        let connection = lane.connection();
        let owner = self.owners.of(connection);
        if matches!(owner, Some(ConnectionOwner::Lane(owner)) if owner == id) {
            self.owners.clear(connection);
        }
        // The lane counts as closed even if the device fails, and no caller needs the error.
        let _ = lane.close(&mut self.device);
    }

    /// Ends a lane as [`Network::break_lane`] does, and frees its name for another lane.
    pub(crate) fn close_lane(&mut self, id: LaneId) {
        self.break_lane(id);
        self.lanes.take(id.0);
    }
}
