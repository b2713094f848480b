//! Universes: memory for processes that did not start together.
//!
//! The processes of one user that use the same *key* find each other without a launcher. The first
//! makes the segment, with room for a number of ranks, and adds an entry to the user's
//! [registry](super::rendezvous). The others find the segment by its name among the open files of
//! the process in that entry.
//!
//! Ranks are claimed in ascending order, under the registry's lock, and never twice: a peer that is
//! gone stays gone.
//!
//! ```text
//! a process that comes later                   the process that came first
//!  | locks the registry                          |
//!  | reads: KEY PROCESS NONCE                    | (wrote that line)
//!  | opens /proc/PROCESS/fd/…, the segment       | (keeps it open)
//!  | claims the first unborn rank; unlocks       |
//! ```
//!
//! No process waits for the process that came first: it may be stopped, or compute. When a universe
//! is full, the next process makes a further one of the same key. It also does so when the first
//! process has ended, because the segment can no longer be found.
//!
//! Processes of other universes, on this host or another, are reached like ranks on other nodes.
//! Each process gives them numbers of its own, which start after the segment's last rank
//! ([`Directory`]).

use core::hash::{Hash, Hasher};
use std::fs;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use strait_core::layout::{FULL_PAIRS, Life, SegmentConfig};

use super::directory::{Directory, PeerAddress};
use super::registry::{UniverseEntry, is_key};
use super::rendezvous::{LockedRegistry, TIMEOUT};
use super::{BootError, pmi};
use crate::env::{self, Variable};
use crate::segment::{self, SegmentMap, open_memfd_of};
use crate::{Nodes, Rank, liveness, topology};

/// Least number of ranks in a universe. All of it is address space; memory is taken as ranks are
/// claimed and as pairs of them communicate.
const ROOM: u32 = 64;

/// Bytes of address space for the heap of each process.
pub const HEAP_BYTES: usize = 4 << 20;

/// Lines of each fastbox, also in a universe with more room. 64 short messages, the window of
/// common benchmarks, fit into it. In a smaller fastbox the last of them would go by the queue,
/// which costs more than all the others.
const FASTBOX_LINES: u32 = SegmentConfig::new(FULL_PAIRS).fastbox_lines;

/// Memory that processes with the same key share.
#[derive(Debug)]
pub struct Universe {
    map: Arc<SegmentMap>,
    /// Its name, for error messages.
    name: String,
    /// The processes elsewhere that this process knows. Each process has its own directory.
    directory: Arc<Directory>,
    /// The rank that was claimed on entry, until it is used.
    entered: Mutex<Option<Rank>>,
    /// The entry in the registry, if this process made it.
    made: Option<UniverseEntry>,
}

impl Universe {
    /// Enters the universe of this process's job.
    ///
    /// # Errors
    ///
    /// [`BootError`] when there is no memory for it, or when the system refuses a step.
    pub fn of_job() -> Result<Self, BootError> {
        let pmi = pmi::client::PmiContext::from_env()?;
        let named = |variable: Variable| variable.read(|_: &String| true);
        let by_launcher = || pmi.as_ref().and_then(pmi::client::PmiContext::launcher);
        let nodes = env::nodes()?;
        let node = nodes.zip(pmi.as_ref()).and_then(|(nodes, place)| {
            let nodes = Nodes::blocks(place.size, nodes.min(place.size))?;
            nodes.node_of(place.rank)
        });
        let mut key = match (named(env::UNIVERSE)?, named(env::PMIX_NAMESPACE)?) {
            (Some(name), _) => digest("name", &name),
            (None, Some(job)) => digest("pmix", &job),
            (None, None) => by_launcher().map_or_else(|| "user".into(), |pid| format!("pmi-{pid}")),
        };
        if let Some(node) = node {
            key += &format!("-node-{node}");
        }
        // The same number of processes may follow (MPI-4.1 §11.8), or may have come before.
        let likely = pmi.map_or(0, |place| place.size).max(topology::processors());
        Self::enter(&key, likely.saturating_mul(2).max(ROOM))
    }

    /// Enters the first universe of `key` that has room for a further rank, or makes one with room
    /// for `room` ranks. It claims a rank for this process at once, so that no other process can
    /// take it.
    ///
    /// # Errors
    ///
    /// [`BootError`] when there is no memory for it, or when the system refuses a step.
    pub fn enter(key: &str, room: u32) -> Result<Self, BootError> {
        let mut rendezvous = LockedRegistry::open(TIMEOUT)?;
        let entered = Self::enter_at(&mut rendezvous, key, room);
        // Writes the registry also after a failure, because it has been cleaned.
        rendezvous.close()?;
        entered
    }

    fn enter_at(rendezvous: &mut LockedRegistry, key: &str, room: u32) -> Result<Self, BootError> {
        let key = if is_key(key) { key.to_owned() } else { digest("key", key) };
        let entries = &mut rendezvous.registry.entries;
        entries.retain(UniverseEntry::may_be_open);
        for entry in entries.iter().filter(|entry| entry.key == key) {
            let name = file_name(&key, entry.nonce);
            // The process may end at any moment, or may hide its files.
            let found = open_memfd_of(entry.process, |found| (found == name).then_some(()));
            let Some((_, file)) = found else { continue };
            let map = SegmentMap::attach(file, entry.nonce, 0).map_err(BootError::Segment)?;
            let universe = Self::of(map, name, None);
            if universe.claim_on_entry()? {
                return Ok(universe);
            }
        }
        let nonce = segment::nonce().map_err(BootError::Segment)?;
        let name = file_name(&key, nonce);
        let map = begin(&name, nonce, room).map_err(BootError::Segment)?;
        let entry = UniverseEntry { key, process: std::process::id(), nonce };
        entries.push(entry.clone());
        let universe = Self::of(map, name, Some(entry));
        universe.claim_on_entry()?;
        Ok(universe)
    }

    fn of(map: SegmentMap, name: String, made: Option<UniverseEntry>) -> Self {
        let directory = Arc::new(Directory::beside(map.view()));
        Self { map: Arc::new(map), name, directory, entered: Mutex::default(), made }
    }

    /// Claims the rank that [`Universe::claim`] returns first. Returns false when there is none.
    fn claim_on_entry(&self) -> Result<bool, BootError> {
        let claimed = self.claim_unborn()?;
        *self.entered.lock().unwrap_or_else(PoisonError::into_inner) = claimed;
        Ok(claimed.is_some())
    }

    /// Claims a rank, in which this process is alive from now on. The crate `strait` calls it for
    /// its port.
    ///
    /// # Errors
    ///
    /// [`BootError::UniverseFull`] when no rank is left; [`BootError::Segment`] when there is no
    /// memory for a further rank.
    #[doc(hidden)]
    pub fn claim(&self) -> Result<Rank, BootError> {
        let entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let claimed = entered.map_or_else(|| self.claim_unborn(), |rank| Ok(Some(rank)))?;
        claimed.ok_or_else(|| {
            let room = self.map.ranks();
            BootError::UniverseFull { name: self.name.clone(), room }
        })
    }

    /// Claims the rank that the launcher has given this process, so that observers show the numbers
    /// that the user knows. If that was claimed before, claims one that the launcher has given no
    /// process, or at last any. Returns `None` when there is none.
    fn claim_unborn(&self) -> Result<Option<Rank>, BootError> {
        let segment = self.map.view();
        let _lock = FileLock::take(&self.map)?;
        let is_unborn = |rank: &Rank| segment.rank_block(*rank).liveness.state() == Life::Unborn;
        let (given, of) = env::place_by_launcher().unzip();
        let others = of.unwrap_or(0)..segment.ranks();
        let mut choices = given.into_iter().chain(others).chain(0..segment.ranks());
        let Some(rank) = choices.find(|rank| *rank < segment.ranks() && is_unborn(rank)) else {
            return Ok(None);
        };
        self.map.back_own(rank).map_err(BootError::Segment)?;
        liveness::attach_self(&segment.rank_block(rank).liveness);
        Ok(Some(rank))
    }

    /// Returns the nonce, which identifies this universe.
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.map.view().nonce()
    }

    /// Returns the number that this process's ports use for the process at `peer_address`. For a
    /// process of this universe it is the rank.
    ///
    /// # Errors
    ///
    /// [`BootError`] when there is no such process, no path to it, or no number left.
    pub fn number(&self, peer_address: PeerAddress) -> Result<Rank, BootError> {
        self.directory.number(peer_address)
    }

    /// Returns the universe's segment. The crate `strait` has its port in it.
    #[doc(hidden)]
    #[must_use]
    pub const fn map(&self) -> &Arc<SegmentMap> {
        &self.map
    }

    /// Returns the numbers of processes elsewhere. The crate `strait` gives them out through its
    /// port.
    #[doc(hidden)]
    #[must_use]
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

impl Drop for Universe {
    fn drop(&mut self) {
        let unused = self.entered.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rank) = unused {
            self.map.rank_block(rank).liveness.end(Life::Finished);
        }
        // A forked child leaves the registry to its parent. If the registry cannot be locked now,
        // the next process that comes cleans it.
        if let Some(made) = self.made.take()
            && made.process == std::process::id()
            && let Ok(mut rendezvous) = LockedRegistry::open(TIMEOUT)
        {
            rendezvous.registry.entries.retain(|entry| *entry != made);
            let _ = rendezvous.close();
        }
    }
}

impl UniverseEntry {
    /// Returns false when the universe is certainly gone: its process has ended, or does not have
    /// this file.
    fn may_be_open(&self) -> bool {
        if fs::read_dir(format!("/proc/{}/fd", self.process)).is_err_and(is_absent) {
            return false;
        }
        let name = file_name(&self.key, self.nonce);
        let found = segment::has_memfd(self.process, &name);
        found.unwrap_or(true)
    }
}

fn is_absent(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// The lock on a segment's file. The kernel releases it when its holder dies.
struct FileLock<'a>(&'a SegmentMap);

impl<'a> FileLock<'a> {
    fn take(map: &'a SegmentMap) -> Result<Self, BootError> {
        rustix::io::retry_on_intr(|| flock(map.fd(), FlockOperation::LockExclusive))
            .map_err(segment::os("locking its file"))
            .map_err(BootError::Segment)?;
        Ok(Self(map))
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // If the unlock fails, the lock ends with the file.
        let _ = flock(self.0.fd(), FlockOperation::Unlock);
    }
}

/// Makes a segment with all of its address space, and with memory for no rank yet.
fn begin(name: &str, nonce: u64, room: u32) -> Result<SegmentMap, segment::SegmentError> {
    let file = segment::named_memfd(name)?;
    let config = SegmentConfig {
        heap_bytes: HEAP_BYTES as u64,
        fastbox_lines: FASTBOX_LINES,
        ..SegmentConfig::new(room)
    };
    SegmentMap::create_for(file, config, nonce, core::iter::empty())
}

/// The beginning of the names of universes' files.
pub(crate) const UNIVERSE_FILE: &str = "strait-universe-";

/// Returns the name of the segment's file among the open files of its process.
fn file_name(key: &str, nonce: u64) -> String {
    format!("{UNIVERSE_FILE}{key}-{nonce:016x}")
}

/// Returns a short name of hexadecimal digits for a name of any length and any characters.
fn digest(kind: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{kind}-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests;
