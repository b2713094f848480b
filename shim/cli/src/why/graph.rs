//! Which rank waits for which, and which of them cannot go on.
//!
//! A rank that waits needs other ranks: all of some, or any one of some. A rank that computes may
//! act. From these, ranks that may go on are found step by step. Those that are left wait for each
//! other, or for a rank that will not act any more.

use core::iter;

use petgraph::Graph;
use petgraph::algo::condensation;
use petgraph::graph::NodeIndex;
use petgraph::visit::{Dfs, Reversed};
use strait_core::layout::{Call, Wait};
use strait_core::matching::{ANY_SOURCE, ANY_TAG};

/// What a rank does, as far as others depend on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each rank, and it is copied seldom"
)]
pub(crate) enum Activity {
    /// It is outside the library, or in calls that do not wait.
    Computes,
    /// It waits, since this time in nanoseconds of the monotonic clock.
    Waits {
        /// What it waits for.
        wait: Wait,
        /// When the wait began.
        since_ns: u64,
    },
    /// Its process is stopped.
    Stopped,
    /// It ended without leaving the job.
    Dead,
    /// It has left the job.
    Left,
    /// It has not joined yet, or is on another host.
    Unseen,
}

/// The ranks without which a rank does not go on.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Need {
    /// Nothing: the rank may act, or never will.
    Nothing,
    /// Each of these ranks.
    AllOf(Vec<u32>),
    /// One of these ranks. The record does not say which: a wildcard, or a call with members that
    /// it does not name.
    AnyOf(Vec<u32>),
}

/// A reason for which ranks do not go on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum WaitCause {
    /// These ranks wait for each other. In a cycle, each waits for the next.
    Knot(Vec<u32>),
    /// The rank is waited for, and will not act.
    Rank(u32),
}

/// The judgement about a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Judgement {
    /// The reasons for which ranks are stuck, each with the ranks that wait because of it.
    pub(crate) stuck: Vec<(WaitCause, Vec<u32>)>,
    /// Ranks that compute while others wait for them, each with those.
    pub(crate) slow: Vec<(u32, Vec<u32>)>,
    /// Pairs of ranks with a message on its way: the sender and the receiver wait for its end.
    pub(crate) moving: Vec<(u32, u32)>,
}

/// Judges a job by what its ranks do. `ranks[r]` is the activity of rank `r`.
pub(super) fn judge(ranks: &[Activity]) -> Judgement {
    let moving = moving(ranks);
    let needs: Vec<Need> = (0..ranks.len() as u32).map(|rank| need(ranks, rank)).collect();
    let free = free(ranks, &needs, &moving);
    let mut judgement = Judgement { moving, ..Judgement::default() };
    judgement.stuck = causes(ranks, &needs, &free);
    for (rank, activity) in (0..).zip(ranks) {
        let waiting = waiting_for(rank, &needs);
        if *activity == Activity::Computes && !waiting.is_empty() {
            judgement.slow.push((rank, waiting));
        }
    }
    judgement
}

/// Returns the pairs of a sender and its receiver that wait for the same message.
fn moving(ranks: &[Activity]) -> Vec<(u32, u32)> {
    let waits = |rank: u32| match ranks.get(rank as usize) {
        Some(Activity::Waits { wait, .. }) => Some(*wait),
        _ => None,
    };
    let pair = |sender: u32| {
        let send = waits(sender).filter(|wait| wait.call == Call::Send)?;
        let receiver = send.peer?;
        let receive = waits(receiver).filter(|wait| wait.call == Call::Recv)?;
        let from = receive.peer.is_some_and(|peer| peer == sender || peer == ANY_SOURCE);
        let tag = receive.tag == Some(ANY_TAG) || receive.tag == send.tag;
        (from && tag && receive.context == send.context).then_some((sender, receiver))
    };
    (0..ranks.len() as u32).filter_map(pair).collect()
}

/// Returns what a rank needs to go on.
fn need(ranks: &[Activity], rank: u32) -> Need {
    let Activity::Waits { wait, .. } = ranks[rank as usize] else { return Need::Nothing };
    let count = ranks.len() as u32;
    let is_elsewhere = |other: &u32| *other != rank && !meets(ranks[*other as usize], wait);
    if let Some(others) = wait.others {
        let others: Vec<u32> =
            others.iter().filter(|other| *other < count).filter(is_elsewhere).collect();
        return match wait.call {
            _ if others.is_empty() => Need::Nothing,
            Call::WaitAny | Call::WaitSome => Need::AnyOf(others),
            _ => Need::AllOf(others),
        };
    }
    // The others of these calls are not known: the first operation alone does not decide.
    let is_unsure = matches!(wait.call, Call::WaitAny | Call::WaitSome | Call::WindowLock);
    match wait.peer {
        Some(peer) if peer == rank => Need::Nothing,
        Some(peer) if peer < count && !is_unsure => Need::AllOf(vec![peer]),
        _ => Need::AnyOf((0..count).filter(is_elsewhere).collect()),
    }
}

/// Returns the members of a collective call in which `rank` waits that are not in it.
pub(super) fn missing(ranks: &[Activity], rank: u32) -> Vec<u32> {
    match ranks[rank as usize] {
        Activity::Waits { wait, .. } if matches!(wait.call, Call::Barrier | Call::Collective) => {
            let Need::AllOf(mut others) = need(ranks, rank) else { return Vec::new() };
            others.retain(|other| {
                !matches!(ranks[*other as usize], Activity::Waits { wait: other, .. }
                    if other.call == wait.call && other.context == wait.context)
            });
            others
        }
        _ => Vec::new(),
    }
}

/// Returns whether a rank is in the same collective call.
fn meets(other: Activity, wait: Wait) -> bool {
    let is_collective = matches!(wait.call, Call::Barrier | Call::Collective);
    is_collective
        && matches!(other, Activity::Waits { wait: other, .. }
            if (other.call, other.context, other.tag) == (wait.call, wait.context, wait.tag))
}

/// Returns which ranks may go on.
fn free(ranks: &[Activity], needs: &[Need], moving: &[(u32, u32)]) -> Vec<bool> {
    let mut free: Vec<bool> = (0..)
        .zip(ranks)
        .map(|(rank, activity)| {
            let moves = moving.iter().any(|(from, to)| *from == rank || *to == rank);
            moves || matches!(activity, Activity::Computes | Activity::Unseen)
        })
        .collect();
    loop {
        let freed: Vec<usize> = (0..ranks.len())
            .filter(|rank| !free[*rank])
            .filter(|rank| match &needs[*rank] {
                Need::Nothing => matches!(ranks[*rank], Activity::Waits { .. }),
                Need::AllOf(peers) => peers.iter().all(|peer| free[*peer as usize]),
                Need::AnyOf(peers) => {
                    peers.is_empty() || peers.iter().any(|peer| free[*peer as usize])
                }
            })
            .collect();
        if freed.is_empty() {
            return free;
        }
        freed.into_iter().for_each(|rank| free[rank] = true);
    }
}

/// Returns the reasons for which the ranks that are not free wait, each with those ranks.
///
/// The groups of ranks that depend on each other form a graph without cycles. A group in it that
/// depends on no other group is a reason.
fn causes(ranks: &[Activity], needs: &[Need], free: &[bool]) -> Vec<(WaitCause, Vec<u32>)> {
    let graph = blocked(ranks, needs, free);
    let groups = condensation(graph.clone(), true);
    let ends = groups.node_indices().filter(|group| {
        groups.neighbors(*group).next().is_none()
            && groups[*group]
                .iter()
                .any(|rank| graph.neighbors_undirected(index(*rank)).next().is_some())
    });
    let mut causes: Vec<_> = ends
        .map(|end| {
            let mut waiting = Vec::new();
            let mut behind = Dfs::new(Reversed(&groups), end);
            while let Some(group) = behind.next(Reversed(&groups)) {
                waiting
                    .extend(groups[group].iter().filter(|rank| is_waiting(ranks[**rank as usize])));
            }
            waiting.sort_unstable();
            (cause(&groups[end], ranks, &graph), waiting)
        })
        .collect();
    causes.sort_by_key(|(_, waiting)| waiting.first().copied());
    causes
}

/// Returns the graph of the ranks that are not free, with an edge to each rank that one needs.
fn blocked(ranks: &[Activity], needs: &[Need], free: &[bool]) -> Graph<u32, ()> {
    let mut graph = Graph::new();
    for rank in 0..ranks.len() as u32 {
        graph.add_node(rank);
    }
    for (rank, need) in (0..).zip(needs).filter(|(rank, _)| !free[*rank as usize]) {
        let mut peers = match need {
            Need::Nothing => Vec::new(),
            // Those that may go on are no reason.
            Need::AllOf(peers) => {
                peers.iter().copied().filter(|peer| !free[*peer as usize]).collect()
            }
            Need::AnyOf(peers) => peers.clone(),
        };
        if matches!(need, Need::AnyOf(_))
            && peers.iter().any(|peer| is_waiting(ranks[*peer as usize]))
        {
            // The others have ended, and are no reason while one of these could act.
            peers.retain(|peer| is_waiting(ranks[*peer as usize]));
        }
        for peer in peers {
            graph.add_edge(index(rank), index(peer), ());
        }
    }
    graph
}

const fn is_waiting(activity: Activity) -> bool {
    matches!(activity, Activity::Waits { .. })
}

fn index(rank: u32) -> NodeIndex {
    NodeIndex::new(rank as usize)
}

/// Describes ranks that depend on each other, or one rank on which others depend.
fn cause(group: &[u32], ranks: &[Activity], graph: &Graph<u32, ()>) -> WaitCause {
    if let [rank] = *group
        && !is_waiting(ranks[rank as usize])
    {
        return WaitCause::Rank(rank);
    }
    let mut sorted = group.to_vec();
    sorted.sort_unstable();
    // In a cycle, each rank waits for one other.
    let after = |rank: u32| {
        let mut next = graph.neighbors(index(rank));
        next.next().filter(|_| next.next().is_none()).map(|next| graph[next])
    };
    let cycle: Vec<u32> =
        iter::successors(sorted.first().copied(), |rank| after(*rank)).take(sorted.len()).collect();
    WaitCause::Knot(if cycle.len() == sorted.len() { cycle } else { sorted })
}

/// Returns the ranks that wait for `rank`, directly.
fn waiting_for(rank: u32, needs: &[Need]) -> Vec<u32> {
    let waits = |need: &Need| match need {
        Need::Nothing => false,
        Need::AllOf(peers) | Need::AnyOf(peers) => peers.contains(&rank),
    };
    (0..).zip(needs).filter(|(_, need)| waits(need)).map(|(rank, _)| rank).collect()
}

#[cfg(test)]
mod tests {
    use strait_core::layout::{RankSet, RequestWait};

    use super::*;

    fn waits(wait: Wait) -> Activity {
        Activity::Waits { wait, since_ns: 0 }
    }

    fn on(call: Call, peer: u32, tag: u32) -> Activity {
        waits(Wait { tag: Some(tag), context: Some(0), ..Wait::on(call, peer) })
    }

    fn barrier() -> Activity {
        waits(Wait { context: Some(0), ..Wait::new(Call::Barrier) })
    }

    fn barrier_of(others: &[u32]) -> Activity {
        let others = RankSet::of(others.iter().copied());
        waits(Wait { context: Some(0), others, ..Wait::new(Call::Barrier) })
    }

    fn stuck(ranks: &[Activity]) -> Vec<(WaitCause, Vec<u32>)> {
        judge(ranks).stuck
    }

    #[test]
    fn ranks_that_send_to_each_other_are_a_cycle() {
        let ranks = [on(Call::Send, 1, 7), on(Call::Send, 2, 7), on(Call::Send, 0, 7)];
        assert_eq!(stuck(&ranks), [(WaitCause::Knot(vec![0, 1, 2]), vec![0, 1, 2])]);
    }

    #[test]
    fn ranks_behind_a_cycle_wait_because_of_it() {
        let ranks = [on(Call::Recv, 2, 7), on(Call::Recv, 2, 7), on(Call::Recv, 1, 7)];
        assert_eq!(stuck(&ranks), [(WaitCause::Knot(vec![1, 2]), vec![0, 1, 2])]);
    }

    #[test]
    fn a_message_of_which_both_ends_wait_is_moving() {
        let ranks = [on(Call::Send, 1, 7), on(Call::Recv, ANY_SOURCE, ANY_TAG)];
        let judgement = judge(&ranks);
        assert_eq!((judgement.stuck, judgement.moving), (vec![], vec![(0, 1)]));
        let other_tag = [on(Call::Send, 1, 7), on(Call::Recv, 0, 8)];
        assert_eq!(stuck(&other_tag), [(WaitCause::Knot(vec![0, 1]), vec![0, 1])]);
    }

    #[test]
    fn a_rank_that_computes_is_slow_and_never_a_cause() {
        let ranks = [on(Call::Recv, 1, 7), on(Call::Recv, 2, 7), Activity::Computes];
        let judgement = judge(&ranks);
        assert_eq!((judgement.stuck, judgement.slow), (vec![], vec![(2, vec![1])]));
    }

    #[test]
    fn ranks_that_will_not_act_are_causes() {
        for activity in [Activity::Stopped, Activity::Dead, Activity::Left] {
            let ranks = [on(Call::Recv, 1, 7), on(Call::Send, 2, 7), activity];
            assert_eq!(stuck(&ranks), [(WaitCause::Rank(2), vec![0, 1])], "{activity:?}");
        }
    }

    #[test]
    fn a_member_that_waits_elsewhere_keeps_a_barrier() {
        let ranks = [barrier(), barrier(), on(Call::Recv, 0, 7)];
        assert_eq!(stuck(&ranks), [(WaitCause::Knot(vec![0, 2]), vec![0, 1, 2])]);
    }

    #[test]
    fn a_barrier_needs_each_member_that_is_not_in_it() {
        let ranks = [barrier_of(&[1, 2]), barrier_of(&[0, 2]), on(Call::Recv, 3, 7), barrier()];
        let stopped = [ranks[0], ranks[1], Activity::Stopped, Activity::Computes];
        assert_eq!(stuck(&stopped), [(WaitCause::Rank(2), vec![0, 1])]);
        assert_eq!(missing(&stopped, 0), [2]);
        let all = [barrier_of(&[1]), barrier_of(&[0])];
        assert_eq!(stuck(&all), []);
    }

    #[test]
    fn a_wait_for_several_needs_one_of_them() {
        let any = |others: &[u32]| {
            let others = RankSet::of(others.iter().copied());
            waits(Wait { others, ..Wait::new(Call::WaitAny) })
        };
        let stopped = Activity::Stopped;
        assert_eq!(stuck(&[any(&[1, 2]), stopped, Activity::Computes]), []);
        assert_eq!(stuck(&[any(&[1]), stopped, Activity::Computes]).len(), 1);
    }

    #[test]
    fn a_shared_lock_needs_each_holder() {
        let lock = |others: &[u32]| {
            let others = RankSet::of(others.iter().copied());
            waits(Wait { others, target: Some(0), ..Wait::new(Call::WindowLock) })
        };
        let ranks = [lock(&[1, 2]), on(Call::Recv, 0, 7), Activity::Computes];
        assert_eq!(stuck(&ranks), [(WaitCause::Knot(vec![0, 1]), vec![0, 1])]);
    }

    /// Whatever a record says, the judgement ends and names ranks of the job only.
    #[test]
    fn any_record_is_judged() {
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) as u32
        };
        for _ in 0..2000 {
            let count = next() % 6 + 1;
            let one = |next: &mut dyn FnMut() -> u32| {
                let call = [Call::Recv, Call::Send, Call::Barrier, Call::WaitAny, Call::WindowLock]
                    [next() as usize % 5];
                let some = |value: u32| (!value.is_multiple_of(3)).then_some(value % 8);
                let others =
                    next().is_multiple_of(2).then(|| RankSet::of([next() % 512, next() % 4]));
                let wait = Wait {
                    peer: [some(next()), Some(ANY_SOURCE), Some(next())][next() as usize % 3],
                    tag: some(next()),
                    others: others.flatten(),
                    requests: [None; RequestWait::MOST],
                    ..Wait::new(call)
                };
                let ended = [Activity::Stopped, Activity::Dead, Activity::Computes];
                if next().is_multiple_of(3) { ended[next() as usize % 3] } else { waits(wait) }
            };
            let ranks: Vec<Activity> = (0..count).map(|_| one(&mut next)).collect();
            let judgement = judge(&ranks);
            for (cause, waiting) in &judgement.stuck {
                let named = match cause {
                    WaitCause::Knot(ranks) => ranks.clone(),
                    WaitCause::Rank(rank) => vec![*rank],
                };
                assert!(named.iter().chain(waiting).all(|rank| *rank < count));
            }
        }
    }

    #[test]
    fn a_wildcard_waits_for_any_rank() {
        let any = on(Call::Recv, ANY_SOURCE, 7);
        assert_eq!(stuck(&[any, Activity::Computes, on(Call::Recv, 0, 1)]), []);
        let ranks = [any, on(Call::Recv, 0, 1), Activity::Dead];
        assert_eq!(stuck(&ranks), [(WaitCause::Knot(vec![0, 1]), vec![0, 1])]);
    }

    #[test]
    fn a_rank_that_waits_for_itself_or_for_no_rank_is_not_judged() {
        assert_eq!(stuck(&[on(Call::Recv, 0, 1), Activity::Computes]), []);
        assert_eq!(stuck(&[on(Call::Recv, 9, 1)]), []);
    }
}
