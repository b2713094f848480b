//! Matched probes: a message that a probe takes out of matching is received by its number only
//! (MPI-4.1 §3.8.2, §3.8.3).
//!
//! The message stays an unexpected message. Its data, its place in its source's share and its
//! treatment after the death of its source do not change. It is only not in the queue any more.

use super::MessageId;
use super::message::{UnexpectedData, UnexpectedMessage};
use super::request::RequestState;
use super::{Engine, Owner, Received, StartError, Status};
use crate::buffer::Cursor;
use crate::matching::{Envelope, Pattern};
use crate::memory::{Memory, OutOfMemory};
use crate::wire::Key;

impl<M: Memory + Clone> Engine<M> {
    /// Takes the oldest arrived message that matches `pattern` out of matching, so that no other
    /// probe or receive finds it. Returns its name and its status.
    ///
    /// # Errors
    ///
    /// [`StartError::Rank`], [`StartError::Tag`], and [`StartError::Peer`] for a source that is
    /// gone.
    pub fn improbe(&mut self, pattern: Pattern) -> Result<Option<(MessageId, Status)>, StartError> {
        let Some((found, status)) = self.find_arrived(&pattern)? else { return Ok(None) };
        self.unexpected.take_out(found.message);
        Ok(Some((MessageId(found.message), status)))
    }

    /// Keeps a message for an embedder that does its own matching and has taken the message by
    /// [`Engine::take_next_short`], [`Engine::take_next_medium`] or a receive. The bytes are copied
    /// into memory of the engine, and count as those of any unexpected message of `source`. Returns
    /// a name like that of [`Engine::improbe`].
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was kept.
    pub fn keep_matched(
        &mut self,
        source: u32,
        key: Key,
        bytes: &[u8],
    ) -> Result<MessageId, OutOfMemory> {
        let envelope = Envelope { context: key.context(), source, tag: key.tag() };
        let length = bytes.len();
        let owned = self.own(length)?;
        let body = UnexpectedData::Here(owned);
        let message = UnexpectedMessage::new(envelope, body, length, length);
        let number = match self.unexpected.insert_matched(message) {
            Ok(number) => number,
            Err(error) => {
                owned.into_iter().for_each(|owned| self.buffers.put_back(owned));
                return Err(error);
            }
        };
        if let Some(owned) = owned {
            // SAFETY: the memory is new, belongs to the engine, and has room for the bytes.
            unsafe { owned.base.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), length) };
        }
        self.hold(source, length);
        Ok(MessageId(number))
    }

    /// Receives a message that [`Engine::improbe`] has matched. Its name ends with this call. If
    /// its source died before all of the message could be delivered, the receive fails.
    ///
    /// # Errors
    ///
    /// [`StartError::OutOfMemory`]: nothing was received, and the name stays valid.
    ///
    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by no other code until the receive is
    /// over, as [`Engine::irecv`] requires.
    pub unsafe fn imrecv(
        &mut self,
        message: MessageId,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        self.receive_unexpected(message.0, buffer, owner)
    }

    /// Puts a message that [`Engine::improbe`] has matched back into matching, as if it arrived
    /// now. Its name ends with this call.
    ///
    /// The oldest receive that was posted meanwhile takes the message, if one matches. Otherwise it
    /// returns to its old place among the messages that wait.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub fn put_back(&mut self, message: MessageId) -> Result<(), OutOfMemory> {
        let MessageId(number) = message;
        let Some(UnexpectedMessage { envelope, body, .. }) = self.unexpected.get(number) else {
            return Ok(());
        };
        match body {
            UnexpectedData::Lost => {
                self.take_unexpected(number);
                return Ok(());
            }
            UnexpectedData::There(kept) => self.reserve_for(kept)?,
            UnexpectedData::Here(_) | UnexpectedData::Short(_) => {}
        }
        if let Some(id) = self.posted.take(&envelope) {
            // No receive has sent an RTR meanwhile, since `may_ask` forbids it while a message is
            // matched.
            return match self.requests.get(id) {
                Some(RequestState::Posted { buffer, .. }) => self.give(number, id, buffer),
                _ => Ok(()),
            };
        }
        self.unexpected.put_back(number)
    }

    /// Notes that the data of a matched message went with its sender.
    pub(super) fn lose(&mut self, number: u32) {
        let Some(UnexpectedMessage { envelope, body, total, .. }) = self.unexpected.lose(number)
        else {
            return;
        };
        if body.is_here() {
            self.let_go(envelope.source, total);
        }
    }
}
