//! The order in which messages in buffers for many are told.
//!
//! The data of a message may travel on their own, and be here later than a whole message that was sent after it. The entries of
//! one source are told in the order in which its messages were sent nevertheless: MPICH 5 puts an active message that overtakes
//! another aside without the descriptor behind its header, and later reads remote memory at an address that is garbage.
//!
//! Receives for one message are not ordered: a short message does not wait for the data of a long one.

use std::collections::VecDeque;

use strait_core::progress::Fault;

use super::receive::Receipt;

/// Messages whose data are on their way, and the messages behind them. Nearly always empty.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    queue: VecDeque<Arrival>,
    tickets: u64,
}

/// A message that has met its receive.
#[derive(Debug)]
struct Arrival {
    source: u32,
    ticket: Option<u64>,
    ended: Option<Ended>,
}

/// A message that is here, or that failed.
type Ended = (Receipt, Option<Fault>);

impl Arrivals {
    /// Notes a message of `source` whose data are on their way. Returns the ticket by which it [ends](Arrivals::end).
    pub(super) fn expect(&mut self, source: u32) -> u64 {
        self.tickets += 1;
        let ticket = Some(self.tickets);
        self.queue.push_back(Arrival { source, ticket, ended: None });
        self.tickets
    }

    /// Whether no message is on its way, so that none has to wait.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Notes that a message is over: the one with this ticket, or one that came whole behind all others.
    pub(super) fn end(&mut self, source: u32, ticket: Option<u64>, ended: Ended) {
        let expected = self.queue.iter_mut().find(|it| ticket.is_some() && it.ticket == ticket);
        match expected {
            Some(arrival) => arrival.ended = Some(ended),
            None => self.queue.push_back(Arrival { source, ticket: None, ended: Some(ended) }),
        }
    }

    /// Takes the oldest message of `source`, if it is over.
    pub(super) fn next(&mut self, source: u32) -> Option<Ended> {
        let oldest = self.queue.iter().position(|arrival| arrival.source == source)?;
        self.queue[oldest].ended.as_ref()?;
        self.queue.remove(oldest)?.ended
    }
}
