//! Control messages to a peer: they go before messages, in their own order.

use crate::engine::Engine;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::StreamHead;

impl<M: Memory + Clone> Engine<M> {
    /// Reserves a place for a control message that is queued later, when nothing may fail.
    pub(super) fn reserve_word(&mut self) -> Result<u32, OutOfMemory> {
        self.network.controls.place()
    }

    /// Queues `head` for `peer`, behind the control messages that wait already. Nothing is sent to
    /// a gone peer.
    pub(super) fn say(&mut self, peer: u32, word: u32, head: StreamHead) {
        let stream = self.peers[peer as usize].stream();
        let stream = stream.and_then(|number| self.network.streams.get_mut(number));
        let controls = &mut self.network.controls;
        match stream.filter(|stream| stream.peer() == peer) {
            Some(stream) => stream.outgoing.say(controls, word, head),
            None => controls.give_back(word),
        }
    }

    /// Takes the next report for the stream `number`.
    pub(super) fn take_word(&mut self, number: u32) -> Option<StreamHead> {
        let stream = self.network.streams.get_mut(number)?;
        stream.outgoing.next_word(&mut self.network.controls)
    }
}
