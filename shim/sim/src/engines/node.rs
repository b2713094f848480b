//! One node: an engine, its links, and the program of its rank.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait::raw::ANY_SOURCE;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{Engine, Owner, Received, RequestId, Rtrs, Sent, Tuning};
use strait_core::matching::Pattern;
use strait_core::ring::LinkConfig;
use strait_core::wire::Key;

use super::channel::Port;
use super::memory::{CountedMemory, NodeSegment};
use crate::driver::DrivenNode;
use crate::links::NodeLinks;
use crate::{SimFabric, Step};

/// The owner of all operations.
const OWNER: Owner = Owner(1);

/// A message as one of its ranks names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// The other rank, or [`ANY_SOURCE`].
    pub(super) peer: u32,
    pub(super) tag: u32,
    pub(super) bytes: usize,
}

/// A call of a program, or its computation between two calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// Computes for this many nanoseconds, outside the library.
    Compute(u64),
    Irecv(Message),
    Isend(Message),
    /// Waits for all nonblocking operations so far.
    Wait,
    /// Sends, and returns when the buffer is free.
    Send(Message),
    /// Receives, and returns when the message is there.
    Recv(Message),
}

/// Nanoseconds that a rank spent in calls that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallTimes {
    pub(super) waits: u64,
    /// In blocking sends and receives.
    pub(super) blocking: u64,
}

/// A send or receive that is under way.
struct Operation {
    id: RequestId,
    buffer: Vec<u8>,
    /// The message that a receive expects.
    expected: Option<Message>,
}

/// The engine is rank 0 of a segment of its own, in which the ranks of other nodes have no place,
/// as those of other universes. So it takes its own number in the job for that of the job's rank 0,
/// and the other way round: see [`EngineNode::place`].
pub(super) struct EngineNode {
    // Before the memory to which it points.
    engine: Engine<CountedMemory>,
    links: NodeLinks,
    fabric: SimFabric,
    program: VecDeque<Call>,
    under_way: Vec<Operation>,
    /// The begin of the call that waits, if one does.
    waits_since: Option<u64>,
    times: CallTimes,
    memory: CountedMemory,
    sent: u64,
    _segment: NodeSegment,
}

impl DrivenNode for EngineNode {
    fn links(&mut self) -> &mut NodeLinks {
        &mut self.links
    }

    fn turn(&mut self) -> Step {
        let Some(call) = self.program.front().copied() else {
            return if self.progress() { Step::Moved } else { Step::Finished };
        };
        match call {
            Call::Compute(time) => self.fabric.compute(self.links.rank(), time),
            Call::Irecv(message) => self.begin_receive(message),
            Call::Isend(message) => self.begin_send(message),
            Call::Wait | Call::Send(_) | Call::Recv(_) => return self.wait(call),
        }
        self.program.pop_front();
        Step::Moved
    }
}

impl EngineNode {
    /// Makes the node of `rank` in a job of `ranks` nodes with one rank each.
    pub(super) fn new(
        fabric: &SimFabric,
        (rank, ranks): (u32, u32),
        links: LinkConfig,
        tuning: Tuning,
        program: Vec<Call>,
    ) -> Self {
        let (segment, memory) = (NodeSegment::new(), CountedMemory::default());
        let engine = Engine::new(memory.clone(), segment.segment(), 0, tuning);
        let mut engine = engine.expect("memory for an engine");
        // The greatest number first: the table of peers grows once.
        let all = (0..ranks).rev().filter(|peer| *peer != rank);
        all.for_each(|peer| engine.set_remote(place(rank, peer)).expect("memory"));
        Self {
            engine,
            links: NodeLinks::new(fabric.device(rank), rank, links),
            fabric: fabric.clone(),
            program: program.into(),
            under_way: Vec::new(),
            waits_since: None,
            times: CallTimes::default(),
            memory,
            sent: 0,
            _segment: segment,
        }
    }

    /// Returns the engine's number of a rank of the job.
    const fn place(&self, rank: u32) -> u32 {
        place(self.links.rank(), rank)
    }

    pub(super) const fn times(&self) -> CallTimes {
        self.times
    }

    pub(super) const fn rtrs(&self) -> Rtrs {
        self.engine.rtrs()
    }

    /// Returns the number of links.
    pub(super) fn links(&self) -> usize {
        self.links.count()
    }

    /// Returns the number of messages that the program sent, and of calls for links.
    pub(super) const fn messages(&self) -> u64 {
        self.sent + self.links.called()
    }

    /// Returns the bytes of the engine's private memory.
    pub(super) fn private_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Makes progress, as each call of the library does. Returns whether anything moved.
    fn progress(&mut self) -> bool {
        if self.engine.wants_time() {
            self.engine.tell_time(self.now());
        }
        let moved = self.engine.progress().expect("memory, and a sound segment");
        moved | self.poll_network()
    }

    fn poll_network(&mut self) -> bool {
        for peer in self.links.take_callers() {
            self.engine.linked(self.place(peer)).expect("memory");
        }
        let moved = self.links.poll() | self.links.connect();
        let now = self.now();
        moved | self.engine.poll_network(&mut Port(&mut self.links, now)).expect("memory")
    }

    fn now(&self) -> u64 {
        self.fabric.clock(self.links.rank())
    }

    /// Begins a send as the library does: first with a look for RTRs, where one may have come.
    fn begin_send(&mut self, Message { peer, tag, bytes }: Message) {
        let mut buffer = vec![content(self.links.rank(), tag); bytes];
        let (peer, key) = (self.place(peer), Key::new(0, tag));
        if self.engine.may_be_asked(peer, key, bytes) {
            let _ = self.progress();
        }
        // SAFETY: the operation keeps the buffer until it is over, and its bytes stay in place when
        // the vector moves.
        let sent = unsafe { self.engine.isend(peer, key, cursor(&mut buffer), OWNER) };
        self.sent += 1;
        if let Sent::Pending(id) = sent.expect("all live") {
            self.under_way.push(Operation { id, buffer, expected: None });
            let _ = self.poll_network();
        }
    }

    /// Begins a receive as the library does: an RTR leaves at once, and the read of an announced
    /// message begins.
    fn begin_receive(&mut self, message: Message) {
        let Message { peer, tag, bytes } = message;
        let mut buffer = vec![!content(peer, tag); bytes];
        let source = if peer == ANY_SOURCE { ANY_SOURCE } else { self.place(peer) };
        let pattern = Pattern { context: 0, source, tag };
        let announced = self.engine.may_be_announced(&pattern, bytes, OWNER);
        if announced {
            let _ = self.progress();
        }
        // SAFETY: the operation keeps the buffer until it is over, and its bytes stay in place when
        // the vector moves.
        let received = unsafe { self.engine.irecv(pattern, cursor(&mut buffer), OWNER) };
        match received.expect("all live") {
            Received::Done(outcome) => {
                let source = outcome.expect("the buffer is as long").source;
                judge(&message, self.place(source), &buffer);
            }
            Received::Pending(id) => {
                self.under_way.push(Operation { id, buffer, expected: Some(message) });
                if announced {
                    let _ = self.poll_network();
                }
                if peer != ANY_SOURCE {
                    self.links.meet(peer);
                }
            }
        }
    }

    /// Goes on with a call that waits.
    fn wait(&mut self, call: Call) -> Step {
        let begin = match self.waits_since {
            Some(begin) => begin,
            None => {
                let now = self.now();
                self.waits_since = Some(now);
                match call {
                    Call::Send(message) => self.begin_send(message),
                    Call::Recv(message) => self.begin_receive(message),
                    _ => {}
                }
                now
            }
        };
        let moved = self.progress();
        // A blocking call waits for its own operation, which is the last one.
        let awaited = match call {
            Call::Wait => 0,
            _ => self.under_way.len().saturating_sub(1),
        };
        self.test();
        if self.under_way.len() > awaited {
            return if moved { Step::Moved } else { Step::Waits };
        }
        let time = self.now() - begin;
        match call {
            Call::Wait => self.times.waits += time,
            _ => self.times.blocking += time,
        }
        self.waits_since = None;
        self.program.pop_front();
        Step::Moved
    }

    /// Ends the operations that are over.
    fn test(&mut self) {
        let (engine, rank) = (&mut self.engine, self.links.rank());
        self.under_way.retain(|Operation { id, buffer, expected }| {
            let Some(outcome) = engine.test(*id) else { return true };
            let status = outcome.expect("all live");
            if let Some(message) = expected {
                judge(message, place(rank, status.source), buffer);
            }
            false
        });
    }
}

/// Exchanges the number `own` and 0: the engine's numbers of the job's ranks, and back.
pub(super) const fn place(own: u32, rank: u32) -> u32 {
    match rank {
        0 => own,
        rank if rank == own => 0,
        rank => rank,
    }
}

/// Returns the byte of which a message consists.
const fn content(source: u32, tag: u32) -> u8 {
    (source.wrapping_mul(31).wrapping_add(tag)) as u8
}

fn judge(message: &Message, source: u32, buffer: &[u8]) {
    let Message { peer, tag, bytes } = *message;
    assert!(peer == ANY_SOURCE || peer == source, "{message:?} came from {source}");
    let sound = buffer.len() == bytes && buffer.iter().all(|byte| *byte == content(source, tag));
    assert!(sound, "{message:?} arrived damaged");
}

fn cursor(buffer: &mut [u8]) -> Cursor {
    let part = Part { base: NonNull::from(&mut *buffer).cast(), length: buffer.len() };
    // SAFETY: the callers keep the buffer until the operation is complete.
    unsafe { Cursor::contiguous(part) }
}
