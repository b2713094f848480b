//! The order in which completions are reported for messages in buffers that receive many messages.
//!
//! The data of a message may travel separately, and arrive after a whole message that was sent
//! later. Still, the entries of one source are reported in the order in which it sent the messages.
//!
//! MPICH 5 needs this order. It puts an active message that overtakes another aside without the
//! descriptor behind its header, and later reads remote memory at an invalid address.
//!
//! Receives for one message are not ordered: a short message does not wait for the data of a long
//! one.

use std::collections::VecDeque;

use super::pending_receive::Receipt;
use crate::cause::ErrorCause;

/// Messages with data in transit, and the later messages. It is nearly always empty.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    queue: VecDeque<MatchedArrival>,
    tickets: u64,
}

/// A matched message.
#[derive(Debug)]
struct MatchedArrival {
    source: u32,
    ticket: Option<u64>,
    ended: Option<EndedArrival>,
}

/// A message that has arrived or failed.
type EndedArrival = (Receipt, Option<ErrorCause>);

impl Arrivals {
    /// Records a message of `source` with data in transit. Returns the ticket with which it
    /// [ends](Arrivals::end).
    pub(super) fn expect(&mut self, source: u32) -> u64 {
        self.tickets += 1;
        let ticket = Some(self.tickets);
        self.queue.push_back(MatchedArrival { source, ticket, ended: None });
        self.tickets
    }

    /// Returns whether no message is in transit, so that none has to wait.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Records the end of a message: the message with this ticket, or a whole message that came
    /// after all others.
    pub(super) fn end(&mut self, source: u32, ticket: Option<u64>, ended: EndedArrival) {
        let expected = self.queue.iter_mut().find(|it| ticket.is_some() && it.ticket == ticket);
        match expected {
            Some(arrival) => arrival.ended = Some(ended),
            None => {
                self.queue.push_back(MatchedArrival { source, ticket: None, ended: Some(ended) });
            }
        }
    }

    /// Takes the oldest message of `source`, if it has ended.
    pub(super) fn next(&mut self, source: u32) -> Option<EndedArrival> {
        let oldest = self.queue.iter().position(|arrival| arrival.source == source)?;
        self.queue[oldest].ended.as_ref()?;
        self.queue.remove(oldest)?.ended
    }
}
