//! Observes the ranks of a job from outside: what each waits for, and what its process does.
//!
//! Nothing here needs the rank's help. The rank's wait is in its record in the segment
//! ([`strait_core::layout::WaitRecord`]), which is found among the open files of its process. The
//! kernel has the rest.

mod job;
mod threads;

use core::fmt;
use core::time::Duration;
use std::thread;

use strait_core::layout::{Call, Life, Unreadable, Waited};

use crate::Rank;
pub use crate::clock::monotonic_ns;
use crate::segment::SegmentMap;
use threads::{Thread, threads_of};

pub use job::{
    ObservedJob, ObservedRank, PairCounts, PairSent, ProcessState, job_of, jobs, refusals,
};
pub use threads::{ThreadView, look_at_threads};

/// Time between the two samples that tell whether a thread ran.
const SAMPLE: Duration = Duration::from_millis(100);

/// A rank that waits and has not updated its record for longer than this is stuck inside a call.
const SILENCE: Duration = Duration::from_secs(1);

/// The state of a rank as another process of the same user sees it. Its `Display` is one or more
/// lines of text.
#[derive(Clone, Debug)]
pub struct Observation {
    rank: Rank,
    pid: u32,
    /// Time of the observation.
    now_ns: u64,
    /// The rank's state in the segment, if the process has a segment open.
    inside: Option<RankView>,
    threads: Vec<Thread>,
}

/// A rank's state in the segment.
#[derive(Clone, Copy, Debug)]
struct RankView {
    life: Life,
    asleep: bool,
    /// Whether its receive queue holds something.
    queued: bool,
    waited: Result<Option<Waited>, Unreadable>,
}

/// Observes ranks, each given with the number of its process.
#[must_use]
pub fn ranks(ranks: &[(Rank, u32)]) -> Vec<Observation> {
    let before: Vec<_> = ranks.iter().map(|(_, pid)| threads_of(*pid)).collect();
    thread::sleep(SAMPLE);
    let pairs = ranks.iter().zip(before);
    pairs.map(|(&(rank, pid), before)| Observation::of(rank, pid, &before)).collect()
}

impl Observation {
    fn of(rank: Rank, pid: u32, before: &[Thread]) -> Self {
        let mut threads = threads_of(pid);
        for thread in &mut threads {
            let earlier = before.iter().find(|earlier| earlier.number == thread.number);
            thread.ran = earlier.is_some_and(|earlier| earlier.ticks < thread.ticks);
        }
        let inside = SegmentMap::of_process(pid, rank).map(|map| {
            let segment = map.view();
            let block = segment.rank_block(rank);
            RankView {
                life: block.liveness.state(),
                asleep: block.doorbell.is_wanted(),
                queued: block.recv_queue.has_news(),
                waited: block.waiting.read(),
            }
        });
        Self { rank, pid, now_ns: monotonic_ns(), inside, threads }
    }

    fn ago(&self, ns: u64) -> Duration {
        Duration::from_nanos(self.now_ns.saturating_sub(ns))
    }

    fn write_wait(&self, f: &mut fmt::Formatter<'_>, inside: &RankView) -> fmt::Result {
        let waited = match inside.waited {
            Ok(Some(waited)) => waited,
            Ok(None) => {
                return f
                    .write_str("has not waited for long yet: it computes, or has just started");
            }
            Err(Unreadable) => return f.write_str("has a record that cannot be read"),
        };
        let Waited { wait, since_ns, latest_ns, turns } = waited;
        let (since, latest) = (self.ago(since_ns), self.ago(latest_ns));
        match wait {
            None => write!(f, "computes: its last long wait ended {since:.1?} ago"),
            Some(wait) if wait.call == Call::Start => {
                write!(f, "waits for {wait}; for {since:.1?}")
            }
            Some(wait) if wait.call == Call::Test || since_ns == latest_ns && turns == 0 => {
                write!(f, "polls: {wait}; ")?;
                match latest < SILENCE {
                    true => write!(f, "the last such call was {latest:.1?} ago"),
                    false => write!(f, "it computes since such a call {latest:.1?} ago"),
                }
            }
            Some(wait) => {
                write!(f, "waits in {wait}; for {since:.1?}, {turns} progress calls")?;
                if latest > SILENCE {
                    write!(
                        f,
                        "; for {latest:.1?} it has not looked at anything: it is stopped, has no \
                         processor, or is stuck in a progress call"
                    )?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (process {}) ", self.rank, self.pid)?;
        match &self.inside {
            _ if self.threads.is_empty() => f.write_str("has ended")?,
            None => f.write_str(
                "has no segment: it has not joined the job yet, and waits for its launcher or for \
                 ranks that start with it; or it has left or ended",
            )?,
            Some(RankView { life: Life::Unborn, .. }) => f.write_str("is joining the job")?,
            Some(RankView { life: Life::Finished, .. }) => f.write_str("has left the job")?,
            Some(inside) => {
                self.write_wait(f, inside)?;
                f.write_str(if inside.asleep {
                    "; it sleeps until its doorbell rings"
                } else {
                    ""
                })?;
                f.write_str(if inside.queued { "; its receive queue holds packets" } else { "" })?;
            }
        }
        for Thread { number, name, state, place, ran, .. } in &self.threads {
            let state = match state {
                'R' => "runs or waits for a processor",
                'S' => "sleeps",
                'D' => "sleeps and cannot be interrupted",
                'T' | 't' => "is stopped",
                'Z' | 'X' => "has ended",
                _ => "is in a state unknown here",
            };
            write!(f, "\n    thread {number} ({name}) {state}")?;
            if !place.is_empty() && place != "0" {
                write!(f, " in {place}")?;
            }
            let ran = if *ran { "used" } else { "did not use" };
            write!(f, "; it {ran} the processor in the last {SAMPLE:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use strait_core::layout::Wait;

    use super::threads::parse_stat;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the first line about a rank with this record, a minute after the clock began.
    fn first_line(waited: Result<Option<Waited>, Unreadable>) -> String {
        let stat = "7 (a (b) c) R 1 7 7 0 -1 4194304 90 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        let threads = vec![parse_stat(7, stat, "0".to_owned()).unwrap()];
        assert_eq!((threads[0].name.as_str(), threads[0].ticks), ("a (b) c", 42));
        let inside = Some(RankView { life: Life::Alive, asleep: false, queued: false, waited });
        let now_ns = 60 * SECOND;
        let shown = Observation { rank: 2, pid: 7, now_ns, inside, threads }.to_string();
        shown.lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_wait_is_described() {
        let wait = Wait { tag: Some(7), context: Some(0), ..Wait::on(Call::Recv, 1) };
        let (since_ns, turns) = (2 * SECOND, 9);
        let line_at = |latest_ns| {
            let waited = Waited { wait: Some(wait), since_ns, latest_ns, turns };
            first_line(Ok(Some(waited)))
        };
        let words = "rank 2 (process 7) waits in recv: source 1, tag 7, context 0; \
                     for 58.0s, 9 progress calls";
        assert_eq!(line_at(60 * SECOND), words);
        let stuck = line_at(20 * SECOND);
        assert!(stuck.contains("for 40.0s it has not looked at anything"), "{stuck}");
    }

    #[test]
    fn a_rank_that_does_not_wait_computes() {
        assert!(first_line(Ok(None)).contains("computes"));
        assert!(first_line(Err(Unreadable)).contains("cannot be read"));
        let at = 50 * SECOND;
        let over = Waited { wait: None, since_ns: at, latest_ns: at, turns: 0 };
        assert!(first_line(Ok(Some(over))).contains("last long wait ended 10.0s ago"));
        let starts = Waited { wait: Some(Wait::new(Call::Start)), ..over };
        let words = first_line(Ok(Some(starts)));
        assert!(
            words.contains("waits for the start of the job's other ranks; for 10.0s"),
            "{words}"
        );
        let polls = Waited { wait: Some(Wait::new(Call::Test)), ..over };
        assert!(first_line(Ok(Some(polls))).contains("computes since such a call 10.0s ago"));
    }
}
