//! What an operation under way waits for, for the record that its rank keeps ([`crate::layout::WaitRecord`]).

use super::request::{Request, Stage};
use super::{Engine, RequestId};
use crate::layout::{Call, Wait};
use crate::memory::Memory;
use crate::wire::Key;

impl Wait {
    fn receive(source: u32, tag: u32, bytes: usize) -> Self {
        Self { tag: Some(tag), bytes: Some(bytes as u64), ..Self::on(Call::Recv, source) }
    }

    fn with_key(self, key: Key) -> Self {
        Self { tag: Some(key.tag()), context: Some(key.context()), ..self }
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// What operation `id` waits for. Walks lists: for calls that wait for long.
    #[must_use]
    pub fn wait_of(&self, id: RequestId) -> Wait {
        self.wait_of_request(id.0).unwrap_or(Wait::new(Call::Request))
    }

    fn wait_of_request(&self, id: u32) -> Option<Wait> {
        Some(match self.request(id)? {
            Request::Sending { message, .. } => {
                let peer = self.destination_of(id, message.stage);
                let bytes = Some(message.total as u64);
                Wait { peer, bytes, ..Wait::new(Call::Send) }.with_key(message.key)
            }
            Request::Posted { handle, buffer, .. } => {
                let (found, pattern, _) = self.posted.next_from(handle)?;
                if found != handle {
                    return None;
                }
                let context = Some(pattern.context);
                let bytes = buffer.remaining();
                Wait { context, ..Wait::receive(pattern.source, pattern.tag, bytes) }
            }
            Request::Receiving { source, tag, total, .. } => Wait::receive(source, tag, total),
            Request::Due { source, .. } => Wait::on(Call::Recv, source),
            Request::Announced { sender } => {
                let outbound = self.senders.get(sender)?;
                let wait = Wait::on(Call::Send, outbound.half.peer());
                Wait { tag: Some(outbound.tag), ..wait }
            }
            Request::Granted { receiver } => {
                let inbound = self.receivers.get(receiver)?;
                let wait = Wait::on(Call::Recv, inbound.half.peer());
                Wait { bytes: Some(inbound.total as u64), ..wait }.with_key(inbound.key)
            }
            Request::Reading { reading } => {
                let reading = self.readings.get(reading)?;
                Wait::receive(reading.source, reading.tag, reading.wanted)
            }
            Request::Written { invited } => {
                let invited = self.invited.get(invited)?;
                let bytes = Some(invited.part.length as u64);
                Wait { bytes, ..Wait::on(Call::Recv, invited.peer) }.with_key(invited.key)
            }
            Request::Calling { call } => {
                let call = self.calls.get(call)?;
                Wait { bytes: Some(call.offer.total), ..Wait::on(Call::Recv, call.source) }
            }
            Request::Done(_) => return None,
        })
    }

    /// Where a send goes: most know no more than the list in which they wait.
    fn destination_of(&self, id: u32, stage: Stage) -> Option<u32> {
        match stage {
            Stage::Offered { destination, .. } => Some(destination),
            Stage::Exposed { announced } => Some(self.announced.get(announced)?.destination),
            Stage::Writing { writing } => Some(self.writings.get(writing)?.destination),
            Stage::Announce { sender } => Some(self.senders.get(sender)?.half.peer()),
            Stage::Eager | Stage::Synchronous | Stage::Called => {
                let mut peers = (0..).zip(self.peers.iter());
                peers.find_map(|(rank, peer)| {
                    let first = peer.waiting.ends.map(|(first, _)| first);
                    let next = |id: &u32| match self.request(*id) {
                        Some(Request::Sending { next, .. }) => next,
                        _ => None,
                    };
                    core::iter::successors(first, next).any(|one| one == id).then_some(rank)
                })
            }
        }
    }
}
