//! Doors: where a process that knows another's name alone asks to be connected to it.
//!
//! ```text
//! who calls                                     who is called
//!  | connect to the door                         | (listens, and looks up when it makes progress)
//!  | HELLO   whom, who, the card of its end      |
//!  |-------------------------------------------->| who is it? on this host the same user; and means us
//!  |         the card of the end that is for it  |
//!  |<--------------------------------------------|
//! ```
//!
//! A process whose device reaches this host alone listens at an abstract Unix socket, one whose device reaches further at a TCP port, which
//! its name tells. Two that call each other show the same cards twice. Nobody waits in here: what is not there yet is looked for again.

use core::net::{Ipv4Addr, SocketAddr};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

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
const CALLERS: usize = 256;

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
        Ok(Self { own, listener, callers: Vec::new() })
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
            if self.own.address.is_none() && peer_process(&caller).is_none() {
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
    pub(super) fn answer(&self, card: &Card) {
        // So few bytes always have room; a caller that is gone need not know.
        let _ = send(&self.socket, &card.to_bytes(), FLAGS);
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

    /// The card of the other's end, once it answers.
    pub(super) fn poll(&mut self) -> Result<Option<Card>, NoAnswer> {
        if self.answer.is_none() {
            match self.ring() {
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
    let ask = || -> io::Result<SocketAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // An address that is nobody's (RFC 5737): the way there is that to other networks.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    };
    let address = ask().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip());
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(rank: u32) -> Contact {
        Contact { nonce: crate::segment::nonce().unwrap(), rank, host: 0, address: None }
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
            let hello = until(|| {
                assert_eq!([call.poll(), stray.poll()], [Ok(None); 2]);
                door.is_called().then(|| door.next()).flatten()
            });
            assert_eq!((hello.from, hello.card), (caller, theirs));
            hello.answer(&mine);
            assert_eq!(until(|| call.poll().unwrap()), mine);
            until(|| {
                assert!(!door.is_called() || door.next().is_none());
                stray.poll().err()
            });
        }
    }

    #[test]
    fn a_door_goes_with_its_owner() {
        let card = Card::from_bytes([0; Card::LENGTH]);
        for open in [false, true] {
            let door = Door::open(contact(0), open).unwrap();
            let own = door.own();
            let mut call = Call::new(&own, own, &card);
            assert_eq!(call.poll(), Ok(None));
            drop(door);
            until(|| call.poll().err());
            let mut late = Call::new(&own, own, &card);
            until(|| late.poll().err());
        }
    }
}
