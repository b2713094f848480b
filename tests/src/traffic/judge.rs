//! Compares the messages that a rank received with the expected ones.

use strait::Status;
use strait_core::matching::Envelope;

use super::phase::{Message, Phase, Receive, Step};
use crate::{explain, payload};

/// The initial byte of a receive's memory. A payload contains it only by chance.
pub(super) const UNTOUCHED: u8 = 0xee;

/// Judges all receives of `rank`. `statuses` and `incoming` are in the order of
/// [`Phase::receives`].
pub(super) fn judge(
    phase: &Phase,
    rank: u32,
    statuses: &[Option<Status>],
    incoming: &[Vec<u8>],
    what: &str,
) {
    let mut wild = Vec::new();
    for step in &phase.steps[rank as usize] {
        let (Step::Receive { receive, .. } | Step::Exchange { receive, .. }) = *step else {
            continue;
        };
        let status = statuses[receive].unwrap_or_else(|| panic!("{what}, receive {receive}: lost"));
        match phase.receives[receive].message {
            Some(message) => check(phase, message, receive, status, &incoming[receive], what),
            None => wild.push((receive, status)),
        }
    }
    judge_wild(phase, rank, &wild, incoming, what);
}

fn check(phase: &Phase, message: usize, receive: usize, status: Status, bytes: &[u8], what: &str) {
    let Message { envelope, length, id, .. } = phase.messages[message];
    let what = || format!("{what}, receive {receive} of message {message} {envelope:?}");
    let expected = Status { source: envelope.source, tag: envelope.tag, bytes: length };
    assert_eq!(status, expected, "{}", what());
    if let Some(at) = payload::first_difference(id, &bytes[..length]) {
        panic!("{}: byte {at} or one of the next 7 of {length} is wrong", what());
    }
    let beyond = bytes[length..].iter().position(|byte| *byte != UNTOUCHED);
    assert_eq!(beyond, None, "{}: written beyond the message's {length} bytes", what());
}

/// Judges the receives from any source, in the order in which they were posted.
fn judge_wild(
    phase: &Phase,
    rank: u32,
    wild: &[(usize, Status)],
    incoming: &[Vec<u8>],
    what: &str,
) {
    let Some((first, _)) = wild.first() else { return };
    let context = phase.receives[*first].pattern.context;
    let to_us =
        |message: &Message| message.destination == rank && message.envelope.context == context;
    let numbers: Vec<usize> =
        (0..phase.messages.len()).filter(|number| to_us(&phase.messages[*number])).collect();
    let envelopes: Vec<Envelope> =
        numbers.iter().map(|number| phase.messages[*number].envelope).collect();
    let mut taken = vec![false; numbers.len()];
    let mut got = Vec::new();
    for &(receive, status) in wild {
        // Messages of one source with one tag have equal envelopes: their order distinguishes them.
        let candidate = (0..numbers.len()).find(|&at| {
            !taken[at] && (envelopes[at].source, envelopes[at].tag) == (status.source, status.tag)
        });
        let at = candidate
            .unwrap_or_else(|| panic!("{what}, receive {receive}: no rank sent {status:?}"));
        taken[at] = true;
        got.push(at);
        check(phase, numbers[at], receive, status, &incoming[receive], what);
    }
    let patterns: Vec<_> = wild
        .iter()
        .map(|(receive, _)| {
            let Receive { pattern, .. } = phase.receives[*receive];
            pattern
        })
        .collect();
    let explained = explain(&patterns, &envelopes, &got);
    assert!(explained.is_some(), "{what}: {patterns:?} got {got:?} of {envelopes:?}");
}
