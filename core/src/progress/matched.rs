//! Matched probes: a message that a probe takes out of matching is received by its number, and by nothing else (MPI-4.1 §3.8.2,
//! §3.8.3).
//!
//! It is an unexpected message all the same: where its data are, how much of them is here, and what it takes of its source's share is as
//! before, and so is what becomes of it when its source dies. Only the queue does not know it any more.

use super::arrive::{Body, Message, Standing};
use super::request::Request;
use super::{Cursor, Engine, Owner, Received, StartError, Status};
use crate::matching::Pattern;
use crate::memory::{Memory, OutOfMemory};

/// Names a message that a probe has matched. Valid until a receive of it has begun, or it was put back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MessageId(u32);

impl<M: Memory + Clone> Engine<M> {
    /// As [`Engine::iprobe`], and takes the message out of matching: no other probe or receive finds it.
    ///
    /// # Errors
    ///
    /// As [`Engine::iprobe`].
    pub fn improbe(&mut self, pattern: Pattern) -> Result<Option<(MessageId, Status)>, StartError> {
        let Some((found, status)) = self.find_arrived(&pattern)? else { return Ok(None) };
        self.unexpected.remove(found.handle);
        if let Some(message) = self.messages.get_mut(found.message) {
            message.standing = Standing::Matched;
            self.matched += 1;
        }
        Ok(Some((MessageId(found.message), status)))
    }

    /// Receives a message that [`Engine::improbe`] has matched, whose name ends with this call. If its source has died before all of it
    /// could be had, the receive fails.
    ///
    /// # Errors
    ///
    /// [`StartError::OutOfMemory`]; nothing was received, and the name stays.
    ///
    /// # Safety
    ///
    /// As for [`Engine::irecv`].
    pub unsafe fn imrecv(
        &mut self,
        message: MessageId,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        self.receive_unexpected(message.0, buffer, owner)
    }

    /// Gives a message that [`Engine::improbe`] has matched back to matching, as if it came only now: the oldest receive that was posted
    /// meanwhile takes it, if one matches; else it stands where it stood among the messages that wait. Its name ends with this call.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub fn put_back(&mut self, message: MessageId) -> Result<(), OutOfMemory> {
        let MessageId(number) = message;
        let Some(Message { envelope, body, arrival, .. }) = self.messages.get(number).copied()
        else {
            return Ok(());
        };
        match body {
            Body::Lost => {
                self.take_unexpected(number);
                return Ok(());
            }
            Body::There(kept) => self.reserve_for(kept)?,
            Body::Here(_) => {}
        }
        if let Some(id) = self.posted.take(&envelope) {
            // No receive has asked for a message meanwhile (`may_ask`).
            return match self.request(id) {
                Some(Request::Posted { buffer, .. }) => self.give(number, id, buffer),
                _ => Ok(()),
            };
        }
        let messages = &self.messages;
        let came_before = |other| messages.get(other).is_some_and(|other| other.arrival < arrival);
        let handle = self.unexpected.put_back(envelope, number, came_before)?;
        self.leave_matching(Standing::Matched);
        if let Some(message) = self.messages.get_mut(number) {
            message.standing = Standing::Queued(handle);
        }
        Ok(())
    }

    /// A message goes from where it stands.
    pub(super) fn leave_matching(&mut self, standing: Standing) {
        match standing {
            Standing::Queued(handle) => {
                self.unexpected.remove(handle);
            }
            Standing::Matched => self.matched -= 1,
            Standing::Met => {}
        }
    }

    /// Notes that a matched message went with its sender.
    pub(super) fn lose(&mut self, number: u32) {
        let Some(message) = self.messages.get_mut(number) else { return };
        let (source, total) = (message.envelope.source, message.total);
        if let Body::Here(_) = core::mem::replace(&mut message.body, Body::Lost) {
            self.let_go(source, total);
        }
    }
}
