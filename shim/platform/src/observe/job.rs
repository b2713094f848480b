//! The jobs of this host that this user may look into.
//!
//! A job's segments are found among the open files of its processes. Its ranks do not take part, so
//! they may wait, compute, be stopped, or have been killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use strait_core::layout::{
    Communicator, Count, Event, Life, Truncation, UnexpectedSummary, Unreadable, Waited,
};

use super::threads::threads_of;
use crate::Rank;
use crate::boot::UNIVERSE_FILE;
use crate::liveness::{namespace, start_time};
use crate::segment::SegmentMap;

/// A job, with the segment of each of its nodes that are on this host.
#[derive(Debug)]
pub struct ObservedJob {
    id: u64,
    nodes: Vec<SegmentMap>,
    /// Whether its ranks come and go. Places that no process has had are then no ranks.
    is_universe: bool,
}

/// What an observer sees of one rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ObservedRank {
    /// The rank.
    pub rank: Rank,
    /// The number of its process, or 0 before it has one.
    pub pid: u32,
    /// The stage of its life.
    pub life: Life,
    /// What it waits for; `None` if it has not waited for long yet.
    pub waited: Result<Option<Waited>, Unreadable>,
    /// Whether packets that it has not taken wait in its receive queue.
    pub has_packets: bool,
    /// What its process does.
    pub process: ProcessState,
    /// The node, counted among those of which there is a segment here.
    pub node: u32,
    /// The messages that no receive had taken when the rank wrote its record.
    pub unexpected: UnexpectedSummary,
    /// The last message that was longer than its receive.
    pub truncated: Option<Truncation>,
}

/// The counters of one rank about another ([`Count`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PairCounts {
    /// Packets that were sent on all paths, when the rank last published them.
    pub packets_out: u64,
    /// Packets that were received on all paths, when the rank last published them.
    pub packets_in: u64,
    /// Packets that were sent through cells.
    pub cells: u64,
    /// Large messages that were sent by a transfer.
    pub transfers: u64,
    /// Bytes of these messages.
    pub transfer_bytes: u64,
    /// Messages that were kept until the peer pulled them.
    pub deferred: u64,
    /// Messages of the peer that met no receive when they arrived.
    pub unexpected: u64,
    /// Sends that found no room and had to wait.
    pub blocked: u64,
}

/// What one rank has sent to another on its node, by the lines of the pair.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PairSent {
    /// Packets that were sent on all paths. The number is exact while messages use lines, and
    /// otherwise as old as the rank's last check.
    pub packets: u64,
    /// Lines that were sent through the fastbox. In a fastbox that is in use this is the number
    /// that the receiver has reported. `None` if the fastbox holds values that no rank writes.
    pub fastbox_lines: Option<u64>,
}

/// The state of a rank's process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProcessState {
    /// At least one thread runs, or sleeps as threads do that wait.
    Active,
    /// All threads are stopped, by a signal or by a debugger.
    Stopped,
    /// The process has ended.
    Ended,
    /// The process has numbers of another namespace, such as a container's.
    Hidden,
}

/// Returns the jobs of which this user may open a segment, in the order of their ids.
#[must_use]
pub fn jobs() -> Vec<ObservedJob> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    gather(numbers)
}

/// Returns the job of a process, which is one of its ranks or its launcher.
#[must_use]
pub fn job_of(process: u32) -> Option<ObservedJob> {
    // One of them may end before all are looked at.
    let of_process = gather([process].into_iter());
    jobs().into_iter().find(|job| of_process.iter().any(|own| own.id == job.id))
}

/// Returns the reason why each segment that `process` has open cannot be read, if one cannot.
#[must_use]
pub fn refusals(process: u32) -> Vec<String> {
    let files = open_files(core::iter::once(process));
    files
        .filter_map(|file| SegmentMap::observe(file).err()?)
        .map(|error| error.to_string())
        .collect()
}

/// Maps each segment that one of these processes has open, once.
fn gather(processes: impl Iterator<Item = u32>) -> Vec<ObservedJob> {
    let mut jobs = BTreeMap::<u64, ObservedJob>::new();
    for file in open_files(processes) {
        let is_universe = is_of_universe(&file);
        if let Ok((id, map)) = SegmentMap::observe(file) {
            let new = ObservedJob { id, nodes: Vec::new(), is_universe };
            jobs.entry(id).or_insert(new).nodes.push(map);
        }
    }
    jobs.into_values().collect()
}

/// Returns whether an anonymous file has the name of a universe's segment.
fn is_of_universe(file: &File) -> bool {
    let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.is_ok_and(|name| name.to_string_lossy().contains(UNIVERSE_FILE))
}

/// Opens each anonymous file that one of these processes has open, once.
fn open_files(processes: impl Iterator<Item = u32>) -> impl Iterator<Item = File> {
    let mut found = BTreeSet::new();
    processes.flat_map(SegmentMap::paths_of).filter_map(move |path| {
        let file = File::options().read(true).write(true).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        found.insert((metadata.dev(), metadata.ino())).then_some(file)
    })
}

impl ObservedJob {
    /// Returns the random number that distinguishes the job from others.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of nodes of which there is a segment.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Looks at each rank. A rank that is not on this host is [`Life::Unborn`].
    #[must_use]
    pub fn look(&self) -> Vec<ObservedRank> {
        let ranks = self.nodes.iter().map(SegmentMap::ranks).max().unwrap_or(0);
        let mut ranks: Vec<_> = (0..ranks).map(|rank| self.look_at(rank)).collect();
        let is_empty = |rank: &ObservedRank| rank.life == Life::Unborn;
        while self.is_universe && ranks.last().is_some_and(is_empty) {
            ranks.pop();
        }
        ranks
    }

    fn look_at(&self, rank: Rank) -> ObservedRank {
        let Some((node, map)) = self.place_of(rank) else {
            return ObservedRank {
                rank,
                pid: 0,
                life: Life::Unborn,
                waited: Ok(None),
                has_packets: false,
                process: ProcessState::Hidden,
                node: 0,
                unexpected: UnexpectedSummary::default(),
                truncated: None,
            };
        };
        let (block, record) = (map.rank_block(rank), map.rank_record(rank));
        let (pid, started) = block.liveness.process();
        let is_known = block.liveness.namespace() == namespace();
        let process = if is_known { state_of(pid, started) } else { ProcessState::Hidden };
        let life = match (block.liveness.state(), process) {
            (Life::Alive, ProcessState::Ended) => Life::Dead,
            (life, _) => life,
        };
        let mut waited = block.waiting.read();
        let mut unexpected = UnexpectedSummary::default();
        if let Ok(Some(Waited { wait: Some(wait), since_ns, .. })) = &mut waited {
            match record.details.read_into(*since_ns, wait) {
                Ok(found) => unexpected = found,
                Err(unreadable) => waited = Err(unreadable),
            }
        }
        let (has_packets, truncated) = (block.recv_queue.has_news(), record.faults.read());
        ObservedRank { rank, pid, life, waited, has_packets, process, node, unexpected, truncated }
    }

    /// Returns the segment of the node of a rank, and the node's number. A segment has places for
    /// the ranks of all nodes, and only those of its own node have a process there.
    fn place_of(&self, rank: Rank) -> Option<(u32, &SegmentMap)> {
        let maps = (0..).zip(&self.nodes).filter(|(_, map)| rank < map.ranks());
        let is_born = |map: &SegmentMap| map.rank_block(rank).liveness.state() != Life::Unborn;
        let mut born = maps.filter(|(_, map)| is_born(map));
        let has_process = |map: &SegmentMap| map.rank_block(rank).liveness.process().0 != 0;
        born.clone().find(|(_, map)| has_process(map)).or_else(|| born.next())
    }

    /// Returns the counters of `rank` about `peer`; zeros for a rank that is not here.
    #[must_use]
    pub fn counts(&self, rank: Rank, peer: Rank) -> PairCounts {
        let place = self.place_of(rank).filter(|(_, map)| peer < map.ranks());
        let Some((_, map)) = place else { return PairCounts::default() };
        let counters = map.view().counters(rank, peer);
        PairCounts {
            packets_out: counters.get(Count::PacketsOut),
            packets_in: counters.get(Count::PacketsIn),
            cells: counters.get(Count::Cells),
            transfers: counters.get(Count::Transfers),
            transfer_bytes: counters.get(Count::TransferBytes),
            deferred: counters.get(Count::Deferred),
            unexpected: counters.get(Count::Unexpected),
            blocked: counters.get(Count::Blocked),
        }
    }

    /// Returns what `rank` has sent to `peer` on its node so far.
    #[must_use]
    pub fn sent(&self, rank: Rank, peer: Rank) -> PairSent {
        let place = self.place_of(rank).filter(|(_, map)| peer < map.ranks());
        let Some((_, map)) = place else { return PairSent::default() };
        let (lines, way) = (map.pair_lines(rank, peer), usize::from(rank > peer));
        let checked = map.view().counters(rank, peer).get(Count::PacketsOut);
        PairSent {
            packets: lines.latest[way].max(checked),
            fastbox_lines: lines.fastbox_lines[way],
        }
    }

    /// Returns the communicators of a rank, if an interface above Strait has told them.
    #[must_use]
    pub fn communicators(&self, rank: Rank) -> Vec<Communicator> {
        let place = self.place_of(rank);
        place.map_or(Vec::new(), |(_, map)| map.rank_record(rank).communicators.iter().collect())
    }

    /// Returns the last events of a rank, the oldest first. There are none unless the rank records
    /// events (`STRAIT_RECORD=events`).
    #[must_use]
    pub fn events(&self, rank: Rank) -> Vec<Event> {
        let place = self.place_of(rank);
        place.map_or(Vec::new(), |(_, map)| map.rank_record(rank).events.iter().collect())
    }
}

/// Returns the state of the process with this number that started at this time.
fn state_of(pid: u32, started: u64) -> ProcessState {
    if start_time(&pid.to_string()) != Some(started) {
        return ProcessState::Ended;
    }
    let threads = threads_of(pid);
    let (stopped, ended) = (['T', 't'], ['Z', 'X']);
    if threads.iter().all(|thread| ended.contains(&thread.state)) {
        ProcessState::Ended
    } else if threads.iter().all(|thread| stopped.contains(&thread.state)) {
        ProcessState::Stopped
    } else {
        ProcessState::Active
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use strait_core::layout::{Call, SegmentConfig, Wait};

    use super::*;
    use crate::liveness::{attach_self, mark_dead};

    #[test]
    fn a_job_of_this_process_is_found_and_its_ranks_are_seen() {
        // This test may run in two processes at once, and beside tests with jobs of their own.
        let nonce = 0x5eed_0b5e << 32 | u64::from(std::process::id());
        let map = SegmentMap::create(SegmentConfig::new(3), nonce).unwrap();
        let block = map.rank_block(1);
        attach_self(&block.liveness);
        block.liveness.set_namespace(namespace());
        let wait = Wait { tag: Some(7), ..Wait::on(Call::Recv, 2) };
        let waited = Waited { wait: Some(wait), since_ns: 5, latest_ns: 6, turns: 7 };
        block.waiting.write(&waited);
        mark_dead(&map.rank_block(2).liveness);

        assert!(job_of(std::process::id()).is_some(), "this process has a segment open");
        let job = jobs().into_iter().find(|job| job.id() == nonce).expect("it is open");
        assert_eq!((job.id(), job.nodes()), (nonce, 1));
        let ranks = job.look();
        let lives: Vec<Life> = ranks.iter().map(|rank| rank.life).collect();
        assert_eq!(lives, [Life::Unborn, Life::Alive, Life::Dead]);
        assert_eq!((ranks[1].pid, ranks[1].process), (std::process::id(), ProcessState::Active));
        assert_eq!(ranks[1].waited, Ok(Some(waited)));
    }

    #[test]
    fn a_process_is_found_while_others_of_its_jobs_end() {
        let _lasting = SegmentMap::create(SegmentConfig::new(1), u64::MAX).unwrap();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    drop(SegmentMap::create(SegmentConfig::new(1), 1).unwrap());
                }
            });
            let found = (0..20).all(|_| job_of(std::process::id()).is_some());
            is_done.store(true, Relaxed);
            assert!(found);
        });
    }

    #[test]
    fn another_process_with_the_same_number_has_not_the_rank_s_state() {
        let pid = std::process::id();
        let started = start_time("self").unwrap();
        assert_eq!(state_of(pid, started), ProcessState::Active);
        assert_eq!(state_of(pid, started + 1), ProcessState::Ended);
    }
}
