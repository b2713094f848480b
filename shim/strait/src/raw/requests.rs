//! Requests of a world, by names that are checked at each use.

use strait_core::engine::{Outcome, Owner, RequestId, Status, Ticket, Ticketed};

use crate::{Error, World, sealed};

/// Requests of a [`World`], for interfaces that give their callers unchecked names.
pub trait RawRequests: sealed::Sealed {
    /// Returns the ticket of a request that a call on this world has returned.
    fn ticket(&self, request: RequestId) -> Ticket;

    /// Returns the request of a ticket.
    fn find_ticket(&self, ticket: Ticket) -> Ticketed;

    /// Ends a request that is over without a failure, and returns its status. Does nothing else.
    fn take_status(&self, ticket: Ticket) -> Option<Status>;

    /// Marks a request as in use, or not. Its ticket leads to [`Ticketed::Lent`] meanwhile.
    fn lend_request(&self, request: RequestId, lent: bool);

    /// Returns whether a request is over.
    fn is_request_over(&self, request: RequestId) -> bool;

    /// Keeps the outcome of an operation that is over, as a request.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    fn keep_outcome(&self, outcome: Outcome) -> Result<RequestId, Error>;

    /// Takes messages from lines until the request is over. Gives up after a while, and when
    /// anything else has to be done.
    fn wait_in_lines(&self, ticket: Ticket) -> Option<Status>;

    /// Ends the claims of all operations of this trait's and [`super::RawEndpoint`]'s that are not
    /// over, and forgets their requests.
    fn settle_requests(&self);
}

impl RawRequests for World {
    #[inline]
    fn ticket(&self, request: RequestId) -> Ticket {
        self.lock_progress().ticket(request)
    }

    #[inline]
    fn find_ticket(&self, ticket: Ticket) -> Ticketed {
        self.lock_progress().find_ticket(ticket)
    }

    #[inline(always)]
    fn take_status(&self, ticket: Ticket) -> Option<Status> {
        self.engine().take_status(ticket)
    }

    fn lend_request(&self, request: RequestId, lent: bool) {
        self.lock_progress().lend(request, lent);
    }

    #[inline]
    fn is_request_over(&self, request: RequestId) -> bool {
        self.lock_progress().is_over(request)
    }

    #[inline]
    fn keep_outcome(&self, outcome: Outcome) -> Result<RequestId, Error> {
        Ok(self.lock_progress().keep_outcome(outcome, Owner::UNSCOPED)?)
    }

    fn wait_in_lines(&self, ticket: Ticket) -> Option<Status> {
        self.serve_lines_until(|| self.engine().take_status(ticket))
    }

    fn settle_requests(&self) {
        self.settle_owned(Owner::UNSCOPED);
    }
}
