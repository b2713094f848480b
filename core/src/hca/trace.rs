//! A device that tells what it is asked and what it answers.

use core::fmt;
use core::ptr::NonNull;

use super::{
    Access, Address, Capabilities, Completion, Connection, Done, Hca, HcaError, Operation, Piece,
    PostError, Readiness, Region, Remote, WorkRequest,
};

/// Takes what a [`Traced`] device tells.
pub trait Sink {
    /// Something was asked and answered.
    fn event(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Sink for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// A call to a device and its outcome. Polls that find nothing are not told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// Memory was registered, or not.
    Register {
        /// Length, bytes.
        length: usize,
        /// The region.
        outcome: Result<Region, HcaError>,
    },
    /// A region was given back, or not.
    Deregister {
        /// The region.
        region: Region,
        /// How it went.
        outcome: Result<(), HcaError>,
    },
    /// A connection was opened, or not.
    Open {
        /// The peer.
        peer: u32,
        /// This side's end.
        outcome: Result<Connection, HcaError>,
    },
    /// How far a connection is.
    Connect {
        /// This side's end.
        connection: Connection,
        /// How far it is.
        outcome: Result<Readiness, HcaError>,
    },
    /// A connection was taken down, or not.
    Close {
        /// This side's end.
        connection: Connection,
        /// How it went.
        outcome: Result<(), HcaError>,
    },
    /// A request was posted, or not.
    Post {
        /// On which connection.
        connection: Connection,
        /// The request.
        request: Summary,
        /// How it went.
        outcome: Result<(), PostError>,
    },
    /// A receive was posted, or not.
    PostReceive {
        /// Its id.
        id: u64,
        /// Length of its piece, bytes.
        length: u32,
        /// How it went.
        outcome: Result<(), PostError>,
    },
    /// A completion was taken.
    Completion(Completion),
    /// The device itself failed when it was polled.
    PollFailed(HcaError),
    /// An event was asked for.
    Arm {
        /// How it went.
        outcome: Result<(), HcaError>,
    },
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Summary {
    /// The request's.
    pub id: u64,
    /// What to do.
    pub verb: Verb,
    /// Pieces in this process.
    pub pieces: usize,
    /// Their length together, bytes.
    pub length: u64,
    /// Where in the peer.
    pub remote: Option<Remote>,
    /// Whether success is reported.
    pub signaled: bool,
    /// Whether the data were taken at once.
    pub inline: bool,
    /// Whether it waits for earlier reads and atomics.
    pub fenced: bool,
}

/// The operations, with the numbers that they carry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verb {
    /// Writes.
    Write,
    /// Writes, and completes a receive.
    WriteImmediate(u32),
    /// Reads.
    Read,
    /// Sends.
    Send,
    /// Expects and desires.
    CompareAndSwap(u64, u64),
    /// Adds.
    FetchAndAdd(u64),
}

impl Summary {
    fn of(request: &WorkRequest<'_>) -> Self {
        let length =
            |pieces: &[Piece]| pieces.iter().map(|piece| u64::from(piece.length)).sum::<u64>();
        let (verb, pieces, length, remote) = match request.operation {
            Operation::Write { from, to } => (Verb::Write, from.len(), length(from), Some(to)),
            Operation::WriteImmediate { from, to, immediate } => {
                (Verb::WriteImmediate(immediate), from.len(), length(from), Some(to))
            }
            Operation::Read { into, from } => (Verb::Read, into.len(), length(into), Some(from)),
            Operation::Send { from } => (Verb::Send, from.len(), length(from), None),
            Operation::CompareAndSwap { target, expected, desired, .. } => {
                (Verb::CompareAndSwap(expected, desired), 1, 8, Some(target))
            }
            Operation::FetchAndAdd { target, addend, .. } => {
                (Verb::FetchAndAdd(addend), 1, 8, Some(target))
            }
        };
        let &WorkRequest { id, signaled, inline, fenced, .. } = request;
        Self { id, verb, pieces, length, remote, signaled, inline, fenced }
    }
}

impl fmt::Display for Verb {
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

impl fmt::Display for Summary {
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

/// Ends a line: nothing for a success, the reason for a failure.
fn outcome<E: fmt::Display>(f: &mut fmt::Formatter<'_>, outcome: &Result<(), E>) -> fmt::Result {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => write!(f, ": {error}"),
    }
}

impl fmt::Display for Event {
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

/// A device that tells a sink about every call.
#[derive(Debug)]
pub struct Traced<H, S> {
    inner: H,
    sink: S,
}

impl<H: Hca, S: Sink> Traced<H, S> {
    /// `inner`, telling `sink`.
    #[must_use]
    pub const fn new(inner: H, sink: S) -> Self {
        Self { inner, sink }
    }

    /// The device below.
    pub const fn inner(&mut self) -> &mut H {
        &mut self.inner
    }
}

impl<H: Hca, S: Sink> Hca for Traced<H, S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: by our caller's contract.
        let outcome = unsafe { self.inner.register(base, length, access) };
        self.sink.event(&Event::Register { length, outcome });
        outcome
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        let outcome = self.inner.deregister(region);
        self.sink.event(&Event::Deregister { region, outcome });
        outcome
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        let opened = self.inner.open(peer);
        self.sink.event(&Event::Open { peer, outcome: opened.map(|(connection, _)| connection) });
        opened
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let outcome = self.inner.connect(connection, address);
        self.sink.event(&Event::Connect { connection, outcome });
        outcome
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let outcome = self.inner.close(connection);
        self.sink.event(&Event::Close { connection, outcome });
        outcome
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        // SAFETY: by our caller's contract.
        let outcome = unsafe { self.inner.post(connection, request) };
        let request = Summary::of(request);
        self.sink.event(&Event::Post { connection, request, outcome });
        outcome
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Piece) -> Result<(), PostError> {
        // SAFETY: by our caller's contract.
        let outcome = unsafe { self.inner.post_receive(id, piece) };
        self.sink.event(&Event::PostReceive { id, length: piece.length, outcome });
        outcome
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        let polled = self.inner.poll(into);
        match polled {
            Ok(count) => {
                for completion in into.iter().take(count) {
                    self.sink.event(&Event::Completion(*completion));
                }
            }
            Err(error) => self.sink.event(&Event::PollFailed(error)),
        }
        polled
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        let outcome = self.inner.arm();
        self.sink.event(&Event::Arm { outcome });
        outcome
    }

    /// Not told: it is no request.
    fn copied(&mut self, bytes: usize) {
        self.inner.copied(bytes);
    }
}
