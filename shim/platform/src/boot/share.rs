//! Shares one descriptor among several ranks of a job on one host, without a launcher's help.
//!
//! One of the ranks has the descriptor. It listens on an abstract Unix socket, and puts the
//! socket's name and a nonce into the job's key-value store. After a fence the others connect, show
//! the nonce, and get the descriptor:
//!
//! ```text
//! fetching rank                            offering rank
//!  |                put NAME = socket's name, nonce  | (in the key-value store)
//!  |-------------------- fence ----------------------|
//!  | HELLO   versions, rank, pid, nonce              |
//!  |------------------------------------------------>| checks the user, the rank and the nonce
//!  |          the descriptor, its length   WELCOME   |
//!  |<------------------------------------------------|
//! ```
//!
//! An abstract socket is no file: whatever kills its owner, nothing is left of it. Every process on
//! the host can see its name. So the kernel's credentials identify the user at the other end. The
//! nonce, which is in the store alone, shows that the process is of the job.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use strait_core::layout::LAYOUT_VERSION;

use super::BootError;
use super::greet;
use super::join::{await_answer, receive};
use super::message::{Hello, JoinRefusal, Malformed, PROTOCOL, Reply};
use super::store::KeyValueStore;
use crate::backoff::{FETCH_PERIOD, LIVENESS_PERIOD, PeriodicWait};
use crate::liveness::ProcessName;
use crate::{Rank, segment};

/// Time within which ranks that passed the fence must fetch the shared descriptor, and within which
/// it must be sent. They do it at once unless they are stopped, or die.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// The listener from which other ranks fetch a descriptor.
#[derive(Debug)]
pub(super) struct DescriptorListener {
    listener: OwnedFd,
    nonce: u64,
}

/// A process that has received the descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Served {
    pub(super) rank: Rank,
    /// The process's number as the kernel reports it here; 0 where it has none.
    pub(super) pid: u32,
    /// The process's number as it reports it itself.
    own_pid: u32,
}

impl Served {
    /// Returns whether the process has the same number to itself and here. Then the number is valid
    /// for other ranks too.
    pub(super) const fn has_our_numbers(&self) -> bool {
        self.pid == self.own_pid
    }
}

impl DescriptorListener {
    /// Opens a listener and puts its address into `store`. The caller then passes a fence and calls
    /// [`DescriptorListener::serve`].
    pub(super) fn open(store: &mut dyn KeyValueStore, name: &str) -> Result<Self, BootError> {
        let random = || segment::nonce().map_err(BootError::Segment);
        let (number, nonce) = (random()?, random()?);
        let listener = socket().map_err(BootError::Socket)?;
        let address = address(number).map_err(BootError::Socket)?;
        rustix::net::bind(&listener, &address).map_err(BootError::Socket)?;
        rustix::net::listen(&listener, BACKLOG).map_err(BootError::Socket)?;
        store.put(&key(name), format!("{number:016x} {nonce:016x}").as_bytes())?;
        Ok(Self { listener, nonce })
    }

    /// Sends `file` of `length` bytes to each of `members` once, in the order in which they
    /// connect. It calls `served` for each before it sends the copy. It asks from time to time
    /// which of the absent members are dead, and does not wait for those.
    ///
    /// # Errors
    ///
    /// [`BootError::Absent`] when not all members came before the time limit.
    pub(super) fn serve(
        &self,
        file: BorrowedFd<'_>,
        (nonce, length, ranks): (u64, u64, u32),
        members: &[Rank],
        limit: Duration,
        mut is_dead: impl FnMut(Rank) -> bool,
        mut served: impl FnMut(Served),
    ) -> Result<(), BootError> {
        let deadline = Instant::now() + limit;
        let mut asked = Instant::now();
        let mut dead: Vec<Rank> = Vec::new();
        let mut done: Vec<Served> = Vec::new();
        let mut callers: Vec<(OwnedFd, u32)> = Vec::new();
        let welcome = Reply::Welcome { nonce, length, ranks, nodes: 0 };
        loop {
            let came = |rank: &Rank| done.iter().any(|served| served.rank == *rank);
            let is_awaited = |rank: &Rank| !came(rank) && !dead.contains(rank);
            let absent: Vec<_> = members.iter().copied().filter(is_awaited).collect();
            if absent.is_empty() {
                return Ok(());
            }
            if asked.elapsed() >= LIVENESS_PERIOD {
                dead.extend(absent.into_iter().filter(|rank| is_dead(*rank)));
                asked = Instant::now();
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = ready(&self.listener, &callers, left.min(LIVENESS_PERIOD))
                .map_err(BootError::Socket)?;
            if ready.is_empty() && left.is_zero() {
                return Err(BootError::Absent { ranks: absent, seconds: limit.as_secs() });
            }
            // From the last to the first, so that `swap_remove` does not move the others.
            for place in ready.into_iter().rev() {
                let Some(caller) = place else {
                    callers.extend(self.let_in()?);
                    continue;
                };
                let (socket, pid) = callers.swap_remove(caller);
                let (reply, member) = match self.judge(&socket, members, &done, pid) {
                    Some(Ok(member)) => (welcome, Some(member)),
                    Some(Err(refusal)) => (Reply::Refused(refusal), None),
                    None => continue,
                };
                if let Some(member) = member {
                    served(member);
                }
                let sent = greet::send(&socket, &reply, member.map(|_| file)).is_ok();
                // A member that asks a second time has lost its first answer.
                done.extend(member.filter(|new| sent && !done.contains(new)));
            }
        }
    }

    /// Accepts the next connection, if its process belongs to this user.
    fn let_in(&self) -> Result<Option<(OwnedFd, u32)>, BootError> {
        match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
            Ok(caller) => Ok(peer_process(&caller).map(|pid| (caller, pid))),
            // The connection would stay pending for ever, and no retry could accept it.
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                Err(BootError::Socket(error))
            }
            Err(_) => Ok(None),
        }
    }

    /// Checks the greeting of a connection, and whether its process may have the descriptor.
    /// Returns `None` for bytes that are not a greeting.
    fn judge(
        &self,
        caller: &OwnedFd,
        members: &[Rank],
        done: &[Served],
        pid: u32,
    ) -> Option<Result<Served, JoinRefusal>> {
        let hello = match greet::receive_hello(caller).ok()? {
            Ok(hello) => hello,
            Err(Malformed::Protocol { .. }) => {
                return Some(Err(JoinRefusal::Protocol { launcher: PROTOCOL }));
            }
            Err(_) => return None,
        };
        if hello.layout != LAYOUT_VERSION {
            return Some(Err(JoinRefusal::Layout { launcher: LAYOUT_VERSION }));
        }
        if hello.nonce != self.nonce || !members.contains(&hello.rank) {
            return Some(Err(JoinRefusal::UnknownPeer));
        }
        let served = Served { rank: hello.rank, pid, own_pid: hello.pid };
        match done.iter().find(|done| done.rank == served.rank) {
            Some(other) if *other != served => Some(Err(JoinRefusal::Taken { pid: other.pid })),
            _ => Some(Ok(served)),
        }
    }
}

/// Fetches the descriptor that is offered under `name`, after the fence. Returns it with the reply,
/// which has the nonce and the length.
pub(super) fn fetch(
    store: &mut dyn KeyValueStore,
    name: &str,
    rank: Rank,
    limit: Duration,
) -> Result<(Reply, OwnedFd), BootError> {
    let value =
        store.get(&key(name))?.ok_or_else(|| BootError::NotOffered { name: name.into() })?;
    let numbers = str::from_utf8(&value).ok().and_then(|text| text.split_once(' '));
    let parsed = numbers.and_then(|(number, nonce)| {
        Some((u64::from_str_radix(number, 16).ok()?, u64::from_str_radix(nonce, 16).ok()?))
    });
    let (number, nonce) =
        parsed.ok_or_else(|| BootError::Malformed { what: format!("{value:02x?} for {name}") })?;
    let hello = Hello { nonce, ..Hello::new(rank, std::process::id()) };
    let wait = PeriodicWait::new(FETCH_PERIOD, limit);
    loop {
        match attempt(number, &hello, limit) {
            Ok((reply @ Reply::Welcome { .. }, Some(file))) => return Ok((reply, file)),
            Ok((Reply::Welcome { .. }, None)) => return Err(BootError::NoDescriptor),
            Ok((Reply::Refused(refusal), _)) => return Err(BootError::Refused(refusal)),
            // The listener is closed, and does not open again.
            Err(BootError::Socket(Errno::CONNREFUSED)) => {
                return Err(BootError::Withdrawn { name: name.into() });
            }
            Err(error @ BootError::OtherUser { .. }) => return Err(error),
            Err(error) => {
                if !wait.pause() {
                    return Err(error);
                }
            }
        }
    }
}

/// Shares one descriptor among all ranks of the job, which are on one host. Rank 0 makes it. Every
/// rank calls it. Rank 0 does not wait for ranks that are dead, by `is_dead` or by their processes.
pub fn share(
    store: &mut dyn KeyValueStore,
    name: &str,
    (rank, ranks): (Rank, u32),
    is_dead: impl Fn(Rank) -> bool,
    make: impl FnOnce() -> io::Result<OwnedFd>,
) -> Result<OwnedFd, BootError> {
    if rank != 0 {
        introduce(store, name, rank)?;
        store.fence()?;
        return fetch(store, name, rank, TIMEOUT).map(|(_, file)| file);
    }
    let prepared = prepare(store, name, make);
    // The ranks that wait at the fence must not wait for ever because rank 0 failed.
    store.fence()?;
    let (file, length, listener) = prepared?;
    let others: Vec<_> = (1..ranks).collect();
    let is_dead = |rank| is_dead(rank) || has_died(store, name, rank);
    listener.serve(file.as_fd(), (0, length, ranks), &others, TIMEOUT, is_dead, drop)?;
    Ok(file)
}

/// Puts the name of this process into `store`, before the fence. So the rank that shares `name`
/// learns if this process ends before it has the descriptor, also where no launcher tells of deaths
/// and the two are on different nodes of one host.
pub(super) fn introduce(
    store: &mut dyn KeyValueStore,
    name: &str,
    rank: Rank,
) -> Result<(), BootError> {
    Ok(store.put(&process_key(name, rank), ProcessName::own().encode().as_bytes())?)
}

/// Returns whether `rank` has died: its process has ended, or it passed no fence after
/// [`introduce`].
pub(super) fn has_died(store: &mut dyn KeyValueStore, name: &str, rank: Rank) -> bool {
    match store.get(&process_key(name, rank)) {
        Ok(Some(found)) => ProcessName::parse(&found).is_some_and(|process| process.has_ended()),
        Ok(None) => true,
        Err(_) => false,
    }
}

fn prepare(
    store: &mut dyn KeyValueStore,
    name: &str,
    make: impl FnOnce() -> io::Result<OwnedFd>,
) -> Result<(OwnedFd, u64, DescriptorListener), BootError> {
    let failed =
        |error: io::Error| BootError::NotMade { name: name.into(), what: error.to_string() };
    let file = make().map_err(failed)?;
    let status = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
    Ok((file, status.st_size.cast_unsigned(), DescriptorListener::open(store, name)?))
}

fn attempt(
    number: u64,
    hello: &Hello,
    limit: Duration,
) -> Result<(Reply, Option<OwnedFd>), BootError> {
    let socket = socket().map_err(BootError::Socket)?;
    let address = address(number).map_err(BootError::Socket)?;
    rustix::net::connect(&socket, &address).map_err(BootError::Socket)?;
    if peer_process(&socket).is_none() {
        return Err(BootError::OtherUser { socket: number });
    }
    rustix::net::send(&socket, &hello.encode(), SendFlags::NOSIGNAL).map_err(BootError::Socket)?;
    await_answer(&socket, limit)?;
    receive(&socket)
}

fn key(name: &str) -> String {
    format!("strait-{name}")
}

fn process_key(name: &str, rank: Rank) -> String {
    format!("strait-{name}-of-{rank}")
}

fn socket() -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

fn address(number: u64) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("strait-{number:016x}").as_bytes())
}

/// Returns the process at the other end if it belongs to the same user as this one. Its number is 0
/// where it has none here, and `rustix` has no type for that.
pub fn peer_process(socket: impl AsFd) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `peer`, and any bytes are valid for it.
    let refused = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    let known = refused == 0 && length as usize == size_of::<libc::ucred>();
    (known && peer.uid == rustix::process::geteuid().as_raw()).then(|| peer.pid.cast_unsigned())
}

/// Waits for an event. `None` is a new connection; `Some` is the index of a connection that sent
/// bytes or closed.
fn ready(
    listener: &OwnedFd,
    callers: &[(OwnedFd, u32)],
    left: Duration,
) -> Result<Vec<Option<usize>>, Errno> {
    let fds = core::iter::once(listener.as_fd()).chain(callers.iter().map(|(fd, _)| fd.as_fd()));
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(left).unwrap_or_default();
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout)))?;
    let found = fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
    Ok(found.map(|(place, _)| place.checked_sub(1)).collect())
}

#[cfg(test)]
mod tests;
