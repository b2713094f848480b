//! Doors: where a process that knows another's name asks to be connected to it.
//!
//! ```text
//! who calls                                     who is called
//!  | connect to the door                         | (listens, and looks up when it makes progress)
//!  | HELLO   whom, who, the card of its end      |
//!  |-------------------------------------------->| who is it? on this host the same user; and means us
//!  |         the card of the end that is for it  |
//!  |<--------------------------------------------|
//!  | one byte: our end is connected              |
//!  |-------------------------------------------->|
//! ```
//!
//! Who answers has connected its end, or tries to; and it asks nothing of it before the byte: an end that is not connected answers no request, and
//! a device that is not answered for seconds gives up, while who called may compute for longer.
//!
//! A process whose device reaches this host alone listens at an abstract Unix socket, one whose device reaches further at a TCP port, which
//! its name tells. Two that call each other show the same cards twice. Nobody waits in here: what is not there yet is looked for again, and
//! who sleeps is woken by [`Door::events`].

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, getsockname, listen, recv, send, socket_with,
};
use strait_core::ring::Card;

use crate::boot::{Contact, peer_process};

/// Callers that wait to be let in.
const BACKLOG: i32 = 4096;

/// Callers that are in and have not spoken, at most. One that never does gives way to those who come.
const CALLERS: usize = BACKLOG as usize;

/// `STRdoor` and the version of the greeting.
const MAGIC: u64 = u64::from_le_bytes(*b"STRdoor\x01");

/// Bytes of a greeting.
///
/// | offset | size | what                          |
/// |-------:|-----:|-------------------------------|
/// |      0 |    8 | `STRdoor`                     |
/// |      8 |    8 | whom: the universe            |
/// |     16 |    4 | whom: the rank there          |
/// |     24 |   40 | who ([`Contact::to_bytes`])   |
/// |     64 |   96 | the card                      |
const HELLO: usize = 24 + Contact::BYTES + Card::LENGTH;

/// The door of one process. It goes with it, and has no name in a file system.
#[derive(Debug)]
pub(crate) struct Door {
    own: Contact,
    listener: OwnedFd,
    /// Can be read when there is something to look at: who comes, and what is said in conversations that have begun.
    events: OwnedFd,
    /// Those who came and have not spoken.
    callers: Vec<Reader<HELLO>>,
}

/// Somebody wants to be connected.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) from: Contact,
    /// Of the caller's end.
    pub(super) card: Card,
    socket: OwnedFd,
}

/// A call at the door of another.
#[derive(Debug)]
pub(super) struct Call {
    to: Contact,
    hello: [u8; HELLO],
    /// Bytes of the greeting that are said.
    said: usize,
    /// `None`: it has not rung.
    answer: Option<Reader<{ Card::LENGTH }>>,
}

/// Who was answered.
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
        let door = Self { own, listener, events, callers: Vec::new() };
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

    /// Whether anybody is there.
    pub(crate) fn is_called(&mut self) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(caller) = accept_with(&self.listener, flags) {
            // Of this host, others' processes do not get in.
            let may_enter = self.own.address.is_some() || peer_process(&caller).is_some();
            if !may_enter || self.watch(&caller).is_err() {
                continue;
            }
            if self.callers.len() == CALLERS {
                self.callers.remove(0);
            }
            self.callers.push(Reader::new(caller));
        }
        !self.callers.is_empty()
    }

    /// The next who has spoken.
    pub(super) fn next(&mut self) -> Option<Hello> {
        let mut place = 0;
        while let Some(caller) = self.callers.get_mut(place) {
            let heard = caller.read();
            if heard == Ok(None) {
                place += 1;
                continue;
            }
            let Reader { socket, .. } = self.callers.swap_remove(place);
            if let Ok(Some(bytes)) = heard
                && let Some((from, card)) = parse(&self.own, &bytes)
            {
                return Some(Hello { from, card, socket });
            }
        }
        None
    }
}

impl Hello {
    /// Shows the caller the card of the end that is for it.
    pub(super) fn answer(self, card: &Card) -> Guest {
        // So few bytes always have room; a caller that is gone need not know.
        let _ = send(&self.socket, &card.to_bytes(), FLAGS);
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
    pub(super) fn new(own: &Contact, to: Contact, card: &Card) -> Self {
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(&MAGIC.to_le_bytes());
        hello[8..16].copy_from_slice(&to.nonce.to_le_bytes());
        hello[16..20].copy_from_slice(&to.rank.to_le_bytes());
        hello[24..][..Contact::BYTES].copy_from_slice(&own.to_bytes());
        hello[24 + Contact::BYTES..].copy_from_slice(&card.to_bytes());
        Self { to, hello, said: 0, answer: None }
    }

    /// The card of the other's end, once it answers. The answer is an event of `own`, the caller's door, if [all is
    /// said](Call::has_said_all).
    pub(super) fn poll(&mut self, own: &Door) -> Result<Option<Card>, NoAnswer> {
        if self.answer.is_none() {
            match self.ring().and_then(|socket| own.watch(&socket).map(|()| socket)) {
                Ok(socket) => self.answer = Some(Reader::new(socket)),
                // There is a queue before the door.
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(_) => return Err(NoAnswer),
            }
        }
        let Some(answer) = &mut self.answer else { return Ok(None) };
        while self.said < HELLO {
            match send(&answer.socket, &self.hello[self.said..], FLAGS) {
                Ok(said) => self.said += said,
                // The way there is not known to be open yet.
                Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => return Ok(None),
                Err(_) => return Err(NoAnswer),
            }
        }
        answer.read().map(|card| card.map(Card::from_bytes))
    }

    /// Whether there is nothing to do but to wait.
    pub(super) const fn has_said_all(&self) -> bool {
        self.said == HELLO
    }

    /// Says that our end is connected.
    pub(super) fn confirm(&self) {
        if let Some(answer) = &self.answer {
            // One byte always has room; a peer that is gone need not know.
            let _ = send(&answer.socket, &[1], FLAGS);
        }
    }

    fn ring(&self) -> Result<OwnedFd, Errno> {
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

/// Who says hello to `own`, and with which card.
fn parse(own: &Contact, bytes: &[u8; HELLO]) -> Option<(Contact, Card)> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let rank = u32::from_le_bytes(*bytes.get(16..)?.first_chunk()?);
    let from = Contact::from_bytes(bytes.get(24..)?.first_chunk()?);
    let card = Card::from_bytes(*bytes.last_chunk()?);
    let is_for_us = word(0)? == MAGIC && (word(8)?, rank) == (own.nonce, own.rank);
    is_for_us.then_some((from, card))
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
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn contact(rank: u32) -> Contact {
        Contact { nonce: crate::segment::nonce().unwrap(), rank, host: 0, address: None }
    }

    fn is_readable(door: &Door) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&door.events, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    /// What `look` finds, in the end.
    fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_knocks_is_answered_and_who_means_somebody_else_is_not() {
        let [mine, theirs] = [1, 2].map(|byte| Card::from_bytes([byte; Card::LENGTH]));
        for open in [false, true] {
            let (own, caller) = (contact(0), contact(1));
            let mut door = Door::open(own, open).unwrap();
            let own = door.own();
            assert_eq!(own.address.is_some(), open);
            let mut call = Call::new(&caller, own, &theirs);
            let mut stray = Call::new(&caller, Contact { rank: 7, ..own }, &theirs);
            stray.to = own;
            let callers = Door::open(contact(2), false).unwrap();
            let hello = until(|| {
                assert_eq!([call.poll(&callers), stray.poll(&callers)], [Ok(None); 2]);
                assert!(!call.has_said_all() || is_readable(&door), "a caller wakes who is called");
                door.is_called().then(|| door.next()).flatten()
            });
            assert_eq!((hello.from, hello.card), (caller, theirs));
            let mut guest = hello.answer(&mine);
            until(|| is_readable(&callers).then_some(()));
            assert_eq!(until(|| call.poll(&callers).unwrap()), mine);
            assert_eq!(guest.is_connected(), Ok(false));
            call.confirm();
            until(|| guest.is_connected().unwrap().then_some(()));
            drop(call);
            assert_eq!(guest.is_connected(), Ok(true), "what was said stays");
            until(|| {
                assert!(!door.is_called() || door.next().is_none());
                stray.poll(&callers).err()
            });
        }
    }

    #[test]
    fn a_door_goes_with_its_owner() {
        let card = Card::from_bytes([0; Card::LENGTH]);
        for open in [false, true] {
            let [door, callers] = [0, 1].map(|rank| Door::open(contact(rank), open).unwrap());
            let own = door.own();
            let mut call = Call::new(&own, own, &card);
            assert_eq!(call.poll(&callers), Ok(None));
            drop(door);
            until(|| call.poll(&callers).err());
            let mut late = Call::new(&own, own, &card);
            until(|| late.poll(&callers).err());
        }
    }
}
