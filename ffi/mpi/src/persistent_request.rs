//! A persistent request: the arguments of its operation, and the operation while it is started.

use super::base::Base;
use super::comms::Comm;
use super::operation::{Finished, MessageArgs, NotStarted, SendForm, StartedOperation};
use super::request_view::RequestView;
use super::shared::Shared;
use crate::abi::{self, Handle};

/// The arguments of an operation that the program starts again and again.
pub(crate) struct Persistent {
    args: MessageArgs,
    /// `None`: a receive.
    mode: Option<SendForm>,
    comm: Shared<Comm>,
    state: PersistentState,
}

enum PersistentState {
    Inactive,
    /// Started with `PROC_NULL`, or sent at once.
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

    pub(crate) const fn new(args: MessageArgs, mode: Option<SendForm>, comm: Shared<Comm>) -> Self {
        Self { args, mode, comm, state: PersistentState::Inactive }
    }
}
