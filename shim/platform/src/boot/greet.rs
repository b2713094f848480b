//! The launcher's side of the boot exchange.

use core::mem::MaybeUninit;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use strait_core::layout::LAYOUT_VERSION;

use super::message::{Hello, JoinRefusal, Malformed, PROTOCOL, Reply};
use crate::segment::SegmentMap;

/// Makes a pair of connected sockets, launcher's and rank's, both closed on exec.
pub(super) fn socket_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// The launcher's end of the boot socket of one rank.
#[derive(Debug)]
pub(super) struct Greeter {
    socket: OwnedFd,
    rank: u32,
    taken_by: Option<u32>,
}

/// The state of a rank's socket after a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Greeted {
    /// More messages may come.
    Open,
    /// The other end is closed, or sent bytes that are not a greeting.
    Closed,
}

impl Greeter {
    pub(super) fn new(socket: OwnedFd, rank: u32) -> Self {
        Self { socket, rank, taken_by: None }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Answers the message that waits on the socket.
    ///
    /// A failure here concerns the rank alone. The rank learns of it by a refusal, or by the closed
    /// socket.
    pub(super) fn answer(&mut self, map: &SegmentMap, nonce: u64, nodes: u32) -> Greeted {
        let hello = match receive_hello(&self.socket) {
            Ok(hello) => hello,
            Err(socket) => return socket,
        };
        let verdict = match hello {
            Ok(hello) => self.judge(&hello).map(|()| hello.pid),
            Err(Malformed::Protocol { .. }) => Err(JoinRefusal::Protocol { launcher: PROTOCOL }),
            Err(_) => return Greeted::Closed,
        };
        let (reply, file) = match verdict {
            Ok(pid) => {
                self.taken_by = Some(pid);
                let segment = map.view();
                let (length, ranks) = (map.length() as u64, segment.ranks());
                (Reply::Welcome { nonce, length, ranks, nodes }, Some(map.fd()))
            }
            Err(refusal) => (Reply::Refused(refusal), None),
        };
        match send(&self.socket, &reply, file) {
            Ok(()) => Greeted::Open,
            Err(_) => Greeted::Closed,
        }
    }

    fn judge(&self, hello: &Hello) -> Result<(), JoinRefusal> {
        if hello.layout != LAYOUT_VERSION {
            return Err(JoinRefusal::Layout { launcher: LAYOUT_VERSION });
        }
        if hello.rank != self.rank {
            return Err(JoinRefusal::Rank { expected: self.rank });
        }
        match self.taken_by {
            Some(pid) => Err(JoinRefusal::Taken { pid }),
            None => Ok(()),
        }
    }
}

/// Returns the greeting that waits on `socket`; without one, the state of the socket.
pub(super) fn receive_hello(socket: &OwnedFd) -> Result<Result<Hello, Malformed>, Greeted> {
    let mut bytes = [0; Hello::BYTES + 1];
    match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
        Err(Errno::INTR | Errno::AGAIN) => Err(Greeted::Open),
        Err(_) | Ok((_, 0)) => Err(Greeted::Closed),
        Ok((_, received)) => Ok(Hello::parse(&bytes[..received.min(Hello::BYTES + 1)])),
    }
}

/// Sends one reply, with the descriptor `file` if there is one. It does not wait for a rank that
/// does not read.
pub(super) fn send(
    socket: &OwnedFd,
    reply: &Reply,
    file: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::MSGSIZE);
    }
    let bytes = reply.encode();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags).map(drop)
}
