//! Doors: where a process that knows another's contact asks to be connected to it.
//!
//! ```text
//! caller                                        called
//!  | connects                                    | (listens, and looks when it makes progress)
//!  | OPENING                                     |
//!  |-------------------------------------------->| on this host: is it the same user?
//!  |                                    COUNTER  |
//!  |<--------------------------------------------|
//!  | HELLO   the card of its end                 |
//!  |-------------------------------------------->|
//!  |         ANSWER   the card of the end for it |
//!  |<--------------------------------------------|
//!  | one byte: the caller's end is connected     |
//!  |-------------------------------------------->|
//! ```
//!
//! [`greeting`](super::greeting) has what is said, and how both sides prove that they have the key of the process that is called.
//!
//! The process that answers has connected its end, or tries to; and it asks nothing of it before the byte: an end that is not connected
//! answers no request, and a device that is not answered for seconds gives up, while the caller may compute for longer.
//!
//! A process whose device reaches this host alone listens at an abstract Unix socket, a process whose device reaches further at a TCP port,
//! which its contact tells. Two that call each other show the same cards twice. Nothing waits in here: what is not there yet is looked for
//! again, and a process that sleeps is woken by [`Door::events`].
//!
//! Callers that have proved nothing take few descriptors, and for a limited time. A caller that was dropped for want of room, or because it
//! computed for long, calls again.

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
use strait_core::ring::Card;

use super::greeting::{self, ANSWER, COUNTER, Challenge, Greeting, HELLO, OPENING};
use crate::boot::{Contact, peer_process};

/// Callers that wait in the kernel.
const BACKLOG: i32 = 4096;

/// Callers that are let in and have proved nothing, at most. Others wait in the kernel.
const CALLERS: usize = 64;

/// Time that a caller may take to prove that it may call, while no other waits for its place.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same, while others wait.
const HURRY: Duration = Duration::from_secs(1);

/// Times that a caller calls again after it was dropped.
const CALLS: u32 = 16;

/// The door of one process. It goes with it, and has no name in a file system.
#[derive(Debug)]
pub(crate) struct Door {
    own: Contact,
    listener: OwnedFd,
    /// Can be read when there is something to look at: who comes, and what is said in conversations that have begun.
    events: OwnedFd,
    /// Callers that have proved nothing, oldest first.
    callers: VecDeque<Caller>,
    /// Callers that have said hello.
    ready: VecDeque<Hello>,
}

/// A caller that has proved nothing.
#[derive(Debug)]
struct Caller {
    since: Instant,
    stage: CallerStage,
}

/// How far a caller is.
#[derive(Debug)]
enum CallerStage {
    /// It has asked nothing.
    Let(Reader<OPENING>),
    /// It was asked, and has not answered.
    Asked(Greeting, Box<Reader<HELLO>>),
}

/// A process that wants to be connected.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) from: Contact,
    /// Of the caller's end.
    pub(super) card: Card,
    greeting: Greeting,
    socket: OwnedFd,
}

/// A call at the door of another.
#[derive(Debug)]
pub(super) struct Call {
    from: Contact,
    to: Contact,
    card: Card,
    stage: CallStage,
    /// Times it has called.
    calls: u32,
}

/// How far a call is.
#[derive(Debug)]
enum CallStage {
    /// Nothing is connected.
    Idle,
    /// The opening is being said.
    Opening(Challenge, Writer<OPENING>),
    /// The opening is said, and the other's challenge is awaited.
    Opened(Challenge, Reader<COUNTER>),
    /// The hello is being said.
    Greeting(Greeting, Writer<HELLO>),
    /// All is said, and the answer is awaited.
    Greeted(Greeting, Reader<ANSWER>),
    /// The answer was the card.
    Answered(Card, OwnedFd),
}

/// A caller that was answered.
#[derive(Debug)]
pub(super) struct Guest(Reader<1>);

/// Nobody answers any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoAnswer;

impl Door {
    /// Opens the door of `own`, which is this process: to this host, or to all if it is to be `open`. `own` then says where it is.
    pub(crate) fn open(mut own: Contact, open: bool) -> Result<Self, Errno> {
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
        let door = Self { own, listener, events, callers, ready };
        door.watch(&door.listener)?;
        Ok(door)
    }

    /// A descriptor that can be read when there is something to look at.
    pub(crate) fn events(&self) -> io::Result<OwnedFd> {
        self.events.try_clone()
    }

    /// Has what comes in be an event, until it is closed.
    fn watch(&self, socket: &OwnedFd) -> Result<(), Errno> {
        epoll::add(&self.events, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// What others have to know of this process.
    pub(crate) const fn own(&self) -> Contact {
        self.own
    }

    /// Whether a caller has said hello. Lets callers in, and goes on with their greetings.
    pub(crate) fn is_called(&mut self) -> bool {
        self.let_in(Instant::now());
        let callers = core::mem::take(&mut self.callers);
        for Caller { since, stage } in callers {
            match stage.go_on(&self.own) {
                Ok(Ok(hello)) => self.ready.push_back(hello),
                Ok(Err(stage)) => self.callers.push_back(Caller { since, stage }),
                // It is dropped.
                Err(NoAnswer) => {}
            }
        }
        !self.ready.is_empty()
    }

    /// Lets in as many as there is room for, and drops those that have been silent for long.
    fn let_in(&mut self, now: Instant) {
        let is_late = |caller: &Caller, time| now.duration_since(caller.since) >= time;
        while self.callers.front().is_some_and(|oldest| is_late(oldest, PATIENCE)) {
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
            // Of this host, others' processes do not get in.
            let may_enter = self.own.address.is_some() || peer_process(&caller).is_some();
            if may_enter && self.watch(&caller).is_ok() {
                let stage = CallerStage::Let(Reader::new(caller));
                self.callers.push_back(Caller { since: now, stage });
            }
        }
    }

    /// The next caller that has said hello.
    pub(super) fn next(&mut self) -> Option<Hello> {
        self.ready.pop_front()
    }
}

impl CallerStage {
    /// Takes in what the caller says: its hello, or how far it is.
    fn go_on(self, own: &Contact) -> Result<Result<Hello, Self>, NoAnswer> {
        let (greeting, mut reader) = match self {
            Self::Let(mut reader) => {
                let Some(bytes) = reader.read()? else { return Ok(Err(Self::Let(reader))) };
                let asked = greeting::read_opening(&bytes).ok_or(NoAnswer)?;
                let (greeting, counter) = Greeting::counter(own.key, asked, challenge()?);
                // So few bytes have room, or the caller reads nothing.
                let sent = send(&reader.socket, &counter, FLAGS);
                if sent != Ok(COUNTER) {
                    return Err(NoAnswer);
                }
                (greeting, Box::new(Reader::new(reader.socket)))
            }
            Self::Asked(greeting, reader) => (greeting, reader),
        };
        let Some(bytes) = reader.read()? else { return Ok(Err(Self::Asked(greeting, reader))) };
        let (from, card) = greeting.read_hello(own, &bytes).ok_or(NoAnswer)?;
        Ok(Ok(Hello { from, card, greeting, socket: reader.socket }))
    }
}

impl Hello {
    /// Shows the caller the card of the end that is for it.
    pub(super) fn answer(self, card: &Card) -> Guest {
        // So few bytes always have room; a caller that is gone need not know.
        let _ = send(&self.socket, &self.greeting.answer(card), FLAGS);
        Guest(Reader::new(self.socket))
    }
}

impl Guest {
    /// Whether it has said that its end is connected.
    pub(super) fn is_connected(&mut self) -> Result<bool, NoAnswer> {
        self.0.read().map(|said| said.is_some())
    }
}

impl Call {
    /// A call of `own` at the door of `to`, which shows the card of the end that is for it.
    pub(super) const fn new(own: &Contact, to: Contact, card: &Card) -> Self {
        Self { from: own.without_key(), to, card: *card, stage: CallStage::Idle, calls: 0 }
    }

    /// The card of the other's end, once it answers. What is awaited is an event of `own`, the caller's door, if
    /// [all is said](Call::has_said_all).
    pub(super) fn poll(&mut self, own: &Door) -> Result<Option<Card>, NoAnswer> {
        loop {
            match self.go_on(own) {
                Ok(true) => {}
                Ok(false) => break,
                // The other has dropped us, perhaps because it had to wait: it may have room by now.
                Err(Dropped::Late) if self.calls < CALLS => self.stage = CallStage::Idle,
                Err(_) => return Err(NoAnswer),
            }
        }
        Ok(match &self.stage {
            CallStage::Answered(card, _) => Some(*card),
            _ => None,
        })
    }

    /// Takes one step. False: there is nothing to do but to wait.
    fn go_on(&mut self, own: &Door) -> Result<bool, Dropped> {
        let (stage, moved) = match core::mem::replace(&mut self.stage, CallStage::Idle) {
            CallStage::Idle => match self.connect() {
                Ok(socket) => {
                    own.watch(&socket).map_err(|_| Dropped::Refused)?;
                    self.calls += 1;
                    let challenge = challenge()?;
                    let opening = Writer::new(socket, greeting::open(&challenge));
                    (CallStage::Opening(challenge, opening), true)
                }
                // There is a queue before the door.
                Err(Errno::AGAIN | Errno::INTR) => (CallStage::Idle, false),
                Err(_) => return Err(Dropped::Refused),
            },
            CallStage::Opening(challenge, mut opening) => {
                if opening.write()? {
                    (CallStage::Opened(challenge, Reader::new(opening.socket)), true)
                } else {
                    (CallStage::Opening(challenge, opening), false)
                }
            }
            CallStage::Opened(challenge, mut counter) => match counter.read()? {
                Some(bytes) => {
                    let greeting = Greeting::read_counter(self.to.key, challenge, &bytes);
                    let greeting = greeting.ok_or(Dropped::Refused)?;
                    let hello = greeting.hello(&self.from, &self.to, &self.card);
                    (CallStage::Greeting(greeting, Writer::new(counter.socket, hello)), true)
                }
                None => (CallStage::Opened(challenge, counter), false),
            },
            CallStage::Greeting(greeting, mut hello) => {
                if hello.write()? {
                    (CallStage::Greeted(greeting, Reader::new(hello.socket)), true)
                } else {
                    (CallStage::Greeting(greeting, hello), false)
                }
            }
            CallStage::Greeted(greeting, mut answer) => match answer.read()? {
                Some(bytes) => {
                    let card = greeting.read_answer(&bytes).ok_or(Dropped::Refused)?;
                    (CallStage::Answered(card, answer.socket), false)
                }
                None => (CallStage::Greeted(greeting, answer), false),
            },
            answered @ CallStage::Answered(..) => (answered, false),
        };
        self.stage = stage;
        Ok(moved)
    }

    /// Whether there is nothing to do but to wait for what makes an event.
    pub(super) const fn has_said_all(&self) -> bool {
        use CallStage::{Answered, Greeted, Opened};
        matches!(self.stage, Opened(..) | Greeted(..) | Answered(..))
    }

    /// Says that our end is connected.
    pub(super) fn confirm(&self) {
        if let CallStage::Answered(_, socket) = &self.stage {
            // One byte always has room; a peer that is gone need not know.
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
        // Others' processes are not talked to.
        peer_process(&socket).map(|_| socket).ok_or(Errno::PERM)
    }
}

/// Why a call cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Dropped {
    /// Nothing listens there, or not the process that was meant.
    Refused,
    /// The other has ended the conversation.
    Late,
}

impl From<NoAnswer> for Dropped {
    fn from(_: NoAnswer) -> Self {
        Self::Late
    }
}

/// A new challenge.
fn challenge() -> Result<Challenge, NoAnswer> {
    let mut challenge = Challenge::default();
    getrandom(&mut challenge, GetRandomFlags::empty()).map_err(|_| NoAnswer)?;
    Ok(challenge)
}

/// Writes so many bytes as there is room.
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

    /// Whether all of them are written.
    fn write(&mut self) -> Result<bool, Dropped> {
        while self.written < LENGTH {
            match send(&self.socket, &self.bytes[self.written..], FLAGS) {
                Ok(written) => self.written += written,
                // The way there is not known to be open yet.
                Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => return Ok(false),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Dropped::Late),
                Err(_) => return Err(Dropped::Refused),
            }
        }
        Ok(true)
    }
}

/// Reads so many bytes as they come.
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

    /// All of them, once they are here.
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

fn name_of(Contact { nonce, rank, .. }: &Contact) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("strait-door-{nonce:016x}-{rank}").as_bytes())
}

/// The address by which this host talks to others, with any port. Nothing is sent to find it.
fn own_address() -> SocketAddr {
    let ask = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // An address that is nobody's (RFC 5737): the way there is that to other networks.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    // Where there is no such way, some network that there is.
    let other = || {
        let all = if_addrs::get_if_addrs().unwrap_or_default();
        let mut far = all.iter().filter(|one| !one.is_loopback() && one.ip().is_ipv4());
        far.next().map(if_addrs::Interface::ip)
    };
    let address = ask().ok().or_else(other).unwrap_or(Ipv4Addr::LOCALHOST.into());
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests;
