//! The lanes of windows, which are connections of their own beside the links.

use strait_core::hca::{Access, Address, Completion, Hca, HcaError, WorkError};
use strait_core::rma::{LENT, Lane, LaneError};
use strait_platform::Rank;
use strait_platform::segment::Mapping;

use super::Network;
use super::owners::ConnectionOwner;
use super::window_tables::{LaneId, OpenLane, RegisteredMemory};

impl<H: Hca> Network<H> {
    /// Opens this side's end of a lane to `peer`. The peer passes the returned address to
    /// [`Network::connect_lane`].
    pub(crate) fn open_lane(&mut self, peer: Rank) -> Result<(LaneId, Address), HcaError> {
        let (lane, address) = Lane::open_without_slots(&mut self.device, peer)?;
        let connection = lane.connection();
        let id = LaneId(self.lanes.add(OpenLane { lane, slots: None }));
        self.owners.set(connection, ConnectionOwner::Lane(id));
        Ok((id, address))
    }

    /// Lends slots to a lane that has its first request. That request is tried again.
    #[cold]
    fn lend_slots(&mut self, LaneId(id): LaneId) {
        let lent = self.register_new(LENT, Access::LOCAL);
        let Some(open) = self.lanes.get_mut(id) else { return };
        match lent {
            Ok(slots) => {
                let (base, key) = slots.start();
                // SAFETY: the memory is registered until the lane is closed, and as long. Only the
                // lane uses it.
                unsafe { open.lane.lend(base, key) };
                open.slots = Some(slots);
            }
            Err(error) => open.lane.lend_nothing(error),
        }
    }

    /// Makes memory of that many bytes, and registers it until [`Network::retire`].
    pub(crate) fn register_new(
        &mut self,
        bytes: usize,
        access: Access,
    ) -> Result<RegisteredMemory, HcaError> {
        let memory = Mapping::private(bytes);
        let memory = memory.map_err(|_| HcaError::Memory { bytes: bytes as u64 })?;
        // SAFETY: the memory stays mapped until its region is retired or the device is dropped. Its
        // user accesses it as long as the device may by the rules of its requests.
        let region = unsafe { self.device.register(memory.base(), memory.length(), access) }?;
        Ok(RegisteredMemory { region, memory })
    }

    /// Releases memory. No request on it is in progress any more.
    pub(crate) fn retire(&mut self, RegisteredMemory { region, memory }: RegisteredMemory) {
        if self.device.retire(region).is_err() {
            // A device that cannot retire the region may still access the memory, so it stays.
            core::mem::forget(memory);
        }
    }

    /// Handles the completion of a request, and posts the gathered puts after the last completion.
    pub(super) fn lane_completed(&mut self, id: LaneId, completion: &Completion) {
        if let Some(OpenLane { lane, .. }) = self.lanes.get_mut(id.0) {
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
        let open = self.lanes.get_mut(id.0).ok_or(LaneError::Failed(WorkError::Flushed))?;
        let acted = act(&mut open.lane, &mut self.device);
        if open.lane.wants_slots() {
            self.lend_slots(id);
        }
        acted
    }

    /// Ends a lane, which takes no more requests. None of its requests accesses memory of this rank
    /// from now on.
    pub(crate) fn break_lane(&mut self, id: LaneId) {
        let Some(OpenLane { lane, .. }) = self.lanes.get_mut(id.0) else { return };
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
        if let Some(slots) = self.lanes.take(id.0).and_then(|open| open.slots) {
            self.retire(slots);
        }
    }

    /// Returns the number of lanes that have slots.
    #[cfg(test)]
    pub(crate) fn lanes_with_slots(&mut self) -> usize {
        self.lanes.iter_mut().filter(|(_, open)| open.slots.is_some()).count()
    }
}
