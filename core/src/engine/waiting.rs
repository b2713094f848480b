//! What an operation under way waits for, for the record that its rank keeps
//! ([`crate::layout::WaitRecord`]).

use super::peer::Peer;
use super::request::{RequestState, SendStage};
use super::{Engine, InUse, RequestId};
use crate::layout::{Call, SendState, Wait};
use crate::memory::Memory;
use crate::wire::{Corrupt, Key};

impl Wait {
    fn receive(source: u32, tag: u32, bytes: usize) -> Self {
        Self { tag: Some(tag), bytes: Some(bytes as u64), ..Self::on(Call::Recv, source) }
    }

    fn with_key(self, key: Key) -> Self {
        Self { tag: Some(key.tag()), context: Some(key.context()), ..self }
    }
}

/// Returns what keeps a send in this stage.
const fn state_of(stage: SendStage) -> SendState {
    match stage {
        SendStage::Eager | SendStage::Called => SendState::Room,
        SendStage::Synchronous | SendStage::Unmatched { .. } | SendStage::Offered { .. } => {
            SendState::Deferred
        }
        SendStage::Announce { .. }
        | SendStage::Method { .. }
        | SendStage::Exposed { .. }
        | SendStage::Writing { .. } => SendState::Announced,
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Returns what operation `id` waits for. The call walks lists, so it is for operations that
    /// wait for long.
    #[must_use]
    pub fn wait_of(&self, id: RequestId) -> Wait {
        self.wait_of_request(id.0).unwrap_or(Wait::new(Call::Request))
    }

    /// Returns what a leaving rank waits for: the first send that is not over, or the work of its
    /// device. The call walks lists.
    #[must_use]
    pub fn wait_of_leaving(&self) -> Wait {
        let is_send = |request| {
            matches!(request, RequestState::Sending { .. } | RequestState::Announced { .. })
        };
        let mut requests = self.requests.iter();
        let first = requests.find_map(|(id, request)| is_send(request).then_some(id));
        let wait = first.and_then(|id| self.wait_of_request(id));
        Wait { call: Call::Finalize, ..wait.unwrap_or(Wait::new(Call::Finalize)) }
    }

    fn wait_of_request(&self, id: u32) -> Option<Wait> {
        Some(match self.requests.get(id)? {
            RequestState::Sending { message, .. } => {
                let peer = self.destination_of(id, message.stage);
                let (bytes, stage) = (Some(message.total as u64), Some(state_of(message.stage)));
                Wait { peer, bytes, stage, ..Wait::new(Call::Send) }.with_key(message.key)
            }
            RequestState::Posted { handle, buffer, .. } => {
                let (found, pattern, _) = self.posted.next_from(handle)?;
                if found != handle {
                    return None;
                }
                let context = Some(pattern.context);
                let bytes = buffer.remaining();
                Wait { context, ..Wait::receive(pattern.source, pattern.tag, bytes) }
            }
            RequestState::Receiving { source, tag, total, .. } => Wait::receive(source, tag, total),
            RequestState::Due { source, .. } => Wait::on(Call::Recv, source),
            RequestState::Announced { sender } => {
                let outbound = self.transfers.sender(sender)?;
                let wait = Wait::on(Call::Send, outbound.half.peer());
                let (tag, stage) = (Some(outbound.tag), Some(SendState::Announced));
                Wait { tag, stage, bytes: Some(outbound.half.total() as u64), ..wait }
            }
            RequestState::Granted { receiver } => {
                let inbound = self.transfers.receiver(receiver)?;
                let wait = Wait::on(Call::Recv, inbound.half.peer());
                Wait { bytes: Some(inbound.total as u64), ..wait }.with_key(inbound.key)
            }
            RequestState::Method { transfer } => {
                let transfer = self.transfers.methods().get(transfer)?;
                let wait = Wait::on(Call::Recv, transfer.peer);
                Wait { bytes: Some(transfer.offer.total), ..wait }.with_key(transfer.key)
            }
            RequestState::Reading { reading } => self.network.wait_of_reading(reading)?,
            RequestState::Cleared { cts } => self.network.wait_of_cleared(cts)?,
            RequestState::Written { invited } => self.network.wait_of_invited(invited)?,
            RequestState::Calling { call } => {
                let call = self.pulls.get(call)?;
                Wait { bytes: Some(call.offer.total), ..Wait::on(Call::Recv, call.source) }
            }
            RequestState::Done(_) => return None,
        })
    }

    /// Returns the destination of a send. Most sends only know it from the list in which they wait.
    fn destination_of(&self, id: u32, stage: SendStage) -> Option<u32> {
        match stage {
            SendStage::Offered { destination, .. } | SendStage::Unmatched { destination, .. } => {
                Some(destination)
            }
            SendStage::Exposed { announced } => self.network.destination_of_announced(announced),
            SendStage::Writing { writing } => self.network.destination_of_writing(writing),
            SendStage::Announce { sender } => Some(self.transfers.sender(sender)?.half.peer()),
            SendStage::Method { transfer } => Some(self.transfers.methods().get(transfer)?.peer),
            SendStage::Eager | SendStage::Synchronous | SendStage::Called => {
                let stands_in = |peer: &Peer| self.requests.stands_in(&peer.waiting, id);
                self.peers.iter().find_map(|(rank, peer)| stands_in(peer).then_some(rank))
            }
        }
    }

    /// Returns counts of what is under way now.
    pub fn in_use(&mut self) -> Result<InUse, Corrupt> {
        Ok(InUse {
            requests: self.requests.len() as usize,
            unexpected: self.unexpected.count() as usize,
            transfers: (self.transfers.len() + self.pulls.len() + self.network.transfers())
                as usize,
            descriptors: self.transfers.descriptors_in_use(),
            cells: self.outbox.cells_out(&self.segment)?,
        })
    }
}
