//! The transfers on lanes that go on after the call that began them.

use strait_core::engine::{Channel, Owner};
use strait_core::hca::{Hca, Region};
use strait_core::rma::LaneError;
use strait_platform::Rank;

use super::{LaneId, Network};

/// A transfer between user memory and a member's part. The device may still be working on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTransfer {
    /// The scope that keeps the memory borrowed.
    pub(crate) owner: Owner,
    /// The member.
    pub(crate) rank: Rank,
    pub(crate) lane: LaneId,
    /// The last request of the transfer.
    pub(crate) last: u64,
    /// The registration of the user memory.
    pub(crate) region: Region,
    /// Length in bytes.
    pub(crate) bytes: usize,
}

/// The name of a transfer, until it has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TransferId(usize);

/// The transfers, by name.
#[derive(Debug, Default)]
pub(super) struct WindowTransfers(Vec<Option<WindowTransfer>>);

impl<H: Hca> Network<H> {
    /// Records a transfer until it has ended.
    pub(crate) fn keep(&mut self, transfer: WindowTransfer) -> TransferId {
        let all = &mut self.transfers.0;
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        all.resize_with(all.len().max(free + 1), || None);
        all[free] = Some(transfer);
        TransferId(free)
    }

    /// Returns a transfer of this scope, if there is one.
    pub(crate) fn transfer_of(&self, owner: Owner) -> Option<TransferId> {
        let is_owned = |it: &Option<WindowTransfer>| it.is_some_and(|it| it.owner == owner);
        self.transfers.0.iter().position(is_owned).map(TransferId)
    }

    /// Returns a transfer that has ended, with its outcome, and forgets it. The device no longer
    /// accesses its memory. Returns `None` while the transfer goes on.
    pub(crate) fn take_ended(
        &mut self,
        id: TransferId,
    ) -> Option<(WindowTransfer, Result<(), LaneError>)> {
        self.poll();
        let transfer = self.transfers.0[id.0]?;
        let ended = match self.on_lane(transfer.lane, |lane, _| lane.is_done(transfer.last)) {
            Ok(false) => return None,
            Ok(true) => Ok(()),
            Err(error) => {
                self.break_lane(transfer.lane);
                Err(error)
            }
        };
        self.transfers.0[id.0] = None;
        self.release(transfer.region);
        Some((transfer, ended))
    }

    /// Ends a transfer, and its lane, without waiting.
    pub(crate) fn abandon(&mut self, id: TransferId) {
        if let Some(transfer) = self.transfers.0[id.0].take() {
            self.break_lane(transfer.lane);
            self.release(transfer.region);
        }
    }
}
