//! Receives that ask for their messages (`[SpecRndv09]` §3.1.2), by the promise of the message
//! before (`promises`).
//!
//! Strait's receive of the promised number is posted together with the user's. If the sender finds
//! its RTR, it moves the data at once, in any state of this process. The head of the message comes
//! as ever, and matches the user's receive. A head of another message ends Strait's receive: its
//! sender has broken the promise, and no message has the number.

use core::ffi::c_void;

use strait_core::engine::{Fault, RequestId};
use strait_core::matching::{ANY_SOURCE, MaskedEnvelope, MaskedPattern, Pattern};

use super::class::MessageClass;
use super::pending_receive::{AskedMessage, PendingReceive, Receipt};
use super::promises::ProviderEnvelope;
use super::queues::ClassQueues;
use super::{ASKS_FROM, OperationPurpose, Traffic};
use crate::buffer::UserBuffer;
use crate::cause::ErrorCause;
use crate::wire::NAMED;

impl Traffic {
    /// Returns whether a receive is of a kind that may ask.
    pub(super) fn may_ask(pattern: &MaskedPattern, receive: &PendingReceive) -> bool {
        let is_exact = pattern.source != ANY_SOURCE && pattern.ignore == 0;
        let one_part = receive.buffer.only_part().filter(|_| is_exact && receive.multi.is_none());
        one_part.is_some_and(|part| part.length() >= ASKS_FROM)
    }

    /// Takes the heads that have arrived from `source`: the message of a receive that is about to
    /// ask may be among them.
    pub(super) fn take_heads(&mut self, source: u32) {
        if self.draining.is_none() && self.port.has_next(source) {
            self.take_from(source);
        }
        self.drain();
    }

    /// Asks for the message of a receive that is about to be posted, if that can only be the next
    /// one of its envelope. No unexpected message matches it.
    pub(super) fn speculate(
        &mut self,
        lane: MessageClass,
        pattern: &MaskedPattern,
        mut receive: PendingReceive,
    ) -> PendingReceive {
        let MaskedPattern { source, tag, .. } = *pattern;
        let envelope = ProviderEnvelope { peer: source, lane, tag };
        let Some(number) = self.expected.next(envelope) else { return receive };
        if self.lanes[lane as usize].awaits(&MaskedEnvelope { source, tag }) {
            return receive;
        }
        let named = Pattern { context: NAMED, source, tag: number };
        // SAFETY: Strait's receive is part of the operation to which the buffer belongs, and ends
        // before it. The buffer is of one part, which needs no list.
        let asked = unsafe { self.port.ask(named, receive.buffer.cursor()) };
        // A source that is gone fails the user's receive as well, later.
        if let Ok(Some(id)) = asked {
            self.expected.asked(envelope);
            receive.asked = Some(AskedMessage { number, id, outcome: None });
        }
        receive
    }

    /// Completes a receive, now or later: its head has come, and its data go to its buffer already.
    pub(super) fn meet_asked(
        &mut self,
        AskedMessage { id, outcome, .. }: AskedMessage,
        receipt: Receipt,
        buffer: UserBuffer,
    ) {
        self.forget_cancel(id);
        match outcome {
            Some(outcome) => self.received(receipt, outcome.err().map(ErrorCause::from)),
            None => self.pending.push((id, OperationPurpose::Receive(receipt, buffer))),
        }
    }

    /// Ends what a receive has asked for: another message has met it, or none will.
    pub(super) fn dismiss(&mut self, asked: Option<AskedMessage>) {
        let Some(AskedMessage { id, outcome: None, .. }) = asked else { return };
        self.forget_cancel(id);
        self.port.dismiss(id);
    }

    /// Ends what all receives have asked for, before the process leaves.
    pub(super) fn dismiss_all(&mut self) {
        let Self { lanes, port, .. } = self;
        for (_, asked) in lanes.iter_mut().flat_map(ClassQueues::asked) {
            if asked.outcome.is_none() {
                port.dismiss(asked.id);
            }
        }
    }

    fn forget_cancel(&mut self, id: RequestId) {
        self.cancels.retain(|(_, other)| *other != id);
    }

    /// Cancels the receive of `context`, if it has asked for its message. A sender on another node
    /// answers first. Returns whether there is such a receive.
    pub(super) fn cancel_asked(&mut self, lane: MessageClass, context: *mut c_void) -> bool {
        let is_it = |(its, asked): &(*mut c_void, &mut AskedMessage)| {
            *its == context && asked.outcome.is_none()
        };
        let found = self.lanes[lane as usize].asked().find(is_it);
        let Some(id) = found.map(|(_, asked)| asked.id) else { return false };
        self.port.cancel(id);
        if !self.cancels.contains(&(lane, id)) {
            self.cancels.push((lane, id));
        }
        self.finish_cancels();
        true
    }

    /// Completes the receives that are now known to be cancelled. A message that came first goes
    /// on to its receive.
    pub(super) fn finish_cancels(&mut self) {
        let mut place = 0;
        while let Some(&(lane, id)) = self.cancels.get(place) {
            let Some(outcome) = self.port.test(id) else {
                place += 1;
                continue;
            };
            self.cancels.remove(place);
            let queues = &mut self.lanes[lane as usize];
            let found = queues.asked().find(|(_, asked)| asked.id == id);
            let Some((context, asked)) = found else { continue };
            let is_cancelled = outcome == Err(Fault::Cancelled);
            asked.outcome = Some(outcome);
            if is_cancelled && let Some((_, receive)) = queues.withdraw(|_, its| its == context) {
                self.give_up(lane, &receive, ErrorCause::Fault(Fault::Cancelled));
            }
        }
    }
}
