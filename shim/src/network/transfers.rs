//! Transfers on lanes that go on when the call that began them is over.

use strait_core::hca::{Hca, Region};
use strait_core::progress::{Channel, Owner};
use strait_core::rma::LaneError;

use super::{LaneId, Network};
use crate::Rank;

/// A transfer between a user's memory and a member's part, which the device may be at work on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// The scope that keeps the memory borrowed.
    pub(crate) owner: Owner,
    /// The member.
    pub(crate) rank: Rank,
    pub(crate) lane: LaneId,
    /// Its last request.
    pub(crate) last: u64,
    /// The user's memory.
    pub(crate) region: Region,
    /// Bytes.
    pub(crate) bytes: usize,
}

/// The name of a transfer, until it has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TransferId(usize);

/// By name.
#[derive(Debug, Default)]
pub(super) struct Transfers(Vec<Option<Transfer>>);

impl<H: Hca> Network<H> {
    /// Remembers a transfer until it has ended.
    pub(crate) fn keep(&mut self, transfer: Transfer) -> TransferId {
        let all = &mut self.transfers.0;
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        all.resize_with(all.len().max(free + 1), || None);
        all[free] = Some(transfer);
        TransferId(free)
    }

    /// A transfer of this scope, if there is one.
    pub(crate) fn transfer_of(&self, owner: Owner) -> Option<TransferId> {
        let is_owned = |it: &Option<Transfer>| it.is_some_and(|it| it.owner == owner);
        self.transfers.0.iter().position(is_owned).map(TransferId)
    }

    /// How a transfer ended, and which it was: it is forgotten then, and the device touches its memory no more. `None`: it goes on.
    pub(crate) fn take_ended(
        &mut self,
        id: TransferId,
    ) -> Option<(Transfer, Result<(), LaneError>)> {
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
