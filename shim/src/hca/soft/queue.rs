//! Send queues and the completion queue: what may be carried out next, and what is reported when.
//!
//! All of it is decided here, without a system call; time is an argument. Two drivers carry out what is due: the poster
//! itself, or the device thread.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use strait_core::hca::{Completion, Connection, WorkError};

use super::block::EndId;
use super::reach::{Far, Tried};
use super::time::{Pace, TimeModel};
use super::work::Work;

/// Requests that are posted and not reported, per connection.
pub(super) const DEPTH: u32 = 256;

/// Reads and atomics under way on one connection.
pub(super) const READS: u32 = 16;

/// Time before the second try to send to a peer that has no receive posted. It doubles with each try.
const NOT_READY_PAUSE: Duration = Duration::from_millis(1);

/// Tries before the device gives up: after 255 ms, or later if nobody polls meanwhile, since time alone decides nothing.
const NOT_READY_TRIES: u32 = 9;

/// What moves more bytes than this is long.
const LONG: u64 = 16 << 10;

/// All queues of one device.
#[derive(Debug)]
pub(super) struct Queues {
    links: Vec<Option<Link>>,
    completions: VecDeque<Reported>,
    /// Requests that are not carried out yet, over all connections.
    waiting: usize,
    model: TimeModel,
    pace: Pace,
    /// When the wire on which bytes leave is free again, and the one on which they come.
    wires_free: [Option<Instant>; 2],
}

/// This side's end of a connection, privately.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) end: EndId,
    pub(super) far: Option<Far>,
    broken: bool,
    /// In the order of posting, from the oldest that is not reported.
    works: VecDeque<Posted>,
    /// The number of the oldest of `works`.
    first: u64,
    /// When the last of its bytes leave that are to be written.
    written: Option<Instant>,
    /// Posted, and not yet known by the embedder to be done.
    outstanding: u32,
    /// Done without a report since the last report.
    unreported: u32,
}

#[derive(Debug)]
struct Posted {
    work: Work,
    state: State,
    tries: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Behind a fence, or more reads than the device has under way.
    Waiting,
    /// On its way.
    Started {
        /// When its bytes begin to move, so that all are there in time.
        begins: Instant,
        /// When it takes effect.
        due: Instant,
    },
    Ended(Result<(), WorkError>),
}

#[derive(Debug)]
struct Reported {
    completion: Completion,
    /// The connection that it frees room on, and how much.
    frees: Option<(EndId, u32)>,
}

/// A request to carry out now.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) near: EndId,
    pub(super) far: Far,
    pub(super) work: Work,
    /// When it takes effect.
    pub(super) due: Instant,
    number: u64,
}

/// Who asks what to carry out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hand {
    /// The device, which has nothing else to do.
    Device,
    /// The owner, when it polls. It has better things to do than to copy for long, so it takes what is long only when
    /// that is late: the thread has no processor.
    Owner,
}

/// What is next.
#[derive(Debug)]
pub(super) enum Next {
    /// This.
    Now(Box<Due>),
    /// Nothing before then.
    At(Instant),
    /// Nothing at all.
    Nothing,
}

impl Link {
    fn new(end: EndId) -> Self {
        Self {
            end,
            far: None,
            broken: false,
            works: VecDeque::new(),
            first: 0,
            written: None,
            outstanding: 0,
            unreported: 0,
        }
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) const fn is_full(&self) -> bool {
        self.outstanding >= DEPTH
    }

    /// The request to carry out next, and when: the one that begins first of those that may. A read or an atomic is
    /// overtaken by later writes and sends; nothing else is.
    fn next(&self, hand: Hand) -> Option<(usize, Instant)> {
        let mut earliest: Option<(usize, Instant)> = None;
        for (at, posted) in self.works.iter().enumerate() {
            match posted.state {
                State::Ended(Ok(())) => {}
                State::Ended(Err(_)) | State::Waiting => break,
                State::Started { begins, due } => {
                    let is_long = posted.work.length > LONG;
                    let when = if is_long && hand == Hand::Owner { due } else { begins };
                    let overtakes = !posted.work.verb.fetches();
                    match earliest {
                        Some((_, before)) if !overtakes || before <= when => {}
                        _ => earliest = Some((at, when)),
                    }
                    if overtakes {
                        break;
                    }
                }
            }
        }
        earliest
    }
}

impl Queues {
    pub(super) fn new(model: TimeModel) -> Self {
        Self {
            links: Vec::new(),
            completions: VecDeque::new(),
            waiting: 0,
            model,
            pace: Pace::UNKNOWN,
            wires_free: [None; 2],
        }
    }

    /// True while there is something to carry out.
    pub(super) const fn is_busy(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn open(&mut self, end: EndId) {
        let at = end.index as usize;
        if self.links.len() <= at {
            self.links.resize_with(at + 1, || None);
        }
        self.links[at] = Some(Link::new(end));
    }

    pub(super) fn link(&mut self, connection: Connection) -> Option<&mut Link> {
        self.links.get_mut(connection.0 as usize)?.as_mut()
    }

    /// Takes a connection down, with all that is under way on it.
    pub(super) fn close(&mut self, connection: Connection) -> Option<EndId> {
        let link = self.links.get_mut(connection.0 as usize)?.take()?;
        let undone = |posted: &&Posted| !matches!(posted.state, State::Ended(_));
        self.waiting -= link.works.iter().filter(undone).count();
        Some(link.end)
    }

    /// Puts a request behind those of its connection, which has room.
    pub(super) fn post(&mut self, connection: Connection, work: Work, now: Instant) {
        let Some(link) = self.link(connection) else { return };
        link.outstanding += 1;
        link.works.push_back(Posted { work, state: State::Waiting, tries: 0 });
        self.waiting += 1;
        self.start(connection.0 as usize, now);
    }

    /// Starts what may start on a connection.
    fn start(&mut self, at: usize, now: Instant) {
        let Some(link) = self.links[at].as_mut() else { return };
        let mut fetching = 0;
        for posted in &mut link.works {
            match posted.state {
                State::Ended(Err(_)) => break,
                State::Ended(Ok(())) => {}
                State::Started { .. } => fetching += u32::from(posted.work.verb.fetches()),
                State::Waiting => {
                    let fetches = posted.work.verb.fetches();
                    if (posted.work.fenced && fetching > 0) || (fetches && fetching >= READS) {
                        break;
                    }
                    fetching += u32::from(fetches);
                    let wire_free = &mut self.wires_free[usize::from(fetches)];
                    // What is read is what was written before.
                    let before = if fetches { link.written } else { None };
                    let on_wire = now.max(wire_free.unwrap_or(now)).max(before.unwrap_or(now));
                    let off_wire = on_wire + self.model.on_wire(posted.work.length);
                    *wire_free = Some(off_wire);
                    if !fetches {
                        link.written = Some(off_wire);
                    }
                    let due = off_wire + self.model.latency(fetches);
                    let takes = self.pace.of(posted.work.length);
                    let begins = due.checked_sub(takes).map_or(now, |begins| begins.max(now));
                    posted.state = State::Started { begins, due };
                }
            }
        }
    }

    /// What is to be carried out next by this hand.
    pub(super) fn next(&self, hand: Hand, now: Instant) -> Next {
        if self.waiting == 0 {
            return Next::Nothing;
        }
        let links = self.links.iter().flatten();
        let all = links.filter_map(|link| link.next(hand).map(|(at, when)| (when, link, at)));
        match all.min_by_key(|(when, ..)| *when) {
            None => Next::Nothing,
            Some((when, ..)) if when > now => Next::At(when),
            Some((_, link, at)) => match link.far {
                None => Next::Nothing,
                Some(far) => {
                    let Posted { work, state, .. } = &link.works[at];
                    let State::Started { due, .. } = *state else { return Next::Nothing };
                    let (near, work, number) = (link.end, work.clone(), link.first + at as u64);
                    Next::Now(Box::new(Due { near, far, work, due, number }))
                }
            },
        }
    }

    /// Notes what came of a request that was carried out in so much time, and reports what can be. Returns the connection's
    /// ends when it broke.
    pub(super) fn tried(
        &mut self,
        due: &Due,
        tried: Tried,
        took: Duration,
        now: Instant,
    ) -> Option<(EndId, Far)> {
        if tried == Tried::Ended(Ok(())) {
            self.pace.learn(due.work.length, took);
        }
        let at = due.near.index as usize;
        let link = self.links.get_mut(at)?.as_mut().filter(|link| link.end == due.near)?;
        let posted =
            link.works.get_mut(usize::try_from(due.number.checked_sub(link.first)?).ok()?)?;
        let outcome = match tried {
            Tried::Ended(outcome) => outcome,
            Tried::NotReady if posted.tries + 1 == NOT_READY_TRIES => Err(WorkError::NotReady),
            Tried::NotReady => {
                let again = now + NOT_READY_PAUSE * (1 << posted.tries);
                posted.state = State::Started { begins: again, due: again };
                posted.tries += 1;
                return None;
            }
        };
        posted.state = State::Ended(outcome);
        self.waiting -= 1;
        let broke = self.report(at);
        self.start(at, now);
        broke
    }

    /// Reports the oldest requests of a connection as far as they have ended, and flushes it after a failure.
    fn report(&mut self, at: usize) -> Option<(EndId, Far)> {
        let link = self.links[at].as_mut()?;
        while let Some(Posted { state: State::Ended(outcome), .. }) = link.works.front() {
            let outcome = *outcome;
            let Posted { work, .. } = link.works.pop_front()?;
            link.first += 1;
            link.unreported += 1;
            if work.signaled || outcome.is_err() {
                let frees = core::mem::take(&mut link.unreported);
                let result = outcome.map(|()| work.verb.done());
                let completion =
                    Completion { id: work.id, connection: Connection(link.end.index), result };
                self.completions.push_back(Reported { completion, frees: Some((link.end, frees)) });
            }
            if outcome.is_err() {
                return self.flush(at);
            }
        }
        None
    }

    /// Ends all that is left of a broken connection.
    fn flush(&mut self, at: usize) -> Option<(EndId, Far)> {
        let link = self.links[at].as_mut()?;
        link.broken = true;
        for posted in link.works.drain(..) {
            link.first += 1;
            if !matches!(posted.state, State::Ended(_)) {
                self.waiting -= 1;
            }
            let completion = Completion {
                id: posted.work.id,
                connection: Connection(link.end.index),
                result: Err(WorkError::Flushed),
            };
            self.completions.push_back(Reported { completion, frees: Some((link.end, 1)) });
        }
        Some((link.end, link.far?))
    }

    /// Reports a receive.
    pub(super) fn arrive(&mut self, completion: Completion) {
        self.completions.push_back(Reported { completion, frees: None });
    }

    /// True when something is reported and not yet taken.
    pub(super) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Takes completions, as many as there are and `into` has room for.
    pub(super) fn take(&mut self, into: &mut [Completion]) -> usize {
        let count = into.len().min(self.completions.len());
        for (slot, reported) in into.iter_mut().zip(self.completions.drain(..count)) {
            *slot = reported.completion;
            if let Some((end, count)) = reported.frees
                && let Some(Some(link)) = self.links.get_mut(end.index as usize)
                && link.end == end
            {
                link.outstanding -= count;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests;
