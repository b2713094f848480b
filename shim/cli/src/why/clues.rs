//! What else is known about ranks that are stuck: messages that match almost, memory that is full,
//! receives that failed, members that are missing.

use strait_core::layout::{Call, RequestWait, SendState, UnexpectedHead, Wait};
use strait_core::matching::{ANY_SOURCE, ANY_TAG};

use super::graph::{Activity, missing};
use super::report::list;
use super::view::JobView;

/// Returns sentences about ranks that are stuck.
pub(super) fn clues(view: &JobView, ranks: &[u32]) -> Vec<String> {
    let mut clues = Vec::new();
    let mut add = |clue: String| {
        if !clues.contains(&clue) {
            clues.push(clue);
        }
    };
    for &rank in ranks {
        let Activity::Waits { wait, .. } = view.ranks[rank as usize].activity else { continue };
        receives(wait)
            .for_each(|receive| of_receive(view, rank, receive).into_iter().for_each(&mut add));
        of_send(view, wait).into_iter().for_each(&mut add);
    }
    of_barriers(view, ranks).into_iter().for_each(&mut add);
    of_failures(view).into_iter().for_each(add);
    clues
}

/// Returns the receives and probes for which a rank waits.
fn receives(wait: Wait) -> impl Iterator<Item = RequestWait> {
    let first = Some(RequestWait::from(wait));
    let all = core::iter::once(first).chain(wait.requests);
    all.flatten().filter(|request| matches!(request.call, Call::Recv | Call::Probe))
}

/// Returns what is known about the message for which `rank` waits.
fn of_receive(view: &JobView, rank: u32, receive: RequestWait) -> Vec<String> {
    let heads: Vec<_> =
        view.ranks[rank as usize].seen.unexpected.heads.into_iter().flatten().collect();
    let (Some(peer), Some(tag)) = (receive.peer, receive.tag) else { return Vec::new() };
    let wanted = wanted(peer, tag);
    let near = heads.iter().filter_map(|head| near_miss(view, rank, &receive, head, &wanted));
    let mut clues: Vec<String> = near.collect();
    if clues.is_empty() && peer != ANY_SOURCE {
        clues.extend(of_traffic(view, rank, peer));
    }
    clues
}

/// Describes the message of a receive.
fn wanted(peer: u32, tag: u32) -> String {
    let tag = if tag == ANY_TAG { "any tag".to_owned() } else { format!("tag {tag}") };
    let from = if peer == ANY_SOURCE { "any rank".to_owned() } else { format!("rank {peer}") };
    format!("{tag} from {from}")
}

/// Describes a message that no receive has taken and that differs in one respect from the one that
/// is waited for.
fn near_miss(
    view: &JobView,
    rank: u32,
    receive: &RequestWait,
    head: &UnexpectedHead,
    wanted: &str,
) -> Option<String> {
    let UnexpectedHead { source, tag, context, count, .. } = *head;
    let same_source = receive.peer == Some(source) || receive.peer == Some(ANY_SOURCE);
    let same_tag = receive.tag == Some(tag) || receive.tag == Some(ANY_TAG);
    let same_context = receive.context.is_none_or(|wanted| wanted == context);
    let times = match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let what = match (same_source, same_tag, same_context) {
        (true, false, true) => format!("rank {source} has sent tag {tag}, {times}"),
        (false, true, true) => {
            format!("rank {source} has sent that tag, {times}: is the source right?")
        }
        (true, true, false) => format!(
            "rank {source} has sent that in {}, {times}: is the communicator right?",
            view.context_words(rank, context)
        ),
        (false, false, true) => format!("rank {source} has sent tag {tag}, {times}"),
        _ => return None,
    };
    Some(format!("rank {rank} waits for {wanted}; {what}"))
}

/// Compares what a rank has received from another with what that has sent.
fn of_traffic(view: &JobView, rank: u32, peer: u32) -> Option<String> {
    let (sent, received) = *view.traffic.get(&(rank, peer))?;
    match (sent, received) {
        (0, 0) => Some(format!("rank {peer} has sent nothing to rank {rank} so far")),
        (sent, received) if sent == received => Some(format!(
            "rank {rank} has taken all that rank {peer} has sent ({sent} packets, those of \
             collective calls included): an earlier \
             receive, such as one with a wildcard, may have taken the message"
        )),
        _ => None,
    }
}

/// Returns why a message is kept by its sender.
fn of_send(view: &JobView, wait: Wait) -> Option<String> {
    let peer = wait.peer.filter(|_| wait.stage == Some(SendState::Deferred))?;
    let seen = &view.ranks.get(peer as usize)?.seen;
    (seen.unexpected.messages > 0).then(|| {
        format!(
            "rank {peer} holds {} messages that no receive has taken, {} bytes: it takes no more \
             from a sender whose share (STRAIT_UNEXPECTED_MAX) is used up",
            seen.unexpected.messages, seen.unexpected.bytes
        )
    })
}

/// Names the members that are not in the collective call in which others wait for them.
fn of_barriers(view: &JobView, ranks: &[u32]) -> Vec<String> {
    let activities = view.activities();
    let lines = ranks.iter().filter_map(|rank| {
        let missing = missing(&activities, *rank);
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let call = match activities[*rank as usize] {
            Activity::Waits { wait: Wait { window: Some(window), .. }, .. } => {
                format!("barrier of window {}.{}", window >> 16, window & 0xffff)
            }
            Activity::Waits { wait: Wait { call: Call::Barrier, .. }, .. } => "barrier".to_owned(),
            _ => format!("collective operation in which rank {rank} waits for it"),
        };
        (!missing.is_empty()).then(|| format!("{} {verb} not in the {call}", list(&missing)))
    });
    lines.collect()
}

/// Names ranks that have died, and receives that failed.
fn of_failures(view: &JobView) -> Vec<String> {
    let mut lines = Vec::new();
    for rank in &view.ranks {
        let number = rank.seen.rank;
        if let Some(found) = rank.seen.truncated {
            lines.push(format!(
                "a receive of rank {number} has failed: the message (source {}, tag {}) has {} \
                 bytes, its buffer {}",
                found.source, found.tag, found.message, found.buffer
            ));
        }
        if rank.activity == Activity::Dead {
            lines.push(format!(
                "rank {number} (process {}) was killed or has crashed",
                rank.seen.pid
            ));
        }
    }
    lines
}
