//! The end of a stream: this rank leaves, or the peer is gone.

use super::{Channel, Stream};
use crate::memory::Memory;
use crate::progress::{Engine, Gone};

impl<M: Memory + Clone> Engine<M> {
    /// Says to all peers on other nodes that nothing comes from this rank after what is under way. Then
    /// [`Engine::is_flushed`] tells when that is said, too; the embedder sees to it that the streams bring it there.
    pub fn leave_network(&mut self) {
        let mut from = 0;
        while let Some(number) = self.next_stream(from) {
            from = number + 1;
            if let Some(stream) = self.streams.get_mut(number) {
                stream.outgoing.leave = true;
            }
        }
    }

    /// True when nothing has to be put into any stream.
    pub(in crate::progress) fn network_is_flushed(&self) -> bool {
        self.streams.iter().all(|(_, stream)| {
            let peer = &self.peers[stream.peer as usize];
            stream.outgoing.is_quiet() && peer.waiting.ends.is_none() && peer.offers == 0
        }) && self.writings.is_empty()
            && self.has_answers()
    }

    /// Notes how the process of `rank` has ended. The stream is read to its end first.
    pub(in crate::progress) fn end_remote(&mut self, rank: u32, how: Gone) {
        if let Some(stream) = self.stream_mut(rank) {
            stream.ended = Some(how);
        }
    }

    /// Ends a stream from which everything is taken, and every operation that needs it.
    pub(super) fn end_stream(&mut self, number: u32, channel: &mut impl Channel, how: Gone) {
        let Some(&Stream { peer, .. }) = self.streams.get(number) else { return };
        // Before any buffer goes back to its owner, and before the memory of the heads does.
        channel.close(peer);
        let Some(stream) = self.streams.remove(number) else { return };
        self.hide_all(stream.peer, channel);
        let fault = how.fault(stream.peer);
        self.fail_readings_from(stream.peer, fault, channel);
        self.fail_writings_to(stream.peer, fault, channel);
        self.uninvite_all(stream.peer, fault, channel);
        let mut word = stream.outgoing.words.ends.map(|(first, _)| first);
        while let Some(said) = word.and_then(|number| self.words.remove(number)) {
            word = said.next();
        }
        if let Some(scrap) = stream.scrap {
            self.release(scrap);
        }
        self.end_operations(stream.peer, how);
    }
}
