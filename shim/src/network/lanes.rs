//! The lanes of windows: connections of their own beside the links.

use core::ptr::NonNull;

use strait_core::hca::{Address, Completion, Connection, Hca, HcaError, WorkError};
use strait_core::rma::{Lane, LaneError};

use super::{Network, Owner, own};
use crate::Rank;

/// The name of a lane, until it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LaneId(usize);

/// By name.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<Option<Lane>>);

impl Lanes {
    /// Takes in the end of a request, and goes on.
    pub(super) fn handle<H: Hca>(&mut self, id: LaneId, completion: &Completion, device: &mut H) {
        if let Some(lane) = self.0.get_mut(id.0).and_then(Option::as_mut) {
            lane.handle(completion);
            lane.go_on(device);
        }
    }
}

impl<H: Hca> Network<H> {
    /// Opens this side's end of a lane to `peer`. The address of it is for [`Network::connect_lane`] there.
    ///
    /// # Safety
    ///
    /// As for [`Lane::open`], until [`Network::close_lane`].
    pub(crate) unsafe fn open_lane(
        &mut self,
        peer: Rank,
        slots: NonNull<u8>,
        key: u32,
    ) -> Result<(LaneId, Address), HcaError> {
        // SAFETY: by the contract.
        let (lane, address) = unsafe { Lane::open(&mut self.device, peer, slots, key) }?;
        let lanes = &mut self.lanes.0;
        let free = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        lanes.resize_with(lanes.len().max(free + 1), || None);
        own(&mut self.owners, lane.connection(), Owner::Lane(LaneId(free)));
        lanes[free] = Some(lane);
        Ok((LaneId(free), address))
    }

    /// Whether a lane is open.
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes.0.iter().any(Option::is_some)
    }

    /// Connects a lane to the peer's end. Called again until it is true.
    pub(crate) fn connect_lane(
        &mut self,
        id: LaneId,
        address: &Address,
    ) -> Result<bool, LaneError> {
        self.on_lane(id, |lane, device| lane.connect(device, address))
    }

    /// Has `act` ask something on a lane.
    pub(crate) fn on_lane<R>(
        &mut self,
        id: LaneId,
        act: impl FnOnce(&mut Lane, &mut H) -> Result<R, LaneError>,
    ) -> Result<R, LaneError> {
        let lane = self.lanes.0.get_mut(id.0).and_then(Option::as_mut);
        act(lane.ok_or(LaneError::Failed(WorkError::Flushed))?, &mut self.device)
    }

    /// Ends a lane, which can be asked for nothing more: none of its requests touches memory of this rank from now on.
    pub(crate) fn break_lane(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.0.get_mut(id.0).and_then(Option::as_mut) else { return };
        let Connection(connection) = lane.connection();
        if matches!(self.owners[connection as usize], Some(Owner::Lane(owner)) if owner == id) {
            self.owners[connection as usize] = None;
        }
        // It is closed whatever the device says, and nobody is left to tell.
        let _ = lane.close(&mut self.device);
    }

    /// As [`Network::break_lane`], and gives its name to another.
    pub(crate) fn close_lane(&mut self, id: LaneId) {
        self.break_lane(id);
        self.lanes.0[id.0] = None;
    }
}
