//! Send queues and the completion queue: they decide which request may be carried out next, and
//! when each is reported.
//!
//! The decisions need no system call, and time is an argument. Two executors carry out due
//! requests: the posting thread, or the device thread.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use strait_core::hca::{Completion, Connection, WorkError};
use strait_platform::backoff::{DEVICE_RETRIES, DEVICE_RETRY_MIN};

use super::block::{BlockEnd, EndId};
use super::time::{Pace, TimeModel};
use super::work::{SoftWork, Tried};

/// Number of requests that are posted and not reported, per connection.
pub(super) const DEPTH: u32 = 256;

/// Number of reads and atomics in flight on one connection.
pub(super) const READS: u32 = 16;

/// Bytes above which a request counts as long.
const LONG: u64 = 16 << 10;

/// All queues of one device.
#[derive(Debug)]
pub(super) struct Queues {
    links: Vec<Option<SoftConnection>>,
    completions: VecDeque<Reported>,
    /// Number of requests that are not carried out yet, over all connections.
    waiting: usize,
    model: TimeModel,
    pace: Pace,
    /// The times at which the outgoing and the incoming wire are free again.
    wires_free: [Option<Instant>; 2],
}

/// This side's end of a connection, in private memory.
#[derive(Debug)]
pub(super) struct SoftConnection {
    pub(super) end: EndId,
    pub(super) far: Option<BlockEnd>,
    broken: bool,
    /// Requests in posting order, from the oldest that is not reported.
    works: VecDeque<PostedWork>,
    /// The number of the oldest request in `works`.
    first: u64,
    /// The time at which the last of its outgoing bytes leaves.
    written: Option<Instant>,
    /// Number of posted requests that the embedder does not know to be done.
    outstanding: u32,
    /// Number of requests that have ended without a report since the last report.
    unreported: u32,
}

#[derive(Debug)]
struct PostedWork {
    work: SoftWork,
    state: WorkState,
    /// Number of attempts after the first.
    retries: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WorkState {
    /// Behind a fence, or behind the limit on reads in flight.
    Waiting,
    /// In flight.
    Started {
        /// The time at which its bytes start to move, so that all arrive in time.
        begins: Instant,
        /// The time at which it takes effect.
        due: Instant,
    },
    Ended(Result<(), WorkError>),
}

#[derive(Debug)]
struct Reported {
    completion: Completion,
    /// The connection on which it frees room, and the number of requests.
    frees: Option<(EndId, u32)>,
}

/// A request that is due.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) near: EndId,
    pub(super) far: BlockEnd,
    pub(super) work: SoftWork,
    /// The time at which it takes effect.
    pub(super) due: Instant,
    number: u64,
}

/// The executor that asks for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Executor {
    /// The device thread, which has nothing else to do.
    Device,
    /// The owner, when it polls. It should not copy for long. So it takes a long request only when
    /// that is late, because then the thread has no processor.
    Owner,
}

/// The next action of an executor.
#[derive(Debug)]
pub(super) enum NextWork {
    /// Carry out this request.
    Now(Box<Due>),
    /// Wait until this time.
    At(Instant),
    /// There is no request.
    Nothing,
}

impl SoftConnection {
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

    /// Returns the index of the next request, and its time: the request that starts first among
    /// those that may start. Later writes and sends may overtake a read or an atomic; no other
    /// overtaking occurs.
    fn next(&self, executor: Executor) -> Option<(usize, Instant)> {
        let mut earliest: Option<(usize, Instant)> = None;
        for (at, posted) in self.works.iter().enumerate() {
            match posted.state {
                WorkState::Ended(Ok(())) => {}
                WorkState::Ended(Err(_)) | WorkState::Waiting => break,
                WorkState::Started { begins, due } => {
                    let is_long = posted.work.length > LONG;
                    let when = if is_long && executor == Executor::Owner { due } else { begins };
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

    /// Returns true while there is a request to carry out.
    pub(super) const fn is_busy(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn open(&mut self, end: EndId) {
        let at = end.index as usize;
        if self.links.len() <= at {
            self.links.resize_with(at + 1, || None);
        }
        self.links[at] = Some(SoftConnection::new(end));
    }

    pub(super) fn link(&mut self, connection: Connection) -> Option<&mut SoftConnection> {
        self.links.get_mut(connection.0 as usize)?.as_mut()
    }

    /// Closes a connection, with all its requests in flight.
    pub(super) fn close(&mut self, connection: Connection) -> Option<EndId> {
        let link = self.links.get_mut(connection.0 as usize)?.take()?;
        let undone = |posted: &&PostedWork| !matches!(posted.state, WorkState::Ended(_));
        self.waiting -= link.works.iter().filter(undone).count();
        Some(link.end)
    }

    /// Appends a request to its connection, which has room.
    pub(super) fn post(&mut self, connection: Connection, work: SoftWork, now: Instant) {
        let Some(link) = self.link(connection) else { return };
        link.outstanding += 1;
        link.works.push_back(PostedWork { work, state: WorkState::Waiting, retries: 0 });
        self.waiting += 1;
        self.start(connection.0 as usize, now);
    }

    /// Starts the requests of a connection that may start.
    fn start(&mut self, at: usize, now: Instant) {
        let Some(link) = self.links[at].as_mut() else { return };
        let mut fetching = 0;
        for posted in &mut link.works {
            match posted.state {
                WorkState::Ended(Err(_)) => break,
                WorkState::Ended(Ok(())) => {}
                WorkState::Started { .. } => fetching += u32::from(posted.work.verb.fetches()),
                WorkState::Waiting => {
                    let fetches = posted.work.verb.fetches();
                    if (posted.work.fenced && fetching > 0) || (fetches && fetching >= READS) {
                        break;
                    }
                    fetching += u32::from(fetches);
                    let wire_free = &mut self.wires_free[usize::from(fetches)];
                    // A read returns the bytes of earlier writes.
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
                    posted.state = WorkState::Started { begins, due };
                }
            }
        }
    }

    /// Returns the next action of this executor.
    pub(super) fn next(&self, executor: Executor, now: Instant) -> NextWork {
        if self.waiting == 0 {
            return NextWork::Nothing;
        }
        let links = self.links.iter().flatten();
        let all = links.filter_map(|link| link.next(executor).map(|(at, when)| (when, link, at)));
        match all.min_by_key(|(when, ..)| *when) {
            None => NextWork::Nothing,
            Some((when, ..)) if when > now => NextWork::At(when),
            Some((_, link, at)) => match link.far {
                None => NextWork::Nothing,
                Some(far) => {
                    let PostedWork { work, state, .. } = &link.works[at];
                    let WorkState::Started { due, .. } = *state else { return NextWork::Nothing };
                    let (near, work, number) = (link.end, work.clone(), link.first + at as u64);
                    NextWork::Now(Box::new(Due { near, far, work, due, number }))
                }
            },
        }
    }

    /// Records the result of a request that took `took`, and reports all requests that can be
    /// reported. Returns both ends of the connection when it broke.
    pub(super) fn tried(
        &mut self,
        due: &Due,
        tried: Tried,
        took: Duration,
        now: Instant,
    ) -> Option<(EndId, BlockEnd)> {
        if tried == Tried::Ended(Ok(())) {
            self.pace.learn(due.work.length, took);
        }
        let at = due.near.index as usize;
        let link = self.links.get_mut(at)?.as_mut().filter(|link| link.end == due.near)?;
        let posted =
            link.works.get_mut(usize::try_from(due.number.checked_sub(link.first)?).ok()?)?;
        let outcome = match tried {
            Tried::Ended(outcome) => outcome,
            Tried::NotReady if posted.retries == DEVICE_RETRIES => Err(WorkError::NotReady),
            Tried::NotReady => {
                let again = now + DEVICE_RETRY_MIN * (1 << posted.retries);
                posted.state = WorkState::Started { begins: again, due: again };
                posted.retries += 1;
                return None;
            }
        };
        posted.state = WorkState::Ended(outcome);
        self.waiting -= 1;
        let broke = self.report(at);
        self.start(at, now);
        broke
    }

    /// Reports the oldest requests of a connection up to the first that has not ended, and flushes
    /// the connection after a failure.
    fn report(&mut self, at: usize) -> Option<(EndId, BlockEnd)> {
        let link = self.links[at].as_mut()?;
        while let Some(PostedWork { state: WorkState::Ended(outcome), .. }) = link.works.front() {
            let outcome = *outcome;
            let PostedWork { work, .. } = link.works.pop_front()?;
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

    /// Ends all requests that are left on a broken connection.
    fn flush(&mut self, at: usize) -> Option<(EndId, BlockEnd)> {
        let link = self.links[at].as_mut()?;
        link.broken = true;
        for posted in link.works.drain(..) {
            link.first += 1;
            if !matches!(posted.state, WorkState::Ended(_)) {
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

    /// Returns true when a completion is reported and not yet taken.
    pub(super) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Takes as many completions as exist and `into` has room for. Returns the number taken.
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
