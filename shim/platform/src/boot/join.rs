//! Joins a process to its job: at Strait's launcher, or together with the ranks of its node under
//! another launcher.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketType,
};

use super::meet::meet;
use super::message::{Hello, Reply};
use super::pmi::{self, client::Client, mapping};
use super::store::KeyValueStore;
use super::{BootError, share};
use crate::nodes::Nodes;
use crate::segment::SegmentMap;
use crate::{env, liveness, topology};

/// Time within which the launcher must answer. It answers at once unless it was stopped.
const TIMEOUT: Duration = share::TIMEOUT;

/// A process's membership in a job.
#[derive(Debug)]
pub struct Membership {
    /// Its rank.
    pub rank: u32,
    /// The nodes of all ranks.
    pub nodes: Nodes,
    /// The segment of this node, in which this rank is alive now.
    pub map: SegmentMap,
    /// The store through which the ranks exchange data before they can send messages.
    pub store: Box<dyn KeyValueStore>,
    /// Whether the launcher reports every death to every node.
    pub deaths_are_told: bool,
}

/// Joins the job that this process was started for. It succeeds once per process.
///
/// Under `strait run` no rank waits for another. Under another launcher all ranks of the job join
/// together, as in `MPI_INIT`: the call waits until every rank has come.
///
/// # Errors
///
/// [`BootError`] when no launcher started this process, or when the two do not agree.
pub fn join() -> Result<Membership, BootError> {
    let (ours, pmi) = (LaunchContext::from_env()?, pmi::client::PmiContext::from_env()?);
    if ours.is_none() && pmi.is_none() {
        return Err(BootError::NotStarted);
    }
    once()?;
    let sockets = [ours.map(|place| place.fd), pmi.map(|place| place.fd)];
    sockets.into_iter().flatten().try_for_each(refuse_taken)?;
    let Some(place) = ours else {
        let place = pmi.ok_or(BootError::NotStarted)?;
        // SAFETY: the launcher made the socket for this process to own, and `once` lets one caller
        // take it.
        let socket = unsafe { place.take() }?;
        return join_by_pmi(socket, place.rank, place.size);
    };
    inspect(place.fd)?;
    // SAFETY: `inspect` found an open socket. The launcher made it for this process to own, and
    // `once` lets one caller take it.
    let socket = unsafe { OwnedFd::from_raw_fd(place.fd) };
    let pmi = pmi.ok_or(BootError::Unset { variable: env::PMI_FD.name })?;
    // SAFETY: the launcher made the PMI socket for this process to own, and `once` lets one caller
    // take it.
    let store = Box::new(Client::later(unsafe { pmi.take() }?));
    let (map, nodes) = join_over(&socket, place.rank, place.size, TIMEOUT)?;
    Ok(Membership { rank: place.rank, nodes, map, store, deaths_are_told: true })
}

/// Joins a job in which ranks find each other through `store`. Every rank calls it. Where the
/// embedder does not give the nodes, each rank puts the name of its host into the store.
pub fn join_with(
    mut store: Box<dyn KeyValueStore>,
    rank: u32,
    size: u32,
    nodes: Option<Nodes>,
) -> Result<Membership, BootError> {
    let nodes = match nodes {
        Some(nodes) => nodes,
        None => by_host(store.as_mut(), rank, size)?,
    };
    let map = meet(store.as_mut(), rank, &nodes)?;
    Ok(Membership { rank, nodes, map, store, deaths_are_told: false })
}

/// Lets one caller take the launcher's sockets during the life of the process.
pub(super) fn once() -> Result<(), BootError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) { Err(BootError::Twice) } else { Ok(()) }
}

/// Refuses a socket that another owner has taken: a copy of this library in the same process, or
/// the process that forked this one. Launchers pass on sockets that programs inherit. The owner of
/// a socket keeps it from its children, as [`inspect`] does.
fn refuse_taken(fd: RawFd) -> Result<(), BootError> {
    // SAFETY: the borrow ends with this function. For a number that is not open, the call fails.
    match rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }) {
        Ok(flags) if flags.contains(FdFlags::CLOEXEC) => Err(BootError::Twice),
        _ => Ok(()),
    }
}

/// Joins over the PMI socket of a launcher that does not know Strait.
pub(super) fn join_by_pmi(socket: OwnedFd, rank: u32, size: u32) -> Result<Membership, BootError> {
    let (store, nodes) = connect(socket, rank, size)?;
    join_with(store, rank, size, Some(nodes))
}

/// Returns the key-value store of the job, and the nodes of its ranks. Some launchers do not give
/// the nodes: then every rank of the job has to come, and to put the name of its host into the
/// store.
pub(super) fn connect(
    socket: OwnedFd,
    rank: u32,
    size: u32,
) -> Result<(Box<dyn KeyValueStore>, Nodes), BootError> {
    let mut client = Client::new(socket)?;
    let nodes = match client.mapping()? {
        Some(mapping) => mapping::parse(&mapping, size).map_err(BootError::Mapping)?,
        None => by_host(&mut client, rank, size)?,
    };
    Ok((Box::new(client), nodes))
}

fn by_host(store: &mut dyn KeyValueStore, rank: u32, size: u32) -> Result<Nodes, BootError> {
    let key = |rank| format!("strait-host-{rank}");
    store.put(&key(rank), topology::host().as_bytes())?;
    store.fence()?;
    let hosts: Result<Vec<_>, _> = (0..size).map(|rank| store.get(&key(rank))).collect();
    Ok(Nodes::named(hosts?))
}

/// The rank of this process as the environment gives it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LaunchContext {
    fd: RawFd,
    pub(super) rank: u32,
    pub(super) size: u32,
}

impl LaunchContext {
    /// Reads the environment. Returns `None` when Strait's launcher did not start this process.
    pub(super) fn from_env() -> Result<Option<Self>, BootError> {
        let Some(fd) = env::BOOT_FD.read(|&fd: &RawFd| fd > 2)? else { return Ok(None) };
        let size = env::SIZE.read(|&size: &u32| size > 0)?;
        let size = size.ok_or(BootError::Unset { variable: env::SIZE.name })?;
        let rank = env::RANK.read(|&rank: &u32| rank < size)?;
        let rank = rank.ok_or(BootError::Unset { variable: env::RANK.name })?;
        Ok(Some(Self { fd, rank, size }))
    }
}

/// Checks that `fd` is a socket of the kind that the launcher makes, and keeps it from this
/// process's children.
fn inspect(fd: RawFd) -> Result<(), BootError> {
    // SAFETY: the borrow ends with this function. For a number that is not open, the calls below
    // fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let kind = rustix::net::sockopt::socket_type(socket);
    let domain = rustix::net::sockopt::socket_domain(socket);
    if (kind, domain) != (Ok(SocketType::SEQPACKET), Ok(AddressFamily::UNIX)) {
        return Err(BootError::NotASocket { fd, error: kind.err() });
    }
    rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC).map_err(BootError::Socket)
}

/// Performs the exchange with the launcher. Returns the segment, and the nodes of all ranks.
fn join_over(
    socket: &OwnedFd,
    rank: u32,
    size: u32,
    limit: Duration,
) -> Result<(SegmentMap, Nodes), BootError> {
    let pid = std::process::id();
    let hello = Hello::new(rank, pid).encode();
    rustix::net::send(socket, &hello, SendFlags::NOSIGNAL).map_err(gone_or(BootError::Socket))?;
    await_answer(socket, limit)?;
    let (reply, file) = receive(socket)?;
    let map = adopt(&reply, file, rank, size)?;
    let Reply::Welcome { nodes, .. } = reply else { return Err(BootError::NoDescriptor) };
    let what = || format!("{nodes} nodes for {size} ranks");
    let nodes = Nodes::blocks(size, nodes).ok_or_else(|| BootError::Malformed { what: what() })?;
    Ok((map, nodes))
}

/// Maps the segment that came with `reply`, and marks this rank as alive in it.
pub(super) fn adopt(
    reply: &Reply,
    file: Option<OwnedFd>,
    rank: u32,
    size: u32,
) -> Result<SegmentMap, BootError> {
    let (nonce, length, ranks) = match *reply {
        Reply::Welcome { nonce, length, ranks, .. } => (nonce, length, ranks),
        Reply::Refused(refusal) => return Err(BootError::Refused(refusal)),
    };
    if ranks != size {
        return Err(BootError::Size { environment: size, launcher: ranks });
    }
    let file = file.ok_or(BootError::NoDescriptor)?;
    let map = SegmentMap::attach(file, nonce, rank).map_err(BootError::Segment)?;
    if map.length() as u64 != length || map.ranks() != ranks {
        return Err(BootError::OtherSegment { length: map.length() as u64, expected: length });
    }
    liveness::attach_self(&map.rank_block(rank).liveness);
    Ok(map)
}

pub(super) fn await_answer(socket: &OwnedFd, limit: Duration) -> Result<(), BootError> {
    let timeout = Timespec::try_from(limit).unwrap_or_default();
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout))) {
        Ok(0) => Err(BootError::Silent { seconds: limit.as_secs() }),
        Ok(_) => Ok(()),
        Err(error) => Err(BootError::Socket(error)),
    }
}

/// Receives the answer and the descriptor that came with it.
pub(super) fn receive(socket: &OwnedFd) -> Result<(Reply, Option<OwnedFd>), BootError> {
    let mut bytes = [0; Reply::BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })
    .map_err(gone_or(BootError::Socket))?;
    if received.bytes == 0 {
        return Err(BootError::LauncherGone);
    }
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let reply = Reply::parse(&bytes[..received.bytes])
        .map_err(|malformed| BootError::Malformed { what: malformed.to_string() })?;
    Ok((reply, file))
}

/// Maps the two errors of a socket with a closed peer to [`BootError::LauncherGone`].
fn gone_or(other: fn(Errno) -> BootError) -> impl FnOnce(Errno) -> BootError {
    move |error| match error {
        Errno::PIPE | Errno::CONNRESET => BootError::LauncherGone,
        error => other(error),
    }
}

#[cfg(test)]
mod tests;
