//! Receiving: operations that ask for a message.

use super::arrive::{Body, Message, Standing};
use super::peer::{Arriving, Target};
use super::request::{Entry, Owned, Request};
use super::{Cursor, Engine, Fault, Outcome, Owner, RequestId, StartError, Status, StillClaimed};
use crate::matching::{ANY_SOURCE, ANY_TAG, Envelope, Found, Pattern, TAG_MAX};
use crate::memory::{Memory, OutOfMemory};

/// What became of a receive that began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// The message had arrived.
    Done(Outcome),
    /// The buffer is needed until [`Engine::test`] gives an outcome.
    Pending(RequestId),
}

impl<M: Memory + Clone> Engine<M> {
    /// Receives the oldest message that matches `pattern` into `buffer`: at once if it has arrived, else when it does.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing was received or posted.
    ///
    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by nobody else until the receive is over: until this returns
    /// [`Received::Done`] or an error, until [`Engine::test`] gives an outcome, or until [`Engine::detach`] returns
    /// `Ok`.
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
        if let Some(gone) = self.peers.get(pattern.source as usize).and_then(|peer| peer.gone) {
            return Err(StartError::Peer(gone.fault(pattern.source)));
        }
        let request = Request::Done(Err(Fault::Cancelled));
        let id = self.requests.insert(Entry { owner, request })?;
        let turn = self.may_ask(&pattern, &buffer, owner);
        match self.posted.post(pattern, id) {
            Ok(handle) => {
                let asked = turn.and_then(|turn| self.send_rtr(id, &pattern, buffer, turn));
                if let Some(request) = self.request_mut(id) {
                    *request = Request::Posted { handle, buffer, asked };
                }
                Ok(Received::Pending(RequestId(id)))
            }
            Err(error) => {
                self.requests.remove(id);
                Err(error.into())
            }
        }
    }

    /// Status of the oldest arrived message that matches `pattern`, which stays where it is (MPI-4.1 §3.8.1).
    ///
    /// # Errors
    ///
    /// [`StartError::Rank`], [`StartError::Tag`], and [`StartError::Peer`] for a source that is gone.
    pub fn iprobe(&self, pattern: Pattern) -> Result<Option<Status>, StartError> {
        Ok(self.find_arrived(&pattern)?.map(|(_, status)| status))
    }

    /// The oldest arrived message that matches `pattern`.
    pub(super) fn find_arrived(
        &self,
        pattern: &Pattern,
    ) -> Result<Option<(Found, Status)>, StartError> {
        self.check(pattern)?;
        let Some(found) = self.unexpected.find(pattern) else {
            return match self.peers.get(pattern.source as usize).and_then(|peer| peer.gone) {
                Some(gone) => Err(StartError::Peer(gone.fault(pattern.source))),
                None => Ok(None),
            };
        };
        let Envelope { source, tag, .. } = found.envelope;
        let bytes = self.messages.get(found.message).map_or(0, |message| message.total);
        Ok(Some((found, Status { source, tag, bytes })))
    }

    /// Ends a receive that nothing has matched yet: its outcome is [`Fault::Cancelled`]. A receive that matched, or whose RTR
    /// a message uses that is on its way, and a send, go on (MPI-4.1 §3.8.4). Says whether it was cancelled. False may also mean
    /// that a rank on another node has its RTR, and is asked: then its answer decides the outcome.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(Request::Posted { handle, .. }) = self.request(id.0) else {
            return false;
        };
        if self.retract_from(id.0).is_err() {
            return false;
        }
        self.posted.cancel(handle);
        if let Some(request) = self.request_mut(id.0) {
            *request = Request::Done(Err(Fault::Cancelled));
        }
        true
    }

    /// Ends an operation's claim on its buffer and its id, without waiting. A send goes on from a copy of what is left; a
    /// receive that nothing matched is cancelled; a receive whose message is arriving lets the rest of it go.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: the claim stands. Make progress, which may end it, and try again.
    pub fn detach(&mut self, id: RequestId) -> Result<(), StillClaimed> {
        match self.request(id.0) {
            Some(Request::Sending { .. }) => return self.detach_send(id.0),
            Some(Request::Announced { sender }) => self.detach_sender(sender)?,
            Some(Request::Granted { receiver }) => self.detach_receiver(receiver)?,
            Some(Request::Reading { reading }) => self.detach_reading(reading)?,
            Some(Request::Calling { call }) => self.detach_call(call),
            Some(Request::Posted { handle, .. }) => {
                self.retract_from(id.0)?;
                self.posted.cancel(handle);
            }
            Some(Request::Written { invited }) => return Err(self.still_written(invited)),
            Some(Request::Receiving { source, .. }) if self.holds_arriving(source) => {
                return Err(StillClaimed::Moving { peer: source });
            }
            Some(Request::Due { source, .. }) => {
                if let Some(Arriving { target: Target::Due { request, .. }, .. }) =
                    &mut self.peers[source as usize].arriving
                {
                    *request = None;
                }
            }
            Some(Request::Receiving { source, .. }) => {
                self.redirect(source, Target::Nobody);
            }
            Some(Request::Done(_)) | None => {}
        }
        self.requests.remove(id.0);
        Ok(())
    }

    /// Detaches every operation of `owner`, as [`Engine::detach`] does one.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: at least one operation keeps its claim. The others are detached.
    pub fn detach_owned(&mut self, owner: Owner) -> Result<(), StillClaimed> {
        let mut result = Ok(());
        let mut from = 0;
        loop {
            let mut entries = self.requests.iter_from(from);
            let Some((id, _)) = entries.find(|(_, entry)| entry.owner == owner) else {
                return result;
            };
            drop(entries);
            result = result.and(self.detach(RequestId(id)));
            from = id + 1;
        }
    }

    /// A receive meets a message that came before it.
    pub(super) fn receive_unexpected(
        &mut self,
        number: u32,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        let Some(message) = self.messages.get(number).copied() else {
            return Ok(Received::Done(Err(Fault::Cancelled)));
        };
        if let Body::Here(payload) = message.body
            && message.arrived == message.total
        {
            return Ok(Received::Done(self.take_whole(number, &message, payload, buffer)));
        }
        let request = Request::Done(Err(Fault::Cancelled));
        let id = self.requests.insert(Entry { owner, request })?;
        if let Err(error) = self.give(number, id, buffer) {
            self.requests.remove(id);
            return Err(error.into());
        }
        Ok(Received::Pending(RequestId(id)))
    }

    /// A message that came before its receive goes to that, the request `id`. All or nothing.
    pub(super) fn give(
        &mut self,
        number: u32,
        id: u32,
        mut buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let Some(message) = self.messages.get(number).copied() else { return Ok(()) };
        let (Envelope { source, tag, .. }, total) = (message.envelope, message.total);
        let request = match message.body {
            Body::There(kept) => {
                self.ask_for(id, &message.envelope, kept, buffer)?;
                self.take_unexpected(number);
                return Ok(());
            }
            Body::Lost => {
                self.take_unexpected(number);
                let gone = self.peers[source as usize].gone;
                Request::Done(Err(gone.map_or(Fault::Cancelled, |gone| gone.fault(source))))
            }
            Body::Here(payload) if message.arrived == total => {
                Request::Done(self.take_whole(number, &message, payload, buffer))
            }
            // A device is writing it into the engine's memory.
            Body::Here(_) if self.holds_arriving(source) => {
                self.leave_matching(message.standing);
                if let Some(message) = self.messages.get_mut(number) {
                    message.standing = Standing::Met;
                }
                self.redirect(source, Target::Due { message: number, request: Some(id) });
                Request::Due { buffer, source }
            }
            Body::Here(payload) => {
                let capacity = buffer.remaining();
                self.take_payload(number, &message, payload, &mut buffer);
                self.redirect(source, Target::Request(id));
                Request::Receiving { buffer, capacity, source, tag, total }
            }
        };
        if let Some(entry) = self.request_mut(id) {
            *entry = request;
        }
        Ok(())
    }

    /// Receives a message all of which is here.
    fn take_whole(
        &mut self,
        number: u32,
        message: &Message,
        payload: Option<Owned>,
        mut buffer: Cursor,
    ) -> Outcome {
        let (Envelope { source, tag, .. }, capacity) = (message.envelope, buffer.remaining());
        self.take_payload(number, message, payload, &mut buffer);
        outcome(source, tag, message.total, capacity)
    }

    /// Forgets a message, and copies what is here of it to `buffer`.
    fn take_payload(
        &mut self,
        number: u32,
        message: &Message,
        payload: Option<Owned>,
        buffer: &mut Cursor,
    ) {
        self.take_unexpected(number);
        if let Some(owned) = payload {
            // SAFETY: the message's own memory holds `arrived` bytes and is no user buffer.
            unsafe { buffer.scatter(owned.base, message.arrived) };
            self.release(owned);
        }
    }

    /// Says where the rest of the message goes that `source` is in the middle of.
    fn redirect(&mut self, source: u32, target: Target) {
        if let Some(arriving) = &mut self.peers[source as usize].arriving {
            arriving.target = target;
        }
    }

    fn check(&self, pattern: &Pattern) -> Result<(), StartError> {
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

/// How a receive ends whose whole message is here.
pub(super) fn outcome(source: u32, tag: u32, message: usize, buffer: usize) -> Outcome {
    if message > buffer {
        Err(Fault::Truncated { source, tag, message, buffer })
    } else {
        Ok(Status { source, tag, bytes: message })
    }
}
