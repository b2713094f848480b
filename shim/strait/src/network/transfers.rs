//! The transfers on lanes that go on after the call that began them.

use strait_core::engine::{Channel, Owner};
use strait_core::hca::Hca;
use strait_core::rma::LaneError;

use super::Network;
use super::window_tables::{TransferId, WindowTransfer};

impl<H: Hca> Network<H> {
    /// Records a transfer until it has ended.
    pub(crate) fn keep(&mut self, transfer: WindowTransfer) -> TransferId {
        TransferId(self.transfers.add(transfer))
    }

    /// Returns a transfer of this scope, if there is one.
    pub(crate) fn transfer_of(&self, owner: Owner) -> Option<TransferId> {
        self.transfers.find(|transfer| transfer.owner == owner).map(TransferId)
    }

    /// Returns a transfer that has ended, with its outcome, and forgets it. The device no longer
    /// accesses its memory. Returns `None` while the transfer goes on.
    pub(crate) fn take_ended(
        &mut self,
        id: TransferId,
    ) -> Option<(WindowTransfer, Result<(), LaneError>)> {
        self.poll();
        let transfer = *self.transfers.get_mut(id.0)?;
        let ended = match self.on_lane(transfer.lane, |lane, _| lane.is_done(transfer.last)) {
            Ok(false) => return None,
            Ok(true) => Ok(()),
            Err(error) => {
                self.break_lane(transfer.lane);
                Err(error)
            }
        };
        self.transfers.take(id.0);
        self.release(transfer.region);
        Some((transfer, ended))
    }

    /// Ends a transfer, and its lane, without waiting.
    pub(crate) fn abandon(&mut self, id: TransferId) {
        if let Some(transfer) = self.transfers.take(id.0) {
            self.break_lane(transfer.lane);
            self.release(transfer.region);
        }
    }
}
