//! Universes: memory for processes that did not start together.
//!
//! The processes of one user that name the same *key* find each other without a launcher. The first
//! makes the segment, with room for a number of ranks, and says so in the user's
//! [registry](super::rendezvous). Among the open files of the process that the registry names, the
//! others find the segment by its name. Ranks are claimed one after the other, under the registry's
//! lock, and never twice: a peer that is gone stays gone.
//!
//! ```text
//! a process that comes later                   the process that came first
//!  | locks the registry                          |
//!  | reads: KEY PROCESS NONCE                    | (wrote that line)
//!  | opens /proc/PROCESS/fd/…, the segment       | (keeps it open)
//!  | claims the first unborn rank; unlocks       |
//! ```
//!
//! Nothing waits for the process that came first: it may be stopped, or compute. When a universe is
//! full the next process begins a further one of the same key; likewise when the first process has
//! ended, whose segment then cannot be found any more.
//!
//! Processes of other universes, on this host or another, are reached as ranks on other nodes are. Each process gives them numbers of
//! its own, from that of the segment's last rank on ([`Directory`]).

use core::hash::{Hash, Hasher};
use std::fs;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use strait_core::layout::{Config, Life};

use super::directory::{Contact, Directory};
use super::registry::{Entry, is_key};
use super::rendezvous::{PATIENCE, Rendezvous};
use super::{BootError, pmi};
use crate::env::{self, Variable};
use crate::port::TABLE_BYTES;
use crate::segment::{self, SegmentMap, open_memfd_of};
use crate::{Nodes, Rank, liveness, topology};

/// Ranks there is room for at least. All of it is address space; memory is taken as ranks are claimed and as pairs of them talk.
const ROOM: u32 = 64;

/// Lines of each fastbox: a pair fills four pages, and a window of 64 short messages, which is what benchmarks keep open, has room in it.
/// Without that the last of them go by the queue, which costs more than all the others.
const FASTBOX_LINES: u32 = 117;

/// Memory that processes share which find each other by a key.
#[derive(Debug)]
pub struct Universe {
    map: Arc<SegmentMap>,
    /// Its name in error messages.
    name: String,
    /// The processes that this one knows elsewhere. Each process has its own.
    directory: Arc<Directory>,
    /// The rank that was claimed on entry, until it is used.
    entered: Mutex<Option<Rank>>,
    /// The entry in the registry, if this process made it.
    made: Option<Entry>,
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
        // As many again may follow (MPI-4.1 §11.8), or have gone before.
        let likely = pmi.map_or(0, |place| place.size).max(topology::processors());
        Self::enter(&key, likely.saturating_mul(2).max(ROOM))
    }

    /// Enters the first universe of `key` that has room for a further rank, or begins one with room for `room`. A rank of it
    /// is this process's from now on, so that nothing can come between.
    ///
    /// # Errors
    ///
    /// [`BootError`]: there is no memory for it, or the system refuses a step.
    pub(crate) fn enter(key: &str, room: u32) -> Result<Self, BootError> {
        let mut rendezvous = Rendezvous::open(PATIENCE)?;
        let entered = Self::enter_at(&mut rendezvous, key, room);
        // Who fails has still cleaned the registry.
        rendezvous.close()?;
        entered
    }

    fn enter_at(rendezvous: &mut Rendezvous, key: &str, room: u32) -> Result<Self, BootError> {
        let key = if is_key(key) { key.to_owned() } else { digest("key", key) };
        let entries = &mut rendezvous.registry.entries;
        entries.retain(Entry::may_be_open);
        for entry in entries.iter().filter(|entry| entry.key == key) {
            let name = file_name(&key, entry.nonce);
            // The process may end at any moment, or may not let its files be seen.
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
        let entry = Entry { key, process: std::process::id(), nonce };
        entries.push(entry.clone());
        let universe = Self::of(map, name, Some(entry));
        universe.claim_on_entry()?;
        Ok(universe)
    }

    fn of(map: SegmentMap, name: String, made: Option<Entry>) -> Self {
        let directory = Arc::new(Directory::beside(&map.segment()));
        Self { map: Arc::new(map), name, directory, entered: Mutex::default(), made }
    }

    /// Claims the rank that [`Universe::claim`] gives first. False: there is none.
    fn claim_on_entry(&self) -> Result<bool, BootError> {
        let claimed = self.claim_unborn()?;
        *self.entered.lock().unwrap_or_else(PoisonError::into_inner) = claimed;
        Ok(claimed.is_some())
    }

    /// Claims a rank for this process, which is alive in it from now on.
    ///
    /// # Errors
    ///
    /// [`BootError::UniverseFull`]; [`BootError::Segment`] when there is no memory for a further rank.
    pub(crate) fn claim(&self) -> Result<Rank, BootError> {
        let entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let claimed = entered.map_or_else(|| self.claim_unborn(), |rank| Ok(Some(rank)))?;
        claimed.ok_or_else(|| {
            let room = self.map.segment().ranks();
            BootError::UniverseFull { name: self.name.clone(), room }
        })
    }

    /// Claims the first rank that no process has or had. `None`: there is none.
    fn claim_unborn(&self) -> Result<Option<Rank>, BootError> {
        let segment = self.map.segment();
        let _lock = Lock::take(&self.map)?;
        let is_unborn = |rank: &Rank| segment.rank_block(*rank).liveness.state() == Life::Unborn;
        let Some(rank) = (0..segment.ranks()).find(is_unborn) else { return Ok(None) };
        self.map.back_own(rank).map_err(BootError::Segment)?;
        liveness::attach_self(&segment.rank_block(rank).liveness);
        Ok(Some(rank))
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
}

impl Drop for Universe {
    fn drop(&mut self) {
        let unused = self.entered.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rank) = unused {
            self.map.segment().rank_block(rank).liveness.end(Life::Finished);
        }
        // A child that was forked leaves the registry to its parent.
        // A registry that cannot be had now is cleaned by the next process that comes.
        if let Some(made) = self.made.take()
            && made.process == std::process::id()
            && let Ok(mut rendezvous) = Rendezvous::open(PATIENCE)
        {
            rendezvous.registry.entries.retain(|entry| *entry != made);
            let _ = rendezvous.close();
        }
    }
}

impl Entry {
    /// False when the universe is certainly gone: its process has ended, or has another file, or none.
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

/// A new segment, with all of its address space and memory for no rank yet.
fn begin(name: &str, nonce: u64, room: u32) -> Result<SegmentMap, segment::SegmentError> {
    let file = segment::named_memfd(name)?;
    let config = Config {
        heap_bytes: TABLE_BYTES as u64,
        fastbox_lines: FASTBOX_LINES,
        ..Config::new(room)
    };
    SegmentMap::create_for(file, config, nonce, core::iter::empty())
}

/// The name of the segment's file among the open files of its process.
fn file_name(key: &str, nonce: u64) -> String {
    format!("strait-universe-{key}-{nonce:016x}")
}

/// A name of any length and any letters as a short one of few.
fn digest(kind: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{kind}-{:016x}", hasher.finish())
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

    /// A process that finds room keeps it, however many others come before it opens its port.
    #[test]
    fn a_rank_is_claimed_on_entry() {
        let entered: Vec<_> = (0..7).map(|_| Universe::enter(&key("entry"), 3).unwrap()).collect();
        let ranks: Vec<_> = entered.iter().map(|universe| universe.claim().unwrap()).collect();
        assert_eq!(ranks, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_universe_that_is_full_is_followed_by_another() {
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
