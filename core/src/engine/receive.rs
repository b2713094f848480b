//! Receiving: the operations that ask for a message.

use core::ptr::NonNull;

use super::Received;
use super::message::{UnexpectedData, UnexpectedMessage};
use super::message_buffers::OwnedBuffer;
use super::reassembly::ArrivalTarget;
use super::request::RequestState;
use super::started::outcome;
use super::{Engine, Fault, Outcome, Owner, RequestId, StartError, Status, StillClaimed};
use crate::buffer::Cursor;
use crate::matching::{ANY_SOURCE, ANY_TAG, Envelope, Found, Pattern, TAG_MAX};
use crate::memory::{Memory, OutOfMemory};

impl<M: Memory + Clone> Engine<M> {
    /// Receives the oldest message that matches `pattern` into `buffer`: at once if it has arrived,
    /// otherwise when it arrives.
    ///
    /// # Errors
    ///
    /// [`StartError`]: nothing was received or posted.
    ///
    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by no other code until the receive is
    /// over: until this returns [`Received::Done`] or an error, until [`Engine::test`] returns an
    /// outcome, or until [`Engine::detach`] returns `Ok`.
    pub unsafe fn irecv(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        self.check(&pattern)?;
        self.requests.reserve()?;
        if let Some(found) = self.unexpected.find(&pattern) {
            return self.receive_unexpected(found.message, buffer, owner);
        }
        if pattern.source != ANY_SOURCE
            && let peer = self.contact(pattern.source)?
            && let Some(gone) = peer.gone()
        {
            return Err(StartError::Peer(gone.fault(pattern.source)));
        }
        let id = self.requests.insert(owner, RequestState::Done(Err(Fault::Cancelled)))?;
        let turn = self.may_ask(&pattern, &buffer, owner);
        match self.posted.post(pattern, id) {
            Ok(handle) => {
                let asked = turn.and_then(|turn| self.send_rtr(id, &pattern, buffer, turn));
                self.requests.set(id, RequestState::Posted { handle, buffer, asked });
                Ok(Received::Pending(RequestId(id)))
            }
            Err(error) => {
                self.requests.remove(id);
                Err(error.into())
            }
        }
    }

    /// Returns the status of the oldest arrived message that matches `pattern`. The message stays
    /// where it is (MPI-4.1 §3.8.1).
    ///
    /// # Errors
    ///
    /// [`StartError::Rank`], [`StartError::Tag`], and [`StartError::Peer`] for a source that is
    /// gone.
    pub fn iprobe(&mut self, pattern: Pattern) -> Result<Option<Status>, StartError> {
        Ok(self.find_arrived(&pattern)?.map(|(_, status)| status))
    }

    /// Finds the oldest arrived message that matches `pattern`.
    pub(super) fn find_arrived(
        &mut self,
        pattern: &Pattern,
    ) -> Result<Option<(Found, Status)>, StartError> {
        self.check(pattern)?;
        let Some(found) = self.unexpected.find(pattern) else {
            return match self.gone(pattern.source) {
                Some(gone) => Err(StartError::Peer(gone.fault(pattern.source))),
                None => Ok(None),
            };
        };
        let Envelope { source, tag, .. } = found.envelope;
        let bytes = self.unexpected.get(found.message).map_or(0, |message| message.total);
        Ok(Some((found, Status { source, tag, bytes })))
    }

    /// Ends a receive that has not matched yet, with the outcome [`Fault::Cancelled`]. Returns
    /// whether it was cancelled.
    ///
    /// A send goes on, and so does a receive that matched, or with an RTR that is used by a message
    /// on its way (MPI-4.1 §3.8.4). False may also mean that a rank on another node has the RTR and
    /// was asked to give it up. Then its answer decides the outcome.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(RequestState::Posted { handle, .. }) = self.requests.get(id.0) else {
            return false;
        };
        if self.retract_from(id.0).is_err() {
            return false;
        }
        self.posted.cancel(handle);
        self.requests.finish(id.0, Err(Fault::Cancelled));
        true
    }

    /// Ends an operation's claim on its buffer and its id, without waiting. A send goes on from a
    /// copy of the rest. A receive that has not matched is cancelled. A receive with a message that
    /// is arriving drops the rest of it.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: the claim stays. Make progress, which may end it, and try again.
    pub fn detach(&mut self, id: RequestId) -> Result<(), StillClaimed> {
        match self.requests.get(id.0) {
            Some(RequestState::Sending { .. }) => return self.detach_send(id.0),
            Some(RequestState::Announced { sender }) => self.detach_sender(sender)?,
            Some(RequestState::Granted { receiver }) => self.detach_receiver(receiver)?,
            Some(RequestState::Reading { reading }) => self.detach_reading(reading)?,
            Some(RequestState::Cleared { cts }) => self.detach_cleared(cts)?,
            Some(RequestState::Method { transfer }) => {
                return Err(self.still_moved_by_method(transfer));
            }
            Some(RequestState::Calling { call }) => self.pulls.drop_receive(call),
            Some(RequestState::Posted { handle, .. }) => {
                self.retract_from(id.0)?;
                self.posted.cancel(handle);
            }
            Some(RequestState::Written { invited }) => return Err(self.still_written(invited)),
            Some(RequestState::Receiving { source, .. }) if self.holds_arriving(source) => {
                return Err(StillClaimed::Moving { peer: source });
            }
            Some(RequestState::Due { source, .. }) => {
                self.peers[source as usize].arriving.drop_due();
            }
            Some(RequestState::Receiving { source, .. }) => {
                self.peers[source as usize].arriving.redirect(ArrivalTarget::Nobody);
            }
            Some(RequestState::Done(_)) => {}
            // Another operation may soon have this number.
            None => debug_assert!(false, "operation {} has ended before", id.0),
        }
        self.requests.remove(id.0);
        Ok(())
    }

    /// Detaches every operation of `owner`, each as [`Engine::detach`] does.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: at least one operation keeps its claim. The others are detached.
    pub fn detach_owned(&mut self, owner: Owner) -> Result<(), StillClaimed> {
        let mut result = Ok(());
        let mut from = 0;
        while let Some(id) = self.requests.next_of(owner, from) {
            result = result.and(self.detach(RequestId(id)));
            from = id + 1;
        }
        result
    }

    /// Starts a receive of a message that arrived before it.
    pub(super) fn receive_unexpected(
        &mut self,
        number: u32,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        let Some(message) = self.unexpected.get(number) else {
            return Ok(Received::Done(Err(Fault::Cancelled)));
        };
        if let UnexpectedData::Here(payload) = message.body
            && message.arrived == message.total
        {
            return Ok(Received::Done(self.take_whole(number, &message, payload, buffer)));
        }
        if let UnexpectedData::Short(_) = message.body {
            return Ok(Received::Done(self.take_short_whole(number, &message, buffer)));
        }
        let id = self.requests.insert(owner, RequestState::Done(Err(Fault::Cancelled)))?;
        if let Err(error) = self.give(number, id, buffer) {
            self.requests.remove(id);
            return Err(error.into());
        }
        Ok(Received::Pending(RequestId(id)))
    }

    /// Gives a message that arrived before its receive to that receive, the request `id`. On an
    /// error nothing has changed.
    pub(super) fn give(
        &mut self,
        number: u32,
        id: u32,
        mut buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let Some(message) = self.unexpected.get(number) else { return Ok(()) };
        let (Envelope { source, tag, .. }, total) = (message.envelope, message.total);
        let request = match message.body {
            UnexpectedData::There(kept) => {
                self.ask_for(id, &message.envelope, kept, buffer)?;
                self.take_unexpected(number);
                return Ok(());
            }
            UnexpectedData::Lost => {
                self.take_unexpected(number);
                let gone = self.peers[source as usize].gone();
                RequestState::Done(Err(gone.map_or(Fault::Cancelled, |gone| gone.fault(source))))
            }
            UnexpectedData::Here(payload) if message.arrived == total => {
                RequestState::Done(self.take_whole(number, &message, payload, buffer))
            }
            UnexpectedData::Short(_) => {
                RequestState::Done(self.take_short_whole(number, &message, buffer))
            }
            // A device is writing the message into the engine's memory.
            UnexpectedData::Here(_) if self.holds_arriving(source) => {
                self.unexpected.meet(number);
                let due = ArrivalTarget::Due { message: number, request: Some(id) };
                self.peers[source as usize].arriving.redirect(due);
                RequestState::Due { buffer, source }
            }
            UnexpectedData::Here(payload) => {
                let capacity = buffer.remaining();
                self.take_payload(number, &message, payload, &mut buffer);
                self.peers[source as usize].arriving.redirect(ArrivalTarget::Request(id));
                RequestState::Receiving { buffer, capacity, source, tag, total }
            }
        };
        self.requests.set(id, request);
        Ok(())
    }

    /// Receives a short message.
    fn take_short_whole(
        &mut self,
        number: u32,
        message: &UnexpectedMessage,
        mut buffer: Cursor,
    ) -> Outcome {
        let (Envelope { source, tag, .. }, capacity) = (message.envelope, buffer.remaining());
        self.take_unexpected(number);
        if let UnexpectedData::Short(bytes) = &message.body {
            // SAFETY: the message's own memory holds all of it and is no user buffer.
            unsafe { buffer.scatter(NonNull::from(bytes).cast(), message.total) };
        }
        outcome((&self.segment, self.rank), (source, tag), message.total, capacity)
    }

    /// Receives a message of which all bytes are here.
    fn take_whole(
        &mut self,
        number: u32,
        message: &UnexpectedMessage,
        payload: Option<OwnedBuffer>,
        mut buffer: Cursor,
    ) -> Outcome {
        let (Envelope { source, tag, .. }, capacity) = (message.envelope, buffer.remaining());
        self.take_payload(number, message, payload, &mut buffer);
        outcome((&self.segment, self.rank), (source, tag), message.total, capacity)
    }

    /// Forgets a message, and copies its bytes that are here to `buffer`.
    fn take_payload(
        &mut self,
        number: u32,
        message: &UnexpectedMessage,
        payload: Option<OwnedBuffer>,
        buffer: &mut Cursor,
    ) {
        self.take_unexpected(number);
        if let Some(owned) = payload {
            // SAFETY: the message's own memory holds `arrived` bytes and is no user buffer.
            unsafe { buffer.scatter(owned.base, message.arrived) };
            self.buffers.put_back(owned);
        }
    }

    pub(super) fn check(&self, pattern: &Pattern) -> Result<(), StartError> {
        let ranks = self.segment.ranks().max(self.peers.len() as u32);
        if pattern.source >= ranks && pattern.source != ANY_SOURCE {
            return Err(StartError::Rank { rank: pattern.source, ranks });
        }
        if pattern.tag > TAG_MAX && pattern.tag != ANY_TAG {
            return Err(StartError::Tag { tag: pattern.tag });
        }
        Ok(())
    }
}
