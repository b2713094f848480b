//! A device that reports its calls and their outcomes.

use core::fmt;
use core::ptr::NonNull;

use super::{
    Access, Address, Capabilities, Completion, Connection, Done, Hca, HcaError, Operation,
    PostError, Readiness, Region, RemoteAddress, Sge, WorkRequest,
};

/// A receiver of the events of a [`Traced`] device.
pub trait TraceSink {
    /// Handles one call and its outcome.
    fn event(&mut self, event: &TraceEvent);
}

impl<F: FnMut(&TraceEvent)> TraceSink for F {
    fn event(&mut self, event: &TraceEvent) {
        self(event);
    }
}

/// A call to a device and its outcome. Polls without a result are not reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceEvent {
    /// A registration of memory.
    Register {
        /// Length, in bytes.
        length: usize,
        /// The region.
        outcome: Result<Region, HcaError>,
    },
    /// A deregistration of a region.
    Deregister {
        /// The region.
        region: Region,
        /// The outcome.
        outcome: Result<(), HcaError>,
    },
    /// The opening of a connection.
    Open {
        /// The peer.
        peer: u32,
        /// This side's end.
        outcome: Result<Connection, HcaError>,
    },
    /// An attempt to connect.
    Connect {
        /// This side's end.
        connection: Connection,
        /// The state of the connection.
        outcome: Result<Readiness, HcaError>,
    },
    /// The closing of a connection.
    Close {
        /// This side's end.
        connection: Connection,
        /// The outcome.
        outcome: Result<(), HcaError>,
    },
    /// The posting of a request.
    Post {
        /// The connection.
        connection: Connection,
        /// The request.
        request: RequestSummary,
        /// The outcome.
        outcome: Result<(), PostError>,
    },
    /// The posting of a receive.
    PostReceive {
        /// Its id.
        id: u64,
        /// Length of its piece, in bytes.
        length: u32,
        /// The outcome.
        outcome: Result<(), PostError>,
    },
    /// A completion was polled.
    Completion(Completion),
    /// A poll found that the device itself had failed.
    PollFailed(HcaError),
    /// A request for an event.
    Arm {
        /// The outcome.
        outcome: Result<(), HcaError>,
    },
}

/// The contents of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestSummary {
    /// The request's identifier.
    pub id: u64,
    /// The operation.
    pub verb: TraceVerb,
    /// Number of pieces in this process.
    pub pieces: usize,
    /// Total length of the pieces, in bytes.
    pub length: u64,
    /// The place in the peer's memory.
    pub remote: Option<RemoteAddress>,
    /// True if success is reported.
    pub signaled: bool,
    /// True if the device reads the data during the post.
    pub inline: bool,
    /// True if the request waits for earlier reads and atomics.
    pub fenced: bool,
}

/// The operations, with their numeric arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceVerb {
    /// A write.
    Write,
    /// A write with an immediate, which completes a receive.
    WriteImmediate(u32),
    /// A read.
    Read,
    /// A send.
    Send,
    /// A compare-and-swap, with the expected and the desired value.
    CompareAndSwap(u64, u64),
    /// A fetch-and-add, with the addend.
    FetchAndAdd(u64),
}

impl RequestSummary {
    fn of(request: &WorkRequest<'_>) -> Self {
        let length =
            |pieces: &[Sge]| pieces.iter().map(|piece| u64::from(piece.length)).sum::<u64>();
        let (verb, pieces, length, remote) = match request.operation {
            Operation::Write { from, to } => (TraceVerb::Write, from.len(), length(from), Some(to)),
            Operation::WriteImmediate { from, to, immediate } => {
                (TraceVerb::WriteImmediate(immediate), from.len(), length(from), Some(to))
            }
            Operation::Read { into, from } => {
                (TraceVerb::Read, into.len(), length(into), Some(from))
            }
            Operation::Send { from } => (TraceVerb::Send, from.len(), length(from), None),
            Operation::CompareAndSwap { target, expected, desired, .. } => {
                (TraceVerb::CompareAndSwap(expected, desired), 1, 8, Some(target))
            }
            Operation::FetchAndAdd { target, addend, .. } => {
                (TraceVerb::FetchAndAdd(addend), 1, 8, Some(target))
            }
        };
        let &WorkRequest { id, signaled, inline, fenced, .. } = request;
        Self { id, verb, pieces, length, remote, signaled, inline, fenced }
    }
}

impl fmt::Display for TraceVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Write => f.write_str("write"),
            Self::WriteImmediate(immediate) => write!(f, "write with immediate {immediate:#x}"),
            Self::Read => f.write_str("read"),
            Self::Send => f.write_str("send"),
            Self::CompareAndSwap(expected, desired) => {
                write!(f, "compare-and-swap {expected:#x} -> {desired:#x}")
            }
            Self::FetchAndAdd(addend) => write!(f, "fetch-and-add {addend:#x}"),
        }
    }
}

impl fmt::Display for RequestSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id {} {}, {} bytes in {}", self.id, self.verb, self.length, self.pieces)?;
        if let Some(remote) = self.remote {
            write!(f, ", at {:#x} key {:#x}", remote.address, remote.key)?;
        }
        for (is_so, word) in
            [(!self.signaled, "unsignaled"), (self.inline, "inline"), (self.fenced, "fenced")]
        {
            if is_so {
                write!(f, ", {word}")?;
            }
        }
        Ok(())
    }
}

/// Ends a line: writes nothing for a success, the error for a failure.
fn outcome<E: fmt::Display>(f: &mut fmt::Formatter<'_>, outcome: &Result<(), E>) -> fmt::Result {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => write!(f, ": {error}"),
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { outcome: Ok(region), .. } => write!(
                f,
                "register {} bytes at {:#x}: local key {:#x}, remote key {:#x}",
                region.length, region.base, region.local_key, region.remote_key
            ),
            Self::Register { length, outcome: Err(error) } => {
                write!(f, "register {length} bytes: {error}")
            }
            Self::Deregister { region, outcome: ended } => {
                write!(f, "deregister {} bytes at {:#x}", region.length, region.base)?;
                outcome(f, ended)
            }
            Self::Open { peer, outcome: Ok(connection) } => {
                write!(f, "open to rank {peer}: connection {}", connection.0)
            }
            Self::Open { peer, outcome: Err(error) } => write!(f, "open to rank {peer}: {error}"),
            Self::Connect { connection, outcome } => {
                write!(f, "connect {}: ", connection.0)?;
                match outcome {
                    Ok(Readiness::Pending) => f.write_str("pending"),
                    Ok(Readiness::Ready) => f.write_str("ready"),
                    Err(error) => error.fmt(f),
                }
            }
            Self::Close { connection, outcome: ended } => {
                write!(f, "close {}", connection.0)?;
                outcome(f, ended)
            }
            Self::Post { connection, request, outcome: ended } => {
                write!(f, "post on {}: {request}", connection.0)?;
                outcome(f, ended)
            }
            Self::PostReceive { id, length, outcome: ended } => {
                write!(f, "receive id {id}, {length} bytes")?;
                outcome(f, ended)
            }
            Self::Completion(completion) => completed(f, completion),
            Self::PollFailed(error) => write!(f, "poll: {error}"),
            Self::Arm { outcome: ended } => {
                f.write_str("arm")?;
                outcome(f, ended)
            }
        }
    }
}

fn completed(f: &mut fmt::Formatter<'_>, completion: &Completion) -> fmt::Result {
    write!(f, "completion on {}: id {} ", completion.connection.0, completion.id)?;
    match completion.result {
        Ok(Done::Write) => f.write_str("written"),
        Ok(Done::Read) => f.write_str("read"),
        Ok(Done::Send) => f.write_str("sent"),
        Ok(Done::Atomic) => f.write_str("atomic done"),
        Ok(Done::Receive { length }) => write!(f, "received {length} bytes"),
        Ok(Done::Immediate { immediate, length }) => {
            write!(f, "immediate {immediate:#x} after {length} bytes")
        }
        Err(error) => write!(f, "failed: {error}"),
    }
}

/// A device that reports every call to a sink.
#[derive(Debug)]
pub struct Traced<H, S> {
    inner: H,
    sink: S,
}

impl<H: Hca, S: TraceSink> Traced<H, S> {
    /// Wraps `inner`, with reports to `sink`.
    #[must_use]
    pub const fn new(inner: H, sink: S) -> Self {
        Self { inner, sink }
    }

    /// Returns the wrapped device.
    pub const fn inner(&mut self) -> &mut H {
        &mut self.inner
    }
}

impl<H: Hca, S: TraceSink> Hca for Traced<H, S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: the caller guarantees that the memory stays mapped and may be accessed as
        // `access` says (contract of `register`).
        let outcome = unsafe { self.inner.register(base, length, access) };
        self.sink.event(&TraceEvent::Register { length, outcome });
        outcome
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        let outcome = self.inner.deregister(region);
        self.sink.event(&TraceEvent::Deregister { region, outcome });
        outcome
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        let opened = self.inner.open(peer);
        self.sink
            .event(&TraceEvent::Open { peer, outcome: opened.map(|(connection, _)| connection) });
        opened
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let outcome = self.inner.connect(connection, address);
        self.sink.event(&TraceEvent::Connect { connection, outcome });
        outcome
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let outcome = self.inner.close(connection);
        self.sink.event(&TraceEvent::Close { connection, outcome });
        outcome
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        // SAFETY: the caller guarantees that the pieces are valid until the request completes
        // (contract of `post`).
        let outcome = unsafe { self.inner.post(connection, request) };
        let request = RequestSummary::of(request);
        self.sink.event(&TraceEvent::Post { connection, request, outcome });
        outcome
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        // SAFETY: the caller guarantees that the piece is valid for writes until its receive
        // completes (contract of `post_receive`).
        let outcome = unsafe { self.inner.post_receive(id, piece) };
        self.sink.event(&TraceEvent::PostReceive { id, length: piece.length, outcome });
        outcome
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        let polled = self.inner.poll(into);
        match polled {
            Ok(count) => {
                for completion in into.iter().take(count) {
                    self.sink.event(&TraceEvent::Completion(*completion));
                }
            }
            Err(error) => self.sink.event(&TraceEvent::PollFailed(error)),
        }
        polled
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        let outcome = self.inner.arm();
        self.sink.event(&TraceEvent::Arm { outcome });
        outcome
    }

    /// Does not report the call, which is not a request.
    fn copied(&mut self, bytes: usize) {
        self.inner.copied(bytes);
    }
}
