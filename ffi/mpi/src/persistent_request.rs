//! A persistent request: the arguments of its operation, and the operation while it is started.

use strait::Status;
use strait::raw::{Part, ReceivedShort, RequestId, Unscoped};

use super::base::Base;
use super::comms::Comm;
use super::operation::{
    Finished, MessageArgs, NotStarted, SendForm, StartedOperation, source, wanted_tag,
};
use super::pack::MessageMemory;
use super::request_view::RequestView;
use super::shared::Shared;
use super::short_messages::{begin_short, send_bytes};
use crate::abi::{self, Handle};

/// The arguments of an operation that the program starts again and again.
pub(crate) struct Persistent {
    args: MessageArgs,
    /// `None`: a receive.
    mode: Option<SendForm>,
    comm: Shared<Comm>,
    /// The bytes of the message, if they lie in one piece.
    whole: Option<Part>,
    state: PersistentState,
}

enum PersistentState {
    Inactive,
    /// Started with `PROC_NULL`, or over when it began.
    Done(Finished),
    Active(StartedOperation),
}

impl Persistent {
    pub(crate) const fn is_active(&self) -> bool {
        !matches!(self.state, PersistentState::Inactive)
    }

    pub(crate) fn comm_handle(&self) -> Handle {
        self.comm.handle
    }

    pub(crate) const fn is_send(&self) -> bool {
        self.mode.is_some()
    }

    /// Returns the operation that goes on, if there is one.
    pub(crate) const fn active(&mut self) -> Option<&mut StartedOperation> {
        match &mut self.state {
            PersistentState::Active(operation) => Some(operation),
            _ => None,
        }
    }

    /// Returns the operation of a request that is freed, if it goes on.
    pub(crate) fn into_active(self) -> Option<StartedOperation> {
        match self.state {
            PersistentState::Active(operation) => Some(operation),
            _ => None,
        }
    }

    pub(crate) fn view(&mut self, base: &Base) -> RequestView {
        match &mut self.state {
            PersistentState::Inactive => RequestView::Inactive,
            PersistentState::Done(_) => RequestView::Over,
            PersistentState::Active(operation) => RequestView::of(operation.look(base)),
        }
    }

    pub(crate) fn report(&mut self) -> Finished {
        match &mut self.state {
            PersistentState::Inactive => Finished::EMPTY,
            PersistentState::Done(finished) => core::mem::replace(finished, Finished::EMPTY),
            PersistentState::Active(operation) => operation.finish(),
        }
    }

    /// Makes the request inactive. Returns whether it was active.
    pub(crate) fn end(&mut self) -> bool {
        let was_active = self.is_active();
        self.state = PersistentState::Inactive;
        was_active
    }

    /// Returns the request of an operation that goes on.
    pub(crate) fn request(&self) -> Option<RequestId> {
        match &self.state {
            PersistentState::Active(operation) => operation.unscoped.request(),
            _ => None,
        }
    }

    /// Starts the operation, if it takes a short path. Calls need no lock. Returns whether it
    /// started.
    ///
    /// # Safety
    ///
    /// The contract of [`Persistent::start`] holds.
    #[inline]
    pub(crate) unsafe fn start_short(&mut self, base: &Base) -> bool {
        let Some(part) = self.whole.filter(|_| !self.is_active()) else { return false };
        let endpoint = self.comm.endpoint(&base.world);
        let (peer, tag) = (self.args.peer, self.args.tag);
        self.state = match self.mode {
            Some(SendForm::Standard) => {
                let Some(peer) = self.comm.in_world(peer) else { return false };
                // SAFETY: the caller guarantees that the elements are valid (contract of
                // `start_short`).
                let data = unsafe { core::slice::from_raw_parts(part.base.as_ptr(), part.length) };
                if !send_bytes(endpoint, data, (peer, tag as u32), false) {
                    return false;
                }
                PersistentState::Done(Finished::EMPTY)
            }
            None => {
                let Some((peer, tag)) = source(&self.comm, peer).zip(wanted_tag(tag)) else {
                    return false;
                };
                // SAFETY: as above.
                match unsafe { begin_short(endpoint, part, peer, tag) } {
                    ReceivedShort::Declined => return false,
                    ReceivedShort::Done(status) => {
                        PersistentState::Done(Finished::received(&self.comm, status))
                    }
                    ReceivedShort::Pending(id, _) => {
                        let unscoped = Unscoped::of_request(&base.world, id);
                        let (memory, comm) =
                            (MessageMemory::Whole(part), Shared::clone(&self.comm));
                        PersistentState::Active(StartedOperation::new(
                            unscoped, memory, comm, false,
                        ))
                    }
                }
            }
            Some(_) => return false,
        };
        true
    }

    /// Makes the request inactive and returns what its operation reports, if that is over, or
    /// `find` returns its status. Calls need no lock.
    #[inline]
    pub(crate) fn end_by(
        &mut self,
        find: impl FnOnce(RequestId) -> Option<Status>,
    ) -> Option<Finished> {
        let finished = match &mut self.state {
            PersistentState::Inactive => return None,
            PersistentState::Done(finished) => core::mem::replace(finished, Finished::EMPTY),
            PersistentState::Active(operation) => {
                let is_in_place = operation.is_send || !operation.is_packed();
                let status = find(operation.unscoped.request().filter(|_| is_in_place)?)?;
                match operation.is_send {
                    true => Finished::EMPTY,
                    false => Finished::received(&self.comm, status),
                }
            }
        };
        self.state = PersistentState::Inactive;
        Some(finished)
    }

    /// Starts the operation. Returns it if it goes on and this request is over.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`StartedOperation::send`] or of
    /// [`StartedOperation::recv`].
    pub(crate) unsafe fn start(
        &mut self,
        base: &Base,
    ) -> Result<Option<StartedOperation>, NotStarted> {
        if self.args.peer == abi::PROC_NULL {
            let finished = if self.is_send() { Finished::EMPTY } else { Finished::FROM_NONE };
            self.state = PersistentState::Done(finished);
            return Ok(None);
        }
        // SAFETY: the caller guarantees the same (contract of `start`).
        let operation = unsafe {
            match self.mode {
                Some(mode) => StartedOperation::send(base, &self.comm, mode, &self.args),
                None => StartedOperation::recv(base, &self.comm, &self.args),
            }
        }?;
        if self.mode == Some(SendForm::Buffered) {
            // The copy is sent, whatever the program waits for.
            self.state = PersistentState::Done(Finished::EMPTY);
            return Ok(Some(operation));
        }
        self.state = PersistentState::Active(operation);
        Ok(None)
    }

    pub(crate) fn new(args: MessageArgs, mode: Option<SendForm>, comm: Shared<Comm>) -> Self {
        let whole = args.elements.held_whole();
        Self { args, mode, comm, whole, state: PersistentState::Inactive }
    }
}
