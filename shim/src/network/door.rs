//! Doors: where a process that knows another's name alone asks to be connected to it.
//!
//! ```text
//! who calls                                     who is called
//!  | connect to strait-door-NONCE-RANK           | (listens, and looks up when it makes progress)
//!  | HELLO   whom, who, the card of its end      |
//!  |-------------------------------------------->| who is it? the same user, and means us
//!  |         the card of the end that is for it  |
//!  |<--------------------------------------------|
//! ```
//!
//! Two that call each other show the same cards twice. Nobody waits in here: what is not there yet is looked for again.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, listen, recv, send, socket_with,
};
use strait_core::ring::Card;

use crate::boot::{Contact, peer_process};

/// Callers that wait to be let in.
const BACKLOG: i32 = 4096;

/// `STRdoor` and the version of the greeting.
const MAGIC: u64 = u64::from_le_bytes(*b"STRdoor\x01");

/// Bytes of a greeting.
const HELLO: usize = 32 + Card::LENGTH;

/// The door of one process. It goes with it, and has no name in a file system.
#[derive(Debug)]
pub(crate) struct Door {
    own: Contact,
    listener: OwnedFd,
    /// Those who came and have not spoken.
    callers: Vec<OwnedFd>,
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
    /// Has heard the greeting.
    socket: Option<OwnedFd>,
}

/// Nobody answers any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoAnswer;

impl Door {
    /// Opens the door of `own`, which is this process.
    pub(crate) fn open(own: Contact) -> Result<Self, Errno> {
        let listener = socket()?;
        bind(&listener, &address(own)?)?;
        listen(&listener, BACKLOG)?;
        Ok(Self { own, listener, callers: Vec::new() })
    }

    /// Whether anybody is there.
    pub(crate) fn is_called(&mut self) -> bool {
        while let Ok(caller) =
            accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            // Others' processes do not get in.
            if peer_process(&caller).is_some() {
                self.callers.push(caller);
            }
        }
        !self.callers.is_empty()
    }

    /// The next who has spoken.
    pub(super) fn next(&mut self) -> Option<Hello> {
        let mut place = 0;
        while let Some(caller) = self.callers.get(place) {
            let mut bytes = [0; HELLO];
            let heard = recv(caller, &mut bytes, RecvFlags::DONTWAIT).map(|(_, length)| length);
            if matches!(heard, Err(Errno::AGAIN | Errno::INTR)) {
                place += 1;
                continue;
            }
            let socket = self.callers.swap_remove(place);
            if heard == Ok(HELLO)
                && let Some((from, card)) = parse(self.own, &bytes)
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
        // A caller that is gone need not know.
        let _ = send(&self.socket, &card.to_bytes(), FLAGS);
    }
}

impl Call {
    /// A call of `own` at the door of `to`, which shows the card of the end that is for it.
    pub(super) fn new(own: Contact, to: Contact, card: &Card) -> Self {
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(&MAGIC.to_le_bytes());
        hello[8..16].copy_from_slice(&to.nonce.to_le_bytes());
        hello[16..20].copy_from_slice(&to.rank.to_le_bytes());
        hello[20..24].copy_from_slice(&own.rank.to_le_bytes());
        hello[24..32].copy_from_slice(&own.nonce.to_le_bytes());
        hello[32..].copy_from_slice(&card.to_bytes());
        Self { to, hello, socket: None }
    }

    /// The card of the other's end, once it answers.
    pub(super) fn poll(&mut self) -> Result<Option<Card>, NoAnswer> {
        let Some(socket) = &self.socket else {
            return match self.ring() {
                Ok(()) => Ok(None),
                // There is a queue before the door.
                Err(Errno::AGAIN | Errno::INTR) => Ok(None),
                Err(_) => Err(NoAnswer),
            };
        };
        let mut card = [0; Card::LENGTH];
        match recv(socket, &mut card, RecvFlags::DONTWAIT) {
            Ok((_, Card::LENGTH)) => Ok(Some(Card::from_bytes(card))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Ok(_) | Err(_) => Err(NoAnswer),
        }
    }

    fn ring(&mut self) -> Result<(), Errno> {
        let socket = socket()?;
        connect(&socket, &address(self.to)?)?;
        if peer_process(&socket).is_none() {
            return Err(Errno::PERM);
        }
        send(&socket, &self.hello, FLAGS)?;
        self.socket = Some(socket);
        Ok(())
    }
}

/// Who says hello to `own`, and with which card.
fn parse(own: Contact, bytes: &[u8; HELLO]) -> Option<(Contact, Card)> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let to = Contact { nonce: word(8)?, rank: half(16)? };
    let from = Contact { nonce: word(24)?, rank: half(20)? };
    let card = Card::from_bytes(*bytes.last_chunk()?);
    (word(0)? == MAGIC && to == own).then_some((from, card))
}

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn address(Contact { nonce, rank }: Contact) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("strait-door-{nonce:016x}-{rank}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knocks_is_answered_and_who_means_somebody_else_is_not() {
        let nonce = crate::segment::nonce().unwrap();
        let [own, caller, third] = [0, 1, 2].map(|rank| Contact { nonce, rank });
        let [mine, theirs] = [1, 2].map(|byte| Card::from_bytes([byte; Card::LENGTH]));
        let mut call = Call::new(caller, own, &theirs);
        assert_eq!(call.poll(), Err(NoAnswer), "nobody is there");
        let mut door = Door::open(own).unwrap();
        assert!(!door.is_called());
        let mut stray = Call::new(caller, third, &theirs);
        stray.to = own;
        for call in [&mut stray, &mut call] {
            assert_eq!(call.poll(), Ok(None));
            assert_eq!(call.poll(), Ok(None));
        }
        assert!(door.is_called());
        let hello = door.next().unwrap();
        assert_eq!((hello.from, hello.card), (caller, theirs));
        assert!(door.next().is_none());
        hello.answer(&mine);
        assert_eq!(call.poll(), Ok(Some(mine)));
        assert_eq!(stray.poll(), Err(NoAnswer));
    }

    #[test]
    fn a_door_goes_with_its_owner() {
        let own = Contact { nonce: crate::segment::nonce().unwrap(), rank: 0 };
        let card = Card::from_bytes([0; Card::LENGTH]);
        let door = Door::open(own).unwrap();
        let mut call = Call::new(own, own, &card);
        assert_eq!(call.poll(), Ok(None));
        drop(door);
        assert_eq!(call.poll(), Err(NoAnswer));
        assert_eq!(Call::new(own, own, &card).poll(), Err(NoAnswer));
    }
}
