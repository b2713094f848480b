//! The connection listener, at which a process that knows another's peer address asks for a
//! connection.
//!
//! ```text
//! caller                                        called
//!  | connects                                    | (listens, and looks when it makes progress)
//!  | OPENING                                     |
//!  |-------------------------------------------->| on this host: is it the same user?
//!  |                                    COUNTER  |
//!  |<--------------------------------------------|
//!  | HELLO   link address of its end             |
//!  |-------------------------------------------->|
//!  |             ANSWER   link address for it    |
//!  |<--------------------------------------------|
//!  | one byte: the caller's end is connected     |
//!  |-------------------------------------------->|
//! ```
//!
//! [`super::handshake`] defines the messages. It shows how both sides prove that they
//! have the key of the called process.
//!
//! The called process connects its end, or tries to, before it answers. It sends no request on the
//! connection before the caller's final byte. An end that is not connected answers no request, and
//! a device without an answer gives up after seconds. The caller may compute for longer.
//!
//! With a device that reaches only this host, a process listens at an abstract Unix socket. With
//! any other device it listens at a TCP port, which its peer address contains. Two processes that
//! call each other send the same link addresses twice. No function here waits. Missing data are
//! looked for again with the next poll, and [`ConnectionListener::events`] wakes a process that
//! sleeps.
//!
//! Callers without a proof take few descriptors, and for a limited time. A caller that was dropped
//! for lack of room, or because it computed for long, calls again.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, getsockname, listen, recv, send, socket_with,
};
use rustix::rand::{GetRandomFlags, getrandom};
use strait_core::ring::LinkAddress;
use strait_platform::boot::{PeerAddress, peer_process};

use super::handshake::{self, ANSWER, COUNTER, Challenge, HELLO, Handshake, OPENING};

/// Number of callers that wait in the kernel.
const BACKLOG: i32 = 4096;

/// Largest number of accepted callers without a proof. Further callers wait in the kernel.
const CALLERS: usize = 64;

/// Time that a caller may take for its proof while no other caller waits for its place.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a caller may take for its proof while other callers wait.
const HURRY: Duration = Duration::from_secs(1);

/// Number of times that a caller calls again after it was dropped.
const CALLS: u32 = 16;

/// The listener of a process. It ends with the process, and has no name in a file system.
#[derive(Debug)]
pub(crate) struct ConnectionListener {
    own: PeerAddress,
    listener: OwnedFd,
    /// Readable when a caller arrives, or when data arrive in a handshake in progress.
    events: OwnedFd,
    /// Callers without a proof, oldest first.
    callers: VecDeque<PendingConnection>,
    /// Callers with a valid hello.
    ready: VecDeque<ConnectRequest>,
}

/// A caller without a proof.
#[derive(Debug)]
struct PendingConnection {
    since: Instant,
    stage: PendingStage,
}

/// The stage of a caller's handshake.
#[derive(Debug)]
enum PendingStage {
    /// The opening has not arrived.
    Let(Reader<OPENING>),
    /// The counter-challenge is sent, and the hello has not arrived.
    Asked(Handshake, Box<Reader<HELLO>>),
}

/// A request for a connection, from a caller with a valid hello.
#[derive(Debug)]
pub(super) struct ConnectRequest {
    pub(super) from: PeerAddress,
    /// The address of the caller's end.
    pub(super) address: LinkAddress,
    greeting: Handshake,
    socket: OwnedFd,
}

/// A call at the listener of another process.
#[derive(Debug)]
pub(super) struct OutgoingConnection {
    from: PeerAddress,
    to: PeerAddress,
    address: LinkAddress,
    stage: OutgoingStage,
    /// Number of calls so far.
    calls: u32,
}

/// The stage of an outgoing call.
#[derive(Debug)]
enum OutgoingStage {
    /// No socket is connected.
    Idle,
    /// The opening is being sent.
    Opening(Challenge, Writer<OPENING>),
    /// The opening is sent. The counter-challenge has not arrived.
    Opened(Challenge, Reader<COUNTER>),
    /// The hello is being sent.
    Greeting(Handshake, Writer<HELLO>),
    /// The hello is sent. The answer has not arrived.
    Greeted(Handshake, Reader<ANSWER>),
    /// The answer has arrived, with the link address of the called end.
    Answered(LinkAddress, OwnedFd),
}

/// A caller to which the answer was sent.
#[derive(Debug)]
pub(super) struct AcceptedPeer(Reader<1>);

/// The other process does not answer any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoAnswer;

impl ConnectionListener {
    /// Opens the listener of this process, `own`. It is reachable from this host, or from all hosts
    /// if `open`. Its peer address is completed with the place of the listener.
    pub(crate) fn open(mut own: PeerAddress, open: bool) -> Result<Self, Errno> {
        let listener = if open {
            let address = own_address();
            let listener = socket(AddressFamily::INET)?;
            bind(&listener, &address)?;
            let bound = getsockname(&listener)?;
            own.address = SocketAddr::try_from(bound).ok();
            listener
        } else {
            let listener = socket(AddressFamily::UNIX)?;
            bind(&listener, &name_of(&own)?)?;
            listener
        };
        listen(&listener, BACKLOG)?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        getrandom(&mut own.key, GetRandomFlags::empty())?;
        let (callers, ready) = (VecDeque::new(), VecDeque::new());
        let this = Self { own, listener, events, callers, ready };
        this.watch(&this.listener)?;
        Ok(this)
    }

    /// Returns a descriptor that is readable when the listener has something to do.
    pub(crate) fn events(&self) -> io::Result<OwnedFd> {
        self.events.try_clone()
    }

    /// Makes incoming data on `socket` an event, until the socket is closed.
    fn watch(&self, socket: &OwnedFd) -> Result<(), Errno> {
        epoll::add(&self.events, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// Returns the address of this process for its peers.
    pub(crate) const fn own(&self) -> PeerAddress {
        self.own
    }

    /// Accepts callers and continues their handshakes. Returns whether a caller has completed its
    /// hello.
    pub(crate) fn is_called(&mut self) -> bool {
        self.let_in(Instant::now());
        let callers = core::mem::take(&mut self.callers);
        for PendingConnection { since, stage } in callers {
            match stage.go_on(&self.own) {
                Ok(Ok(hello)) => self.ready.push_back(hello),
                Ok(Err(stage)) => self.callers.push_back(PendingConnection { since, stage }),
                // The caller is dropped.
                Err(NoAnswer) => {}
            }
        }
        !self.ready.is_empty()
    }

    /// Accepts as many callers as there is room for, and drops those that were silent too long.
    fn let_in(&mut self, now: Instant) {
        let is_late = |caller: &PendingConnection, time| now.duration_since(caller.since) >= time;
        while self.callers.front().is_some_and(|oldest| is_late(oldest, TIMEOUT)) {
            self.callers.pop_front();
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            if self.callers.len() >= CALLERS {
                if !self.callers.front().is_some_and(|oldest| is_late(oldest, HURRY)) {
                    return;
                }
                self.callers.pop_front();
            }
            let Ok(caller) = accept_with(&self.listener, flags) else { return };
            // On a Unix socket, processes of other users are refused.
            let may_enter = self.own.address.is_some() || peer_process(&caller).is_some();
            if may_enter && self.watch(&caller).is_ok() {
                let stage = PendingStage::Let(Reader::new(caller));
                self.callers.push_back(PendingConnection { since: now, stage });
            }
        }
    }

    /// Returns the next caller with a valid hello.
    pub(super) fn next(&mut self) -> Option<ConnectRequest> {
        self.ready.pop_front()
    }
}

impl PendingStage {
    /// Reads what the caller has sent. Returns its request when its hello is complete, and
    /// otherwise the stage reached.
    fn go_on(self, own: &PeerAddress) -> Result<Result<ConnectRequest, Self>, NoAnswer> {
        let (greeting, mut reader) = match self {
            Self::Let(mut reader) => {
                let Some(bytes) = reader.read()? else { return Ok(Err(Self::Let(reader))) };
                let asked = handshake::read_opening(&bytes).ok_or(NoAnswer)?;
                let (greeting, counter) = Handshake::counter(own.key, asked, challenge()?);
                // These few bytes have room, unless the caller reads nothing.
                let sent = send(&reader.socket, &counter, FLAGS);
                if sent != Ok(COUNTER) {
                    return Err(NoAnswer);
                }
                (greeting, Box::new(Reader::new(reader.socket)))
            }
            Self::Asked(greeting, reader) => (greeting, reader),
        };
        let Some(bytes) = reader.read()? else { return Ok(Err(Self::Asked(greeting, reader))) };
        let (from, address) = greeting.read_hello(own, &bytes).ok_or(NoAnswer)?;
        Ok(Ok(ConnectRequest { from, address, greeting, socket: reader.socket }))
    }
}

impl ConnectRequest {
    /// Sends the caller the link address of the end that was opened for it.
    pub(super) fn answer(self, address: &LinkAddress) -> AcceptedPeer {
        // These few bytes always have room. A caller that is gone needs no answer.
        let _ = send(&self.socket, &self.greeting.answer(address), FLAGS);
        AcceptedPeer(Reader::new(self.socket))
    }
}

impl AcceptedPeer {
    /// Returns whether the peer has confirmed that its end is connected.
    pub(super) fn is_connected(&mut self) -> Result<bool, NoAnswer> {
        self.0.read().map(|said| said.is_some())
    }
}

impl OutgoingConnection {
    /// Creates a call of `own` at the listener of `to`. It sends the link address of the end that
    /// was opened for `to`.
    pub(super) const fn new(own: &PeerAddress, to: PeerAddress, address: &LinkAddress) -> Self {
        Self {
            from: own.without_key(),
            to,
            address: *address,
            stage: OutgoingStage::Idle,
            calls: 0,
        }
    }

    /// Continues the call. Returns the link address of the other end once the answer has arrived.
    /// Missing data make an event of `own`, the caller's listener, if the call [has sent
    /// everything](OutgoingConnection::has_said_all).
    pub(super) fn poll(
        &mut self,
        own: &ConnectionListener,
    ) -> Result<Option<LinkAddress>, NoAnswer> {
        loop {
            match self.go_on(own) {
                Ok(true) => {}
                Ok(false) => break,
                // The other process dropped this call, perhaps for lack of room. It may have room
                // by now.
                Err(Dropped::Late) if self.calls < CALLS => self.stage = OutgoingStage::Idle,
                Err(_) => return Err(NoAnswer),
            }
        }
        Ok(match &self.stage {
            OutgoingStage::Answered(address, _) => Some(*address),
            _ => None,
        })
    }

    /// Takes one step. Returns false when only a wait remains.
    fn go_on(&mut self, own: &ConnectionListener) -> Result<bool, Dropped> {
        let (stage, moved) = match core::mem::replace(&mut self.stage, OutgoingStage::Idle) {
            OutgoingStage::Idle => match self.connect() {
                Ok(socket) => {
                    own.watch(&socket).map_err(|_| Dropped::Refused)?;
                    self.calls += 1;
                    let challenge = challenge()?;
                    let opening = Writer::new(socket, handshake::open(&challenge));
                    (OutgoingStage::Opening(challenge, opening), true)
                }
                // The queue of the listener is full.
                Err(Errno::AGAIN | Errno::INTR) => (OutgoingStage::Idle, false),
                Err(_) => return Err(Dropped::Refused),
            },
            OutgoingStage::Opening(challenge, mut opening) => {
                if opening.write()? {
                    (OutgoingStage::Opened(challenge, Reader::new(opening.socket)), true)
                } else {
                    (OutgoingStage::Opening(challenge, opening), false)
                }
            }
            OutgoingStage::Opened(challenge, mut counter) => match counter.read()? {
                Some(bytes) => {
                    let greeting = Handshake::read_counter(self.to.key, challenge, &bytes);
                    let greeting = greeting.ok_or(Dropped::Refused)?;
                    let hello = greeting.hello(&self.from, &self.to, &self.address);
                    (OutgoingStage::Greeting(greeting, Writer::new(counter.socket, hello)), true)
                }
                None => (OutgoingStage::Opened(challenge, counter), false),
            },
            OutgoingStage::Greeting(greeting, mut hello) => {
                if hello.write()? {
                    (OutgoingStage::Greeted(greeting, Reader::new(hello.socket)), true)
                } else {
                    (OutgoingStage::Greeting(greeting, hello), false)
                }
            }
            OutgoingStage::Greeted(greeting, mut answer) => match answer.read()? {
                Some(bytes) => {
                    let address = greeting.read_answer(&bytes).ok_or(Dropped::Refused)?;
                    (OutgoingStage::Answered(address, answer.socket), false)
                }
                None => (OutgoingStage::Greeted(greeting, answer), false),
            },
            answered @ OutgoingStage::Answered(..) => (answered, false),
        };
        self.stage = stage;
        Ok(moved)
    }

    /// Returns whether everything is sent, so that the missing data make an event.
    pub(super) const fn has_said_all(&self) -> bool {
        use OutgoingStage::{Answered, Greeted, Opened};
        matches!(self.stage, Opened(..) | Greeted(..) | Answered(..))
    }

    /// Confirms that this end is connected.
    pub(super) fn confirm(&self) {
        if let OutgoingStage::Answered(_, socket) = &self.stage {
            // One byte always has room. A peer that is gone needs no confirmation.
            let _ = send(socket, &[1], FLAGS);
        }
    }

    fn connect(&self) -> Result<OwnedFd, Errno> {
        if let Some(address) = self.to.address {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket(family)?;
            return match connect(&socket, &address) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(error) => Err(error),
            };
        }
        let socket = socket(AddressFamily::UNIX)?;
        connect(&socket, &name_of(&self.to)?)?;
        // Processes of other users are refused.
        peer_process(&socket).map(|_| socket).ok_or(Errno::PERM)
    }
}

/// The reason why a call cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Dropped {
    /// No process listens there, or not the intended one.
    Refused,
    /// The other process has ended the conversation.
    Late,
}

impl From<NoAnswer> for Dropped {
    fn from(_: NoAnswer) -> Self {
        Self::Late
    }
}

/// Returns a new random challenge.
fn challenge() -> Result<Challenge, NoAnswer> {
    let mut challenge = Challenge::default();
    getrandom(&mut challenge, GetRandomFlags::empty()).map_err(|_| NoAnswer)?;
    Ok(challenge)
}

/// A writer that sends as many bytes as there is room for.
#[derive(Debug)]
struct Writer<const LENGTH: usize> {
    socket: OwnedFd,
    bytes: [u8; LENGTH],
    written: usize,
}

impl<const LENGTH: usize> Writer<LENGTH> {
    const fn new(socket: OwnedFd, bytes: [u8; LENGTH]) -> Self {
        Self { socket, bytes, written: 0 }
    }

    /// Writes on, and returns whether all bytes are written.
    fn write(&mut self) -> Result<bool, Dropped> {
        while self.written < LENGTH {
            match send(&self.socket, &self.bytes[self.written..], FLAGS) {
                Ok(written) => self.written += written,
                // The connection is not established yet.
                Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => return Ok(false),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Dropped::Late),
                Err(_) => return Err(Dropped::Refused),
            }
        }
        Ok(true)
    }
}

/// A reader that collects bytes as they arrive.
#[derive(Debug)]
struct Reader<const LENGTH: usize> {
    socket: OwnedFd,
    bytes: [u8; LENGTH],
    read: usize,
}

impl<const LENGTH: usize> Reader<LENGTH> {
    const fn new(socket: OwnedFd) -> Self {
        Self { socket, bytes: [0; LENGTH], read: 0 }
    }

    /// Reads on, and returns all bytes once they have arrived.
    fn read(&mut self) -> Result<Option<[u8; LENGTH]>, NoAnswer> {
        while self.read < LENGTH {
            match recv(&self.socket, &mut self.bytes[self.read..], RecvFlags::DONTWAIT) {
                Ok((_, read @ 1..)) => self.read += read,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Ok(_) | Err(_) => return Err(NoAnswer),
            }
        }
        Ok(Some(self.bytes))
    }
}

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

fn socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

fn name_of(PeerAddress { nonce, rank, .. }: &PeerAddress) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("strait-door-{nonce:016x}-{rank}").as_bytes())
}

/// Returns the address of this host for other hosts, with any port. It sends nothing to find it.
fn own_address() -> SocketAddr {
    let ask = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // An address reserved for documentation (RFC 5737). The route to it is the route to other
        // networks.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    // Without such a route, the address of any network interface serves.
    let other = || {
        let all = if_addrs::get_if_addrs().unwrap_or_default();
        let mut found = all.iter().filter(|it| !it.is_loopback() && it.ip().is_ipv4());
        found.next().map(if_addrs::Interface::ip)
    };
    let address = ask().ok().or_else(other).unwrap_or(Ipv4Addr::LOCALHOST.into());
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests;
