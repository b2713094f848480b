//! The budget of unexpected messages in the engine: what is counted, and what a source is told.

use super::Engine;
use super::answers::NO_ANSWER;
use super::budget::{Notice, UnexpectedUsage};
use super::message::UnexpectedMessage;
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Returns the private memory that unexpected messages of all sources use.
    #[must_use]
    pub const fn held(&self) -> UnexpectedUsage {
        self.unexpected.held()
    }

    /// Counts a message that came in, before its cell or line is returned
    /// ([`crate::shm::FlowWords::set_full`]).
    pub(super) fn hold(&mut self, source: u32, length: usize) {
        let share = &mut self.peers[source as usize].share;
        if let Some(notice) = self.unexpected.hold(share, length, self.tuning.unexpected_max) {
            self.tell_room(source, notice);
        }
    }

    /// Counts a message that was removed.
    pub(super) fn let_go(&mut self, source: u32, length: usize) {
        let share = &mut self.peers[source as usize].share;
        if let Some(notice) = self.unexpected.let_go(share, length, self.tuning.unexpected_max) {
            self.tell_room(source, notice);
        }
    }

    /// Tells `source` whether there is room for its unexpected messages. A source that has to keep
    /// its messages does not get the baton, by which it could send without a look at the flow
    /// words.
    #[cold]
    fn tell_room(&mut self, source: u32, notice: Notice) {
        let is_full = notice == Notice::Full;
        let peer = &mut self.peers[source as usize];
        if is_full {
            peer.paths.shut_baton();
        } else {
            peer.paths.open_baton();
        }
        if !peer.is_remote() {
            self.segment.flow(source, self.rank).set_full(is_full);
        } else if let Some(stream) = self.stream_mut(source) {
            stream.tell_full(is_full);
        }
    }

    /// Forgets a message that a receive takes, or that no receive will take. The sender of a
    /// synchronous message gets its answer.
    pub(super) fn take_unexpected(&mut self, number: u32) -> Option<UnexpectedMessage> {
        let message = self.unexpected.remove(number)?;
        if message.body.is_here() {
            self.let_go(message.envelope.source, message.total);
        }
        if message.answer != NO_ANSWER {
            self.answer_synchronous(message.envelope.source, message.answer);
        }
        Some(message)
    }
}
