//! Waits for requests by looks at lines alone, which are shorter than rounds of progress.

use strait_core::engine::{Bypass, RequestId, Status, Ticket};
use strait_core::matching::ANY_SOURCE;
use strait_core::sync::{finish_look, spin_hint};
use strait_platform::Rank;
use strait_platform::backoff::{POLLS_PER_PROGRESS, POLLS_PER_QUEUE};

use super::World;

impl World {
    /// Returns whether a message that comes next lies in lines, and nothing but lines has to be
    /// looked at.
    #[inline(always)]
    pub(crate) fn has_only_lines(&self) -> bool {
        let engine = &self.engine;
        !(engine.has_thread()
            || engine.is_transferring()
            || self.needs_rounds()
            || engine.has_work_outside_lines())
    }

    /// Takes messages from lines until `look` returns a value, which has just returned none. That
    /// is shorter than a round of progress, so the wait sees an arrival sooner. Gives up after a
    /// while, and when anything else has to be done. While `look_suffices`, `look` itself takes the
    /// message that is awaited, and the others are taken now and then.
    #[inline]
    pub(crate) fn serve_lines_until<T>(
        &self,
        look_suffices: impl Fn() -> bool,
        look: impl Fn() -> Option<T>,
    ) -> Option<T> {
        let engine = &self.engine;
        if engine.has_thread() || engine.is_transferring() || self.needs_rounds() {
            return None;
        }
        for poll in 0..self.spin.polls() {
            // In a window of receives, a look after a rest finds more of the messages.
            if engine.awaits_several() {
                spin_hint();
            }
            // Each look at a line without a message takes it from the peer that is to write it.
            let is_due = (poll % POLLS_PER_QUEUE != 0 && look_suffices())
                || engine.serve_lines()
                || (poll == 0 && !look_suffices());
            if is_due && let Some(found) = look() {
                return Some(found);
            }
            if poll % POLLS_PER_QUEUE != 0 {
                finish_look();
            } else if engine.has_queued() {
                return None;
            } else if poll % POLLS_PER_PROGRESS != 0 {
                finish_look();
            } else if engine.has_work_outside_lines() {
                return None;
            } else {
                spin_hint();
            }
        }
        self.look_between_yields(|| {
            engine.serve_lines();
            look()
        })
    }

    /// Looks after each of a few yields until `look` returns a value, where ranks take turns on
    /// processors and nothing else has to be done.
    #[inline]
    pub(crate) fn look_between_yields<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        for yields in 0.. {
            if !self.yield_in_lines(yields, ANY_SOURCE) {
                return None;
            }
            if let found @ Some(_) = look() {
                return found;
            }
        }
        None
    }

    /// Yields once in a wait that looks at the lines of `source` alone, after `yields` others. With
    /// more ranks than processors, the message has mostly come by then, and a look takes it with
    /// fewer steps than a round of progress. Returns false when the wait has to go on in another
    /// way.
    #[cold]
    #[inline(never)]
    pub(crate) fn yield_in_lines(&self, yields: u32, source: Rank) -> bool {
        let engine = &self.engine;
        let is_busy = engine.has_work_outside_lines()
            || (self.needs_rounds() && engine.has_unexpected())
            || (source != ANY_SOURCE && engine.others_have_lines(source));
        !is_busy && self.spin.yield_in_lines(yields)
    }

    /// Ends a request and returns its status, if it is over without a failure or its message lies
    /// in the next line. Does nothing else.
    #[inline(always)]
    pub(crate) fn take_status(&self, ticket: Ticket) -> Option<Status> {
        let engine = &self.engine;
        engine.take_first(ticket).or_else(|| engine.take_status(ticket))
    }

    /// Takes messages from lines until the request is over. Gives up after a while, and when
    /// anything else has to be done.
    pub(crate) fn wait_in_lines(&self, ticket: Ticket) -> Option<Status> {
        let engine = &self.engine;
        let look = || match self.take_status(ticket) {
            Some(status) => Some(Some(status)),
            // The wait for a receive that is the first in the queue looks most often.
            None => (!engine.is_first(ticket) && engine.has_failed(ticket)).then_some(None),
        };
        self.serve_lines_until(|| engine.is_first(ticket), look)
            .flatten()
            .or_else(|| self.wait_for_answer(ticket))
    }

    /// Looks for the answer to a synchronous message until the send is over. Gives up after a
    /// while, when a message has come, and for every other operation.
    #[cold]
    #[inline(never)]
    fn wait_for_answer(&self, ticket: Ticket) -> Option<Status> {
        let engine = &self.engine;
        let unanswered = engine.unanswered(ticket)?;
        for poll in 0..self.spin.polls() {
            if engine.is_answered(unanswered) {
                engine.end_answered(unanswered);
                return engine.take_status(ticket);
            }
            if poll % POLLS_PER_QUEUE != 0 {
                finish_look();
            } else if engine.has_queued() || !engine.finds_no_lines() || engine.is_transferring() {
                return None;
            } else {
                spin_hint();
            }
        }
        None
    }

    /// Waits for an operation by [`World::serve_lines_until`], and ends it if it is over without a
    /// failure. Returns its status then.
    pub(crate) fn wait_for_lines(&self, id: RequestId) -> Option<Status> {
        let ticket = self.engine.ticket(id);
        match self.engine.take_first_short(ticket) {
            Bypass::Received(status) => Some(status),
            Bypass::Nothing => self.wait_in_lines(ticket),
            Bypass::Closed => self.take_status(ticket).or_else(|| self.wait_in_lines(ticket)),
        }
    }
}
