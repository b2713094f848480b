//! The end of a stream: this rank leaves, or the peer is gone.

use super::{Channel, PeerStreams};
use crate::engine::peer::StandIn;
use crate::engine::{Engine, Gone, ProgressError};
use crate::memory::{Memory, OutOfMemory};

impl<M: Memory + Clone> Engine<M> {
    /// Tells all peers on other nodes that nothing comes from this rank after what is under way.
    /// [`Engine::is_flushed`] then also tells whether that is sent. The embedder makes sure that
    /// the streams deliver it.
    pub fn leave_network(&mut self) {
        self.network.leaves = true;
        self.visit_streams(|engine, number| {
            if let Some(stream) = engine.network.streams.get_mut(number) {
                stream.outgoing.leave();
            }
        });
    }

    /// Returns whether nothing has to be put into any stream.
    pub(in crate::engine) fn network_is_flushed(&self) -> bool {
        self.network.streams.iter().all(|(_, stream)| {
            let peer = &self.peers[stream.peer() as usize];
            stream.outgoing.is_quiet() && peer.waiting.is_empty() && peer.offers.is_empty()
        }) && self.network.writings.is_empty()
            && self.has_answers()
    }

    /// Notes how the process of `rank` has ended. The stream is read to its end first.
    pub(in crate::engine) fn end_remote(&mut self, rank: u32, how: Gone) {
        if let Some(stream) = self.stream_mut(rank) {
            stream.end(how);
        }
    }

    /// Notes that `rank`, with which there was no contact, has left in good order. Returns false:
    /// [`Engine::poll_network`] has yet to look whether there is a link.
    pub(in crate::engine) fn leaves_unmet(&mut self, rank: u32) -> Result<bool, ProgressError> {
        self.network.leaving.reserve()?;
        self.peers.note(&self.segment, self.rank, (rank, StandIn::Leaving))?;
        self.network.leaving.insert(rank)?;
        Ok(false)
    }

    /// Ends the communication with ranks that have left. What came through a link is taken first.
    pub(super) fn end_leaving(&mut self, channel: &mut impl Channel) -> Result<(), OutOfMemory> {
        let mut next = 0;
        while let Some((number, rank)) = self.network.leaving.next_from(next) {
            next = number + 1;
            // Otherwise there was contact meanwhile, and the stream is read to its end.
            if self.peers[rank as usize].stands_in() == Some(StandIn::Leaving) {
                if channel.is_linked(rank) {
                    self.contact(rank)?;
                } else {
                    self.peers.note(&self.segment, self.rank, (rank, StandIn::Finished))?;
                    channel.close(rank);
                    self.network.reachable -= 1;
                    self.any_gone = true;
                }
            }
            self.network.leaving.remove(number);
        }
        Ok(())
    }

    /// Ends a stream from which everything is taken, and every operation that needs it.
    pub(super) fn end_stream(&mut self, number: u32, channel: &mut impl Channel, how: Gone) {
        let Some(peer) = self.network.streams.get(number).map(PeerStreams::peer) else { return };
        // The stream closes before any buffer goes back to its owner, and before the memory of the
        // heads is released.
        channel.close(peer);
        let Some(mut stream) = self.network.streams.remove(number) else { return };
        self.network.reachable -= 1;
        self.hide_all(peer, channel);
        let fault = how.fault(peer);
        self.fail_readings_from(peer, fault, channel);
        self.fail_cleared_from(peer, fault, channel);
        self.fail_writings_to(peer, fault, channel);
        self.uninvite_all(peer, fault, channel);
        stream.outgoing.drop_words(&mut self.network.controls);
        if let Some(scrap) = stream.incoming.scrap() {
            self.buffers.put_back(scrap);
        }
        self.end_operations(peer, how);
    }
}
