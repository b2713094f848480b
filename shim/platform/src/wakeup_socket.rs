//! Wake-up sockets: wake-ups that a thread can wait for beside other descriptors.
//!
//! A thread cannot wait for a futex word together with a device's descriptor. So a rank that has a
//! device sleeps in `poll(2)`. To wake it, a peer sends an empty datagram to the rank's abstract
//! Unix socket.
//!
//! An abstract socket is no file, and goes with its process. Any process on the host may send to
//! it. A datagram is only a hint that the rank should poll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

use crate::Rank;

/// The name of a wake-up socket.
#[derive(Clone, Copy, Debug)]
pub struct WakeupName {
    /// The kind of object for which it wakes the rank.
    pub kind: &'static str,
    /// The nonce of that object.
    pub nonce: u64,
    /// The rank that listens.
    pub rank: Rank,
}

impl WakeupName {
    fn address(&self) -> io::Result<SocketAddr> {
        let Self { kind, nonce, rank } = self;
        SocketAddr::from_abstract_name(format!("strait-{kind}-{nonce:016x}-{rank}"))
    }
}

/// A wake-up socket, at the rank that listens.
#[derive(Debug)]
pub struct WakeupSocket(UnixDatagram);

impl WakeupSocket {
    /// Binds a wake-up socket. A name can be bound once.
    pub fn bind(name: &WakeupName) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name.address()?)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Discards the datagrams that have come.
    pub fn drain(&self) {
        while self.0.recv(&mut []).is_ok() {}
    }

    /// Returns a duplicate of its descriptor, for other waiters.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}

impl AsFd for WakeupSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a datagram to the wake-up socket of this name. It ignores errors: a socket that is gone
/// needs no wake-up, and a full one has one pending.
pub fn notify(name: &WakeupName) {
    static SOCKET: OnceLock<io::Result<UnixDatagram>> = OnceLock::new();
    let socket = SOCKET.get_or_init(|| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    if let (Ok(socket), Ok(address)) = (socket, name.address()) {
        let _ = socket.send_to_addr(&[], &address);
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_heard(wakeup_socket: &WakeupSocket) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(wakeup_socket, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    #[test]
    fn a_wakeup_is_pending_until_drained() {
        let nonce = crate::segment::nonce().unwrap();
        let [name, other] = [0, 1].map(|rank| WakeupName { kind: "test", nonce, rank });
        let wakeup_socket = WakeupSocket::bind(&name).unwrap();
        assert!(WakeupSocket::bind(&name).is_err(), "a name can be bound once");
        notify(&other);
        assert!(!is_heard(&wakeup_socket));
        // More datagrams than the socket has room for.
        (0..10_000).for_each(|_| notify(&name));
        assert!(is_heard(&wakeup_socket));
        wakeup_socket.drain();
        assert!(!is_heard(&wakeup_socket));
        drop(wakeup_socket);
        notify(&name);
        WakeupSocket::bind(&name).unwrap();
    }
}
