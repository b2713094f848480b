//! Requests of a world, by names that are checked at each use.

use strait_core::engine::{Bypass, Outcome, Owner, RequestId, Status, Ticket, Ticketed};

use crate::{Error, World, sealed};

/// Requests of a [`World`], for interfaces that give their callers unchecked names.
pub trait RawRequests: sealed::Sealed {
    /// Returns the ticket of a request that a call on this world has returned.
    fn ticket(&self, request: RequestId) -> Ticket;

    /// Returns the request of a ticket.
    fn find_ticket(&self, ticket: Ticket) -> Ticketed;

    /// Ends a request and returns its status, if it is over without a failure or its message lies
    /// in the next line. Does nothing else.
    fn take_status(&self, ticket: Ticket) -> Option<Status>;

    /// Ends a receive and returns its status, if it is the oldest one and its message lies in the
    /// next line. Does nothing else. [`Bypass::Nothing`]: it is the oldest one, and nothing has
    /// come from its source by lines.
    fn take_line(&self, ticket: Ticket) -> Bypass;

    /// Keeps the status of a receive that [`super::RawEndpoint::begin_recv_short`] has done, as a
    /// request. Returns `None` without memory.
    fn keep_status(&self, status: Status) -> Option<Ticket>;

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

    /// Takes messages from lines until `look`, which is called after each, returns true. Gives up
    /// after a while, and when anything else has to be done.
    fn serve_until(&self, look: impl Fn() -> bool);

    /// Ends a request and returns its status as [`RawRequests::take_status`] does, or else waits
    /// for it as [`RawRequests::wait_in_lines`] does.
    fn wait_for_lines(&self, request: RequestId) -> Option<Status>;

    /// Ends a request and returns its status as [`RawRequests::take_status`] does.
    fn test_in_lines(&self, request: RequestId) -> Option<Status>;

    /// Takes messages from lines, and returns whether there were any. `None` if there is more to
    /// do, which [`crate::Endpoint::progress`] does.
    fn progress_in_lines(&self) -> Option<bool>;

    /// Returns whether no line has come and [`RawRequests::progress_in_lines`] has nothing to do.
    /// Takes nothing.
    fn is_quiet(&self) -> bool;

    /// Returns whether a message waits that no receive has taken. Makes no progress and takes no
    /// lock. Returns false where there is a progress thread.
    fn has_unexpected(&self) -> bool;

    /// Returns whether an operation goes on. Makes no progress and takes no lock. Returns false
    /// where there is a progress thread.
    fn goes_on(&self, request: RequestId) -> bool;

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
        World::take_status(self, ticket)
    }

    #[inline(always)]
    fn take_line(&self, ticket: Ticket) -> Bypass {
        self.engine().take_first_short(ticket)
    }

    #[inline(always)]
    fn keep_status(&self, status: Status) -> Option<Ticket> {
        self.engine().keep_status(status, Owner::UNSCOPED)
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

    #[inline(always)]
    fn wait_in_lines(&self, ticket: Ticket) -> Option<Status> {
        World::wait_in_lines(self, ticket)
    }

    fn serve_until(&self, look: impl Fn() -> bool) {
        World::serve_lines_until(self, || false, || look().then_some(()));
    }

    #[inline]
    fn wait_for_lines(&self, request: RequestId) -> Option<Status> {
        World::wait_for_lines(self, request)
    }

    #[inline]
    fn test_in_lines(&self, request: RequestId) -> Option<Status> {
        World::take_status(self, self.engine().ticket(request))
    }

    #[inline]
    fn progress_in_lines(&self) -> Option<bool> {
        self.has_only_lines().then(|| self.engine().serve_lines())
    }

    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.has_only_lines() && self.engine().finds_no_lines()
    }

    #[inline(always)]
    fn has_unexpected(&self) -> bool {
        self.engine().has_unexpected()
    }

    #[inline(always)]
    fn goes_on(&self, request: RequestId) -> bool {
        !self.engine().is_over(request)
    }

    fn settle_requests(&self) {
        self.settle_owned(Owner::UNSCOPED);
    }
}
