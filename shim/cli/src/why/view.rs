//! A job as two looks show it.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use strait::observe::{
    ObservedJob, ObservedRank, ProcessState, ThreadView, look_at_threads, monotonic_ns,
};
use strait_core::layout::{Call, Communicator, Life, Wait, Waited};

use super::graph::{Activity, Judgement, judge};

/// A rank as two looks show it.
#[derive(Clone, Debug)]
pub(crate) struct SeenRank {
    pub(crate) seen: ObservedRank,
    pub(crate) activity: Activity,
    /// Whether it was in the same wait at both looks.
    pub(crate) is_still: bool,
    /// What the kernel shows of a rank that others wait for while it computes.
    pub(crate) threads: Vec<ThreadView>,
}

/// A job as two looks show it.
#[derive(Debug)]
pub(crate) struct JobView {
    pub(crate) id: u64,
    pub(crate) nodes: usize,
    pub(crate) ranks: Vec<SeenRank>,
    pub(crate) judgement: Judgement,
    /// Time of the second look, in nanoseconds of the monotonic clock.
    pub(crate) now_ns: u64,
    /// Packets that a rank has received from another one, behind those that this has sent to it.
    pub(crate) traffic: BTreeMap<(u32, u32), (u64, u64)>,
    /// Communicators of a rank, by rank and context.
    pub(crate) communicators: BTreeMap<(u32, u32), Communicator>,
}

impl JobView {
    /// Judges a job by two looks. Only what both looks show can be stuck.
    pub(crate) fn new(job: &ObservedJob, first: &[ObservedRank], second: &[ObservedRank]) -> Self {
        let mut view = Self::of(job.id(), job.nodes(), first, second);
        view.traffic = traffic(job, second);
        for rank in second.iter().map(|seen| seen.rank) {
            let all = job.communicators(rank).into_iter();
            view.communicators.extend(all.map(|found| ((rank, found.context), found)));
        }
        for (rank, _) in &view.judgement.slow {
            let rank = &mut view.ranks[*rank as usize];
            rank.threads = look_at_threads(rank.seen.pid);
        }
        view
    }

    /// Returns whether ranks are stuck.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.judgement.stuck.is_empty()
    }

    /// Returns what each rank does.
    pub(crate) fn activities(&self) -> Vec<Activity> {
        self.ranks.iter().map(|rank| rank.activity).collect()
    }

    /// Returns the words about a wait of a rank, with the names that the program knows.
    pub(crate) fn wait_words(&self, rank: u32, wait: &Wait) -> String {
        let name = |context| self.communicators.get(&(rank, context))?.name;
        let mut words = wait.named(&name).to_string();
        let own = wait.context.and_then(|context| self.communicators.get(&(rank, context)));
        // Ranks of a communicator are said where they are not those of the job.
        let other = own.filter(|own| own.rank != rank || own.size as usize != self.ranks.len());
        if let Some(own) = other {
            let _ = write!(words, "; there it is rank {} of {}", own.rank, own.size);
            let peer = wait.peer.and_then(|peer| self.communicators.get(&(peer, own.context)));
            if let Some(peer) = peer {
                let _ =
                    write!(words, ", and rank {} is rank {}", wait.peer.unwrap_or(0), peer.rank);
            }
        }
        words
    }

    /// Returns the words about a context: the communicator of `rank`, or the number.
    pub(crate) fn context_words(&self, rank: u32, context: u32) -> String {
        match self.communicators.get(&(rank, context)).and_then(|found| found.name) {
            Some(name) => format!("communicator {name}"),
            None => format!("context {context}"),
        }
    }

    fn of(id: u64, nodes: usize, first: &[ObservedRank], second: &[ObservedRank]) -> Self {
        let ranks: Vec<SeenRank> = second
            .iter()
            .zip(first)
            .map(|(seen, before)| {
                let activity = activity(seen);
                let is_same = activity == self::activity(before);
                let is_still = is_same && has_looked(before, seen);
                SeenRank { seen: *seen, activity, is_still, threads: Vec::new() }
            })
            .collect();
        // A rank that changed between the looks acts.
        let activities: Vec<Activity> = ranks
            .iter()
            .map(|rank| if is_sure(rank) { rank.activity } else { Activity::Computes })
            .collect();
        let judgement = judge(&activities);
        let (traffic, communicators) = Default::default();
        Self { id, nodes, ranks, judgement, now_ns: monotonic_ns(), traffic, communicators }
    }
}

/// Returns the numbers of packets between each rank that waits for another one on its node, and
/// that one.
fn traffic(job: &ObservedJob, ranks: &[ObservedRank]) -> BTreeMap<(u32, u32), (u64, u64)> {
    let mut traffic = BTreeMap::new();
    for seen in ranks {
        let Activity::Waits { wait, .. } = activity(seen) else { continue };
        let requests = wait.requests.iter().flatten().map(|request| request.peer);
        for peer in requests.chain([wait.peer]).flatten() {
            if ranks.get(peer as usize).is_some_and(|other| other.node == seen.node) {
                let sent = job.counts(peer, seen.rank).packets_out;
                let received = job.counts(seen.rank, peer).packets_in;
                traffic.insert((seen.rank, peer), (sent, received));
            }
        }
    }
    traffic
}

/// Returns whether a rank that waits has looked for what it waits for between the two looks. If
/// not, it may have no processor, and what it waits for may be there.
fn has_looked(before: &ObservedRank, after: &ObservedRank) -> bool {
    let latest = |rank: &ObservedRank| rank.waited.ok().flatten().map(|waited| waited.latest_ns);
    !matches!(activity(after), Activity::Waits { wait, .. } if wait.call != Call::Start)
        || latest(before) != latest(after)
}

/// Returns whether the activity of a rank may be used against it: it lasted from the first look to
/// the second, and the rank looks for what it waits for but finds nothing.
pub(super) const fn is_sure(rank: &SeenRank) -> bool {
    let has_nothing = !rank.seen.has_packets || !matches!(rank.activity, Activity::Waits { .. });
    rank.is_still && has_nothing
}

/// Returns what a rank does.
pub(crate) fn activity(rank: &ObservedRank) -> Activity {
    match (rank.life, rank.process) {
        (Life::Unborn, _) => Activity::Unseen,
        (Life::Dead, _) => Activity::Dead,
        (Life::Finished, _) => Activity::Left,
        (Life::Alive, ProcessState::Ended) => Activity::Dead,
        (Life::Alive, ProcessState::Stopped) => Activity::Stopped,
        (Life::Alive, ProcessState::Active | ProcessState::Hidden) => match rank.waited {
            Ok(Some(Waited { wait: Some(wait), since_ns, latest_ns, turns }))
                if wait.call != Call::Test && !(since_ns == latest_ns && turns == 0) =>
            {
                Activity::Waits { wait, since_ns }
            }
            _ => Activity::Computes,
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use strait_core::layout::{UnexpectedSummary, Wait};

    use super::super::graph::WaitCause;
    use super::*;

    /// A rank that waits for another one to send.
    pub(in crate::why) fn waiting(rank: u32, peer: u32, since_ns: u64) -> ObservedRank {
        let wait = Wait { tag: Some(7), context: Some(0), ..Wait::on(Call::Recv, peer) };
        let waited = Waited { wait: Some(wait), since_ns, latest_ns: since_ns + 1, turns: 9 };
        ObservedRank {
            rank,
            pid: 100 + rank,
            life: Life::Alive,
            waited: Ok(Some(waited)),
            has_packets: false,
            process: ProcessState::Active,
            node: 0,
            unexpected: UnexpectedSummary::default(),
            truncated: None,
        }
    }

    /// A job with ranks that have looked once more before the second look.
    pub(in crate::why) fn view(first: &[ObservedRank], second: &[ObservedRank]) -> JobView {
        let mut later = second.to_vec();
        for rank in &mut later {
            if let Ok(Some(waited)) = &mut rank.waited {
                waited.latest_ns += 1;
            }
        }
        JobView::of(0xabc, 1, first, &later)
    }

    #[test]
    fn only_a_wait_that_both_looks_show_is_stuck() {
        let still = [waiting(0, 1, 5), waiting(1, 0, 6)];
        let knot = (WaitCause::Knot(vec![0, 1]), vec![0, 1]);
        assert_eq!(view(&still, &still).judgement.stuck, [knot]);
        let moved = [waiting(0, 1, 5), waiting(1, 0, 7)];
        assert_eq!(view(&still, &moved).judgement.stuck, []);
    }

    #[test]
    fn a_rank_that_has_not_looked_is_not_stuck() {
        let ranks = [waiting(0, 1, 5), waiting(1, 0, 6)];
        assert_eq!(JobView::of(0xabc, 1, &ranks, &ranks).judgement.stuck, []);
    }

    #[test]
    fn a_rank_with_packets_to_take_is_not_stuck() {
        let mut ranks = [waiting(0, 1, 5), waiting(1, 0, 6)];
        ranks[1].has_packets = true;
        assert_eq!(view(&ranks, &ranks).judgement.stuck, []);
    }

    #[test]
    fn a_stopped_or_killed_rank_is_the_cause() {
        for (life, process) in [
            (Life::Alive, ProcessState::Stopped),
            (Life::Alive, ProcessState::Ended),
            (Life::Dead, ProcessState::Ended),
            (Life::Finished, ProcessState::Ended),
        ] {
            let ranks = [waiting(0, 1, 5), ObservedRank { life, process, ..waiting(1, 0, 6) }];
            assert_eq!(view(&ranks, &ranks).judgement.stuck, [(WaitCause::Rank(1), vec![0])]);
        }
    }
}
