//! Chimes: rings that are heard beside descriptors.
//!
//! A futex word cannot be waited for together with a device's descriptor. So a rank that has a device sleeps in `poll(2)`, and who
//! rings for it sends an empty datagram to an abstract Unix socket, which is no file and goes with its process. Anybody on the
//! host may send there, and what comes means nothing but that there may be something to look at.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

use crate::Rank;

/// What a chime is called: what it rings for, the number that was drawn for that, and the rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) kind: &'static str,
    pub(crate) nonce: u64,
    pub(crate) rank: Rank,
}

impl Name {
    fn address(&self) -> io::Result<SocketAddr> {
        let Self { kind, nonce, rank } = self;
        SocketAddr::from_abstract_name(format!("strait-{kind}-{nonce:016x}-{rank}"))
    }
}

/// A chime, at the side that hears it.
#[derive(Debug)]
pub(crate) struct Chime(UnixDatagram);

impl Chime {
    /// Hangs a chime. A name is given once.
    pub(crate) fn hang(name: &Name) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name.address()?)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Forgets the rings that have come.
    pub(crate) fn hush(&self) {
        while self.0.recv(&mut []).is_ok() {}
    }

    /// Its descriptor, for others who wait for it.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}

impl AsFd for Chime {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Rings the chime of this name. Where it hangs no more, or rings so often that there is no room, nobody has to be told.
pub(crate) fn ring(name: &Name) {
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

    fn is_heard(chime: &Chime) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(chime, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    #[test]
    fn a_ring_is_heard_until_it_is_hushed() {
        let nonce = crate::segment::nonce().unwrap();
        let [name, other] = [0, 1].map(|rank| Name { kind: "test", nonce, rank });
        let chime = Chime::hang(&name).unwrap();
        assert!(Chime::hang(&name).is_err(), "a name is given once");
        ring(&other);
        assert!(!is_heard(&chime));
        // More often than there is room for.
        (0..10_000).for_each(|_| ring(&name));
        assert!(is_heard(&chime));
        chime.hush();
        assert!(!is_heard(&chime));
        drop(chime);
        ring(&name);
        Chime::hang(&name).unwrap();
    }
}
