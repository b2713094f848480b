//! Tickets: names of requests that an embedder may keep for ever.
//!
//! A [`RequestId`] is only valid until its request ends, since a later request gets the same
//! number. A ticket has a generation as well, so that a stale one is recognised. The handles
//! of the C interface are built on tickets.

use super::request::RequestState;
use super::ticket::{LENT, Ticket, Ticketed};
use super::{Engine, Outcome, Owner, RequestId, Status};
use crate::memory::{Memory, OutOfMemory};

impl<M: Memory + Clone> Engine<M> {
    /// Returns the ticket of a request.
    #[inline]
    #[must_use]
    pub fn ticket(&self, id: RequestId) -> Ticket {
        let generation = self.requests.generation(id.0).map_or(0, |generation| generation & !LENT);
        Ticket { index: id.0, generation }
    }

    /// Keeps the outcome of an operation that is over, until [`Engine::test`] returns it.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    #[inline]
    pub fn keep_outcome(
        &mut self,
        outcome: Outcome,
        owner: Owner,
    ) -> Result<RequestId, OutOfMemory> {
        self.requests.insert(owner, RequestState::Done(outcome)).map(RequestId)
    }

    /// Keeps the status of an operation that is over, as [`Engine::keep_outcome`] does. Returns the
    /// ticket of its request; `None` without memory.
    #[inline(always)]
    pub fn keep_status(&mut self, status: Status, owner: Owner) -> Option<Ticket> {
        let generation = self.requests.next_generation();
        let index = self.requests.insert(owner, RequestState::Done(Ok(status))).ok()?;
        Some(Ticket { index, generation })
    }

    /// Returns the request of a ticket.
    #[inline]
    #[must_use]
    pub fn find_ticket(&self, Ticket { index, generation }: Ticket) -> Ticketed {
        match self.requests.generation(index) {
            Some(found) if found == generation => Ticketed::Request(RequestId(index)),
            Some(found) if found == generation | LENT => Ticketed::Lent,
            _ => Ticketed::Nothing,
        }
    }

    /// Ends a request that is over without a failure, and returns its status. Does nothing else.
    #[inline(always)]
    pub fn take_status(&mut self, Ticket { index, generation }: Ticket) -> Option<Status> {
        self.requests.take_status(index, generation)
    }

    /// Returns whether a request has failed, so that [`Engine::take_status`] will never end it.
    #[inline]
    #[must_use]
    pub fn has_failed(&self, Ticket { index, .. }: Ticket) -> bool {
        matches!(self.requests.get(index), Some(RequestState::Done(Err(_))))
    }

    /// Marks a request as in use, or not. Its ticket leads to [`Ticketed::Lent`] meanwhile.
    pub fn lend(&mut self, id: RequestId, lent: bool) {
        self.requests.lend(id.0, lent);
    }

    /// Returns whether a request is over or has ended.
    #[inline]
    #[must_use]
    pub fn is_over(&self, id: RequestId) -> bool {
        self.requests.is_over(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Requests;
    use super::*;
    use crate::engine::Fault;
    use crate::engine::testing::{OF_7, with_pair};
    use crate::memory::counted::Counted;

    const STATUS: Status = Status { source: 1, tag: 2, bytes: 3 };

    #[test]
    fn a_status_is_taken_once_and_only_by_its_own_generation() {
        let mut requests = Requests::new(Counted::default());
        let id = requests.insert(Owner(1), RequestState::Done(Ok(STATUS))).unwrap();
        let generation = requests.generation(id).unwrap();
        assert_eq!(requests.take_status(id, generation + 1), None);
        assert_eq!(requests.take_status(id, generation), Some(STATUS));
        assert_eq!(requests.take_status(id, generation), None);
        let next = requests.insert(Owner(1), RequestState::Done(Ok(STATUS))).unwrap();
        assert_eq!(next, id);
        assert_eq!(requests.take_status(next, generation), None);
    }

    #[test]
    fn a_request_in_use_and_a_failure_are_left_alone() {
        let mut requests = Requests::new(Counted::default());
        let id = requests.insert(Owner(1), RequestState::Done(Ok(STATUS))).unwrap();
        let generation = requests.generation(id).unwrap();
        requests.lend(id, true);
        assert_eq!(requests.take_status(id, generation), None);
        requests.lend(id, false);
        requests.finish(id, Err(Fault::Cancelled));
        assert_eq!(requests.take_status(id, generation), None);
        assert!(requests.is_over(id));
    }

    #[test]
    fn a_receive_that_was_cancelled_has_failed_until_its_outcome_is_taken() {
        with_pair(|mut pair| {
            let mut bytes = [0; 8];
            let (id, ticket) = pair.post(OF_7, &mut bytes);
            assert!(!pair.receiver.has_failed(ticket));
            assert!(pair.receiver.cancel(id) && pair.receiver.has_failed(ticket));
            assert_eq!(pair.receiver.take_status(ticket), None);
            assert_eq!(pair.receiver.test(id), Some(Err(Fault::Cancelled)));
            assert!(!pair.receiver.has_failed(ticket));
        });
    }
}
