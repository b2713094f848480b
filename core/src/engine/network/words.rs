//! Control messages to a peer: they go before messages, in their own order.

use crate::engine::Engine;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::StreamHead;

impl<M: Memory + Clone> Engine<M> {
    /// Reserves a place for a control message that is queued later, when nothing may fail.
    pub(super) fn reserve_word(&mut self) -> Result<u32, OutOfMemory> {
        self.controls.place()
    }

    /// Queues `head` for `peer`, behind the control messages that wait already. Nothing is sent to
    /// a gone peer.
    pub(super) fn say(&mut self, peer: u32, word: u32, head: StreamHead) {
        let stream = self.peers[peer as usize].stream();
        let stream = stream.and_then(|number| self.streams.get_mut(number));
        match stream.filter(|stream| stream.peer == peer) {
            Some(stream) => self.controls.push(&mut stream.outgoing.words, word, head),
            None => self.controls.give_back(word),
        }
    }

    /// Takes the next control message of the stream `number`. A pull request comes last: the sender
    /// is told first that its message was not read.
    pub(super) fn take_word(&mut self, number: u32) -> Option<StreamHead> {
        let outgoing = &mut self.streams.get_mut(number)?.outgoing;
        if outgoing.words.is_empty() {
            return outgoing.take_wish();
        }
        self.controls.pop(&mut outgoing.words)
    }
}
