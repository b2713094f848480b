//! Messages that a probe has matched, and that the program has not received.

use core::cell::RefCell;

use strait::raw::Matched;

use super::comms::Comm;
use super::shared::Shared;
use crate::abi::{self, Handle};

/// A matched message, and the communicator of its probe.
pub(crate) type ProbedMessage = (Matched, Shared<Comm>);

/// The matched messages that the program has, by slot. A handle is made as that of a request.
#[derive(Default)]
pub(crate) struct MessageTable {
    messages: RefCell<Vec<Option<ProbedMessage>>>,
}

impl MessageTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.borrow().iter().all(Option::is_none)
    }

    pub(crate) fn add(&self, message: ProbedMessage) -> Handle {
        let mut messages = self.messages.borrow_mut();
        let free = messages.iter().position(Option::is_none);
        let slot = free.unwrap_or(messages.len());
        if free.is_none() {
            messages.push(None);
            abi::prepare_handle(slot as u32);
        }
        messages[slot] = Some(message);
        abi::request_handle(slot as u32)
    }

    pub(crate) fn take(&self, slot: u32) -> Option<ProbedMessage> {
        self.messages.borrow_mut().get_mut(slot as usize)?.take()
    }
}
