//! How a process joins its job: at our launcher, or together with the ranks of its node under somebody else's.

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

/// How long the launcher may take to answer. It answers at once unless it was stopped.
const PATIENCE: Duration = share::PATIENCE;

/// A process's place in a job.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Its rank.
    pub(crate) rank: u32,
    /// Where all ranks are.
    pub(crate) nodes: Nodes,
    /// The segment of this node, in which this rank is alive now.
    pub(crate) map: SegmentMap,
    /// What the ranks say to each other before they can send messages.
    pub(crate) store: Box<dyn KeyValueStore>,
    /// The launcher tells every node of every death.
    pub(crate) deaths_are_told: bool,
}

/// Joins the job that this process was started for. Once per process.
///
/// Under `strait run` no rank waits for another. Under another launcher all ranks of the job join together, as in
/// `MPI_INIT`: this waits until every rank has come.
///
/// # Errors
///
/// [`BootError`]: this process was not started by a launcher, or the two do not agree.
pub(crate) fn join() -> Result<Membership, BootError> {
    let (ours, pmi) = (Place::from_env()?, pmi::client::Place::from_env()?);
    if ours.is_none() && pmi.is_none() {
        return Err(BootError::NotStarted);
    }
    once()?;
    let sockets = [ours.map(|place| place.fd), pmi.map(|place| place.fd)];
    sockets.into_iter().flatten().try_for_each(refuse_taken)?;
    let Some(place) = ours else {
        let place = pmi.ok_or(BootError::NotStarted)?;
        // SAFETY: the launcher made the socket for this process to own, and `once` lets one caller take it.
        let socket = unsafe { place.take() }?;
        return join_by_pmi(socket, place.rank, place.size);
    };
    inspect(place.fd)?;
    // SAFETY: `inspect` found an open socket; the launcher made it for this process to own, and `once` lets one caller
    // take it.
    let socket = unsafe { OwnedFd::from_raw_fd(place.fd) };
    let pmi = pmi.ok_or(BootError::Unset { variable: env::PMI_FD.name })?;
    // SAFETY: as above.
    let (store, nodes) = connect(unsafe { pmi.take() }?, place.rank, place.size)?;
    let map = join_over(&socket, place.rank, place.size, PATIENCE)?;
    Ok(Membership { rank: place.rank, nodes, map, store, deaths_are_told: true })
}

/// Joins the job whose ranks find each other by `store`; each says which host it is on where the embedder does not. All of them come.
pub(crate) fn join_with(
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

/// Lets one caller take the launcher's sockets, ever.
pub(super) fn once() -> Result<(), BootError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) { Err(BootError::Twice) } else { Ok(()) }
}

/// Refuses a socket that somebody has taken: a copy of this library in the same process, or the process that forked this one. Launchers
/// hand on sockets that programs inherit; who takes one keeps it from children, as [`inspect`] does.
fn refuse_taken(fd: RawFd) -> Result<(), BootError> {
    // SAFETY: the borrow ends with this function. A number that is not open has no flags.
    match rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }) {
        Ok(flags) if flags.contains(FdFlags::CLOEXEC) => Err(BootError::Twice),
        _ => Ok(()),
    }
}

/// Joins over the PMI socket of a launcher that knows nothing of Strait.
pub(super) fn join_by_pmi(socket: OwnedFd, rank: u32, size: u32) -> Result<Membership, BootError> {
    let (store, nodes) = connect(socket, rank, size)?;
    join_with(store, rank, size, Some(nodes))
}

/// The key-value store of the job, and where its ranks are. Some launchers do not say that: then every rank of the job has to
/// come, and say which host it is on.
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

/// What the environment says of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    fd: RawFd,
    pub(super) rank: u32,
    pub(super) size: u32,
}

impl Place {
    /// `None` when no launcher of ours started this process.
    pub(super) fn from_env() -> Result<Option<Self>, BootError> {
        let Some(fd) = env::BOOT_FD.read(|&fd: &RawFd| fd > 2)? else { return Ok(None) };
        let size = env::SIZE.read(|&size: &u32| size > 0)?;
        let size = size.ok_or(BootError::Unset { variable: env::SIZE.name })?;
        let rank = env::RANK.read(|&rank: &u32| rank < size)?;
        let rank = rank.ok_or(BootError::Unset { variable: env::RANK.name })?;
        Ok(Some(Self { fd, rank, size }))
    }
}

/// Checks that `fd` is a socket as the launcher makes them and keeps it from this process's children.
fn inspect(fd: RawFd) -> Result<(), BootError> {
    // SAFETY: the borrow ends with this function. A number that is not open makes the calls below fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let kind = rustix::net::sockopt::socket_type(socket);
    let domain = rustix::net::sockopt::socket_domain(socket);
    if (kind, domain) != (Ok(SocketType::SEQPACKET), Ok(AddressFamily::UNIX)) {
        return Err(BootError::NotASocket { fd, error: kind.err() });
    }
    rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC).map_err(BootError::Socket)
}

/// The exchange itself.
fn join_over(
    socket: &OwnedFd,
    rank: u32,
    size: u32,
    patience: Duration,
) -> Result<SegmentMap, BootError> {
    let pid = std::process::id();
    let hello = Hello::new(rank, pid).encode();
    rustix::net::send(socket, &hello, SendFlags::NOSIGNAL).map_err(gone_or(BootError::Socket))?;
    await_answer(socket, patience)?;
    let (reply, file) = receive(socket)?;
    adopt(&reply, file, rank, size)
}

/// Maps the segment that came with `reply`, and says that this rank is alive in it.
pub(super) fn adopt(
    reply: &Reply,
    file: Option<OwnedFd>,
    rank: u32,
    size: u32,
) -> Result<SegmentMap, BootError> {
    let (nonce, length, ranks) = match *reply {
        Reply::Welcome { nonce, length, ranks } => (nonce, length, ranks),
        Reply::Refused(refusal) => return Err(BootError::Refused(refusal)),
    };
    if ranks != size {
        return Err(BootError::Size { environment: size, launcher: ranks });
    }
    let file = file.ok_or(BootError::NoDescriptor)?;
    let map = SegmentMap::attach(file, nonce, rank).map_err(BootError::Segment)?;
    if map.length() as u64 != length || map.segment().ranks() != ranks {
        return Err(BootError::OtherSegment { length: map.length() as u64, expected: length });
    }
    liveness::attach_self(&map.segment().rank_block(rank).liveness);
    Ok(map)
}

pub(super) fn await_answer(socket: &OwnedFd, patience: Duration) -> Result<(), BootError> {
    let timeout = Timespec::try_from(patience).unwrap_or_default();
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout))) {
        Ok(0) => Err(BootError::Silent { seconds: patience.as_secs() }),
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

/// A socket whose other end is closed says so in two ways.
fn gone_or(other: fn(Errno) -> BootError) -> impl FnOnce(Errno) -> BootError {
    move |error| match error {
        Errno::PIPE | Errno::CONNRESET => BootError::LauncherGone,
        error => other(error),
    }
}

#[cfg(test)]
mod tests;
