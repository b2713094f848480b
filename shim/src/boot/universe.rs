//! Universes: memory for processes that did not start together.
//!
//! The processes of one user that name the same *key* find each other without a launcher, and without anybody who answers. Who comes
//! first makes the segment, with room for a number of ranks, and takes an abstract socket of the key's name, at which it listens and
//! never looks up: the kernel tells whoever connects which process that is, and among that process's open files the segment is
//! found by its name. Ranks are claimed one after the other, under a lock on the file, and never twice: a peer that is gone stays
//! gone.
//!
//! ```text
//! who comes later                             who came first
//!  | connect to strait-universe-USER-KEY         | (listens)
//!  | the number of its process    <--- kernel    |
//!  | open /proc/NUMBER/fd/…, the segment         |
//!  | lock; the first unborn rank; alive; unlock  |
//! ```
//!
//! Processes of other universes, on this host or another, are reached as ranks on other nodes are. Each process gives them numbers of
//! its own, from the upper half of the segment's ranks, which nobody claims ([`Directory`]).
//!
//! When the first is gone so is its socket, and the next process begins a universe of its own. Nothing of all this has a name in
//! a file system.

use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use strait_core::layout::{Config, Life};

use super::directory::{Contact, Directory};
use super::share::peer_process;
use super::{BootError, pmi};
use crate::env::{self, Variable};
use crate::port::TABLE_BYTES;
use crate::segment::{self, SegmentMap, open_memfd_of};
use crate::{Nodes, Rank, liveness, topology};

/// Connections that nobody takes: one for each process that came.
const BACKLOG: i32 = 4096;

/// Universes of one key, one after the other, for whom the earlier ones had no room.
const GENERATIONS: u32 = 64;

/// Looks for a segment at a socket whose owner may just be ending.
const LOOKS: u32 = 1000;

/// Ranks there is room for at least. All of it is address space; memory is taken as ranks are claimed and as pairs of them talk.
const ROOM: u32 = 64;

/// Lines of each fastbox: a pair fills four pages, and a window of 64 short messages, which is what benchmarks keep open, has room in it.
/// Without that the last of them go by the queue, which costs more than all the others.
const FASTBOX_LINES: u32 = 117;

/// Memory that processes share which find each other by a key.
#[derive(Debug)]
pub struct Universe {
    map: Arc<SegmentMap>,
    name: String,
    /// Whom its processes know elsewhere. Each has its own.
    directory: Arc<Directory>,
    /// Of whoever made the segment: by it the others find it.
    _socket: Option<OwnedFd>,
}

impl Universe {
    /// Enters the universe of this process's job.
    ///
    /// # Errors
    ///
    /// [`BootError`]: there is no memory for it, or the system refuses a step.
    pub fn of_job() -> Result<Self, BootError> {
        let pmi = pmi::client::Place::from_env()?;
        let named = |variable: Variable| variable.read(|_: &String| true);
        let by_launcher = || pmi.as_ref().and_then(pmi::client::Place::launcher);
        let nodes = env::NODES.read(|nodes: &u32| *nodes > 0)?;
        let node = nodes.zip(pmi.as_ref()).and_then(|(nodes, place)| {
            let nodes = Nodes::blocks(place.size, nodes.min(place.size))?;
            nodes.node_of(place.rank)
        });
        let mut key = match (named(env::UNIVERSE)?, named(env::PMIX_NAMESPACE)?) {
            (Some(name), _) => digest("name", &name),
            (None, Some(job)) => digest("pmix", &job),
            (None, None) => by_launcher().map_or_else(String::new, |pid| format!("pmi-{pid}")),
        };
        if let Some(node) = node {
            key += &format!("-node-{node}");
        }
        // As many again may follow (MPI-4.1 §11.8), or have gone before.
        let likely = pmi.map_or(0, |place| place.size).max(topology::processors());
        Self::enter(&key, likely.saturating_mul(2).max(ROOM))
    }

    /// Enters the first universe of `key` that has room for a further rank, or begins one with room for `room`.
    ///
    /// # Errors
    ///
    /// [`BootError`]: there is no memory for it, or the system refuses a step.
    pub(crate) fn enter(key: &str, room: u32) -> Result<Self, BootError> {
        let user = rustix::process::geteuid().as_raw();
        let mut name = String::new();
        for generation in 0..GENERATIONS {
            name = format!("strait-universe-{user}-{key}-{generation}");
            let universe = Self::find_or_begin(&name, room)?;
            if universe.unborn().is_some() {
                return Ok(universe);
            }
        }
        Err(BootError::UniverseFull { name, room })
    }

    fn of(map: SegmentMap, name: &str, socket: Option<OwnedFd>) -> Self {
        let directory = Arc::new(Directory::beside(&map.segment()));
        Self { map: Arc::new(map), name: name.to_owned(), directory, _socket: socket }
    }

    fn find_or_begin(name: &str, room: u32) -> Result<Self, BootError> {
        let address =
            SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(BootError::Socket)?;
        let mut own = None;
        for _ in 0..LOOKS {
            if let Some(map) = find(&address, name)? {
                return Ok(Self::of(map, name, None));
            }
            let map = own.take().map_or_else(|| begin(name, room), Ok)?;
            let socket = socket().map_err(BootError::Socket)?;
            match rustix::net::bind(&socket, &address) {
                Ok(()) => {
                    rustix::net::listen(&socket, BACKLOG).map_err(BootError::Socket)?;
                    return Ok(Self::of(map, name, Some(socket)));
                }
                // Somebody was faster, and listens soon.
                Err(Errno::ADDRINUSE) => own = Some(map),
                Err(error) => return Err(BootError::Socket(error)),
            }
            std::thread::yield_now();
        }
        Err(BootError::Withdrawn { name: name.to_owned() })
    }

    /// Claims a rank for this process, which is alive in it from now on.
    ///
    /// # Errors
    ///
    /// [`BootError::UniverseFull`]; [`BootError::Segment`] when there is no memory for a further rank.
    pub(crate) fn claim(&self) -> Result<Rank, BootError> {
        let segment = self.map.segment();
        let _lock = Lock::take(&self.map)?;
        let room = self.directory.numbers().start;
        let full = || BootError::UniverseFull { name: self.name.clone(), room };
        let rank = self.unborn().ok_or_else(full)?;
        self.map.back_own(rank).map_err(BootError::Segment)?;
        liveness::attach_self(&segment.rank_block(rank).liveness);
        Ok(rank)
    }

    /// The number that tells this universe from others.
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.map.segment().nonce()
    }

    /// The number by which this process's ports know the process that others know as `contact`: its rank, if it is of this universe.
    ///
    /// # Errors
    ///
    /// [`BootError`]: there is no such process, no way to it, or no number left.
    pub fn number(&self, contact: Contact) -> Result<Rank, BootError> {
        self.directory.number(contact)
    }

    pub(crate) const fn map(&self) -> &Arc<SegmentMap> {
        &self.map
    }

    pub(crate) const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    fn unborn(&self) -> Option<Rank> {
        let segment = self.map.segment();
        let is_unborn = |rank: &Rank| segment.rank_block(*rank).liveness.state() == Life::Unborn;
        (0..self.directory.numbers().start).find(is_unborn)
    }
}

/// The lock on a segment's file. The kernel releases it when its holder dies.
struct Lock<'a>(&'a SegmentMap);

impl<'a> Lock<'a> {
    fn take(map: &'a SegmentMap) -> Result<Self, BootError> {
        rustix::io::retry_on_intr(|| flock(map.fd(), FlockOperation::LockExclusive))
            .map_err(segment::os("locking its file"))
            .map_err(BootError::Segment)?;
        Ok(Self(map))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // What cannot be unlocked goes with the file.
        let _ = flock(self.0.fd(), FlockOperation::Unlock);
    }
}

/// A new segment, with all of its address space and memory for no rank yet. Its file's name says which universe it is and its
/// nonce.
fn begin(name: &str, room: u32) -> Result<SegmentMap, BootError> {
    let make = || {
        let nonce = segment::nonce()?;
        let file = segment::named_memfd(&format!("{name}-{nonce:016x}"))?;
        // For as many processes elsewhere.
        let ranks = room.saturating_mul(2);
        let config = Config {
            heap_bytes: TABLE_BYTES as u64,
            fastbox_lines: FASTBOX_LINES,
            ..Config::new(ranks)
        };
        SegmentMap::create_for(file, config, nonce, core::iter::empty())
    };
    make().map_err(BootError::Segment)
}

/// The segment of the process that listens at `address`; `None` when there is none.
fn find(address: &SocketAddrUnix, name: &str) -> Result<Option<SegmentMap>, BootError> {
    let caller = socket().map_err(BootError::Socket)?;
    match rustix::net::connect(&caller, address) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED) => return Ok(None),
        Err(error) => return Err(BootError::Socket(error)),
    }
    let Some(process) = peer_process(&caller) else {
        return Err(BootError::OthersUniverse { name: name.to_owned() });
    };
    // It may have ended in between.
    let Some((nonce, file)) = open_memfd_of(process, |found| nonce_of(found, name)) else {
        return Ok(None);
    };
    SegmentMap::attach(file, nonce, 0).map(Some).map_err(BootError::Segment)
}

/// The nonce of the universe `name`, if it is its segment that is called `found`.
fn nonce_of(found: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(found.strip_prefix(name)?.strip_prefix('-')?, 16).ok()
}

/// A name of any length and any letters as a short one of few.
fn digest(kind: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{kind}-{:016x}", hasher.finish())
}

fn socket() -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that no other process and no other test has.
    fn key(test: &str) -> String {
        format!("test-{}-{test}", std::process::id())
    }

    #[test]
    fn whoever_names_a_key_is_in_its_universe_with_a_rank_of_its_own() {
        let first = Universe::enter(&key("same"), 3).unwrap();
        let second = Universe::enter(&key("same"), 3).unwrap();
        let other = Universe::enter(&key("other"), 3).unwrap();
        assert_eq!(first.nonce(), second.nonce());
        assert_ne!(first.nonce(), other.nonce());
        let ranks = [first.claim(), second.claim(), other.claim()];
        assert_eq!(ranks.map(Result::unwrap), [0, 1, 0]);
    }

    #[test]
    fn one_that_is_full_is_followed_by_another() {
        let full = Universe::enter(&key("full"), 1).unwrap();
        assert_eq!(full.claim().unwrap(), 0);
        let error = full.claim().unwrap_err().to_string();
        assert!(error.contains("STRAIT_UNIVERSE"), "{error}");
        let next = Universe::enter(&key("full"), 1).unwrap();
        assert_ne!(next.nonce(), full.nonce());
    }

    #[test]
    fn nothing_is_left_of_one_whose_maker_is_gone() {
        let nonce = Universe::enter(&key("gone"), 2).unwrap().nonce();
        assert_ne!(Universe::enter(&key("gone"), 2).unwrap().nonce(), nonce);
    }
}
