//! The oracle: matching as MPI-4.1 §3.5 defines it, one step after the other.
//!
//! Messages of one source arrive in the order in which they were sent. A message goes to the oldest
//! posted receive that accepts it, and a receive takes the oldest message that it accepts. Given
//! the order of receives and the order of arrival the outcome is fixed. The order of arrival
//! between sources is free, so with receives from any source several outcomes are legal.
//! [`explain`] tells whether an outcome is legal.

use strait::ANY_TAG;
use strait::raw::ANY_SOURCE;
use strait_core::matching::{Envelope, Pattern};

/// Returns whether a receive takes a message. The oracle does not use the code that it judges.
fn accepts(pattern: &Pattern, envelope: &Envelope) -> bool {
    pattern.context == envelope.context
        && (pattern.source == ANY_SOURCE || pattern.source == envelope.source)
        && (pattern.tag == ANY_TAG || pattern.tag == envelope.tag)
}

/// One rank's receives and messages, each named by a number of the caller.
#[derive(Debug, Default)]
pub struct Model {
    posted: Vec<(usize, Pattern)>,
    unexpected: Vec<(usize, Envelope)>,
    matches: Vec<(usize, usize)>,
}

impl Model {
    /// Posts a receive.
    pub fn post(&mut self, receive: usize, pattern: Pattern) {
        match self.unexpected.iter().position(|(_, envelope)| accepts(&pattern, envelope)) {
            Some(place) => self.matches.push((receive, self.unexpected.remove(place).0)),
            None => self.posted.push((receive, pattern)),
        }
    }

    /// Records that a message arrives.
    pub fn arrive(&mut self, message: usize, envelope: Envelope) {
        match self.posted.iter().position(|(_, pattern)| accepts(pattern, &envelope)) {
            Some(place) => self.matches.push((self.posted.remove(place).0, message)),
            None => self.unexpected.push((message, envelope)),
        }
    }

    /// Returns the message that `receive` got.
    #[must_use]
    pub fn message_of(&self, receive: usize) -> Option<usize> {
        self.matches.iter().find(|(other, _)| *other == receive).map(|(_, message)| *message)
    }
}

/// Returns an order of arrival that explains an outcome, or `None` if the outcome is illegal. The
/// receives `patterns` were posted in this order, and `got` names the message of each. `envelopes`
/// has the messages of each source in the order in which they were sent, and each is in `got` once.
#[must_use]
pub fn explain(patterns: &[Pattern], envelopes: &[Envelope], got: &[usize]) -> Option<Vec<usize>> {
    let mut later: Vec<Vec<usize>> = vec![Vec::new(); envelopes.len()];
    for (second, envelope) in envelopes.iter().enumerate() {
        let same_source = |first: &usize| envelopes[*first].source == envelope.source;
        if let Some(first) = (0..second).rev().find(same_source) {
            later[first].push(second);
        }
    }
    for (at, pattern) in patterns.iter().enumerate() {
        // A receive accepts the message of a younger receive, so its own message must have arrived
        // before.
        for &other in got[at + 1..].iter().filter(|other| accepts(pattern, &envelopes[**other])) {
            later[got[at]].push(other);
        }
    }
    let order = topological_order(&later)?;
    let mut model = Model::default();
    patterns.iter().enumerate().for_each(|(receive, pattern)| model.post(receive, *pattern));
    order.iter().for_each(|&message| model.arrive(message, envelopes[message]));
    let same = (0..got.len()).all(|receive| model.message_of(receive) == Some(got[receive]));
    same.then_some(order)
}

/// Returns an order in which each number comes before those in its list, or `None` when they form a
/// circle.
fn topological_order(later: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut waits_for = vec![0; later.len()];
    later.iter().flatten().for_each(|&second| waits_for[second] += 1);
    let mut order: Vec<usize> = (0..later.len()).filter(|&first| waits_for[first] == 0).collect();
    let mut at = 0;
    while at < order.len() {
        for &second in &later[order[at]] {
            waits_for[second] -= 1;
            if waits_for[second] == 0 {
                order.push(second);
            }
        }
        at += 1;
    }
    (order.len() == later.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Pattern = Pattern { context: 0, source: ANY_SOURCE, tag: ANY_TAG };

    fn from(source: u32, tag: u32) -> Envelope {
        Envelope { context: 0, source, tag }
    }

    #[test]
    fn sources_may_interleave_and_none_may_overtake_itself() {
        let messages = [from(0, 1), from(0, 2), from(1, 1)];
        assert!(explain(&[ANY; 3], &messages, &[0, 1, 2]).is_some());
        assert!(explain(&[ANY; 3], &messages, &[0, 2, 1]).is_some());
        assert!(explain(&[ANY; 3], &messages, &[2, 0, 1]).is_some());
        assert!(explain(&[ANY; 3], &messages, &[1, 0, 2]).is_none());
    }

    #[test]
    fn a_receive_may_not_pass_by_an_older_message() {
        let one = Pattern { tag: 1, ..ANY };
        let messages = [from(0, 1), from(0, 2), from(0, 1)];
        assert!(explain(&[one, ANY, ANY], &messages, &[0, 1, 2]).is_some());
        assert!(explain(&[one, ANY, ANY], &messages, &[2, 0, 1]).is_none());
    }

    #[test]
    fn orders_that_contradict_each_other_are_illegal() {
        let (one, two) = (Pattern { tag: 1, ..ANY }, Pattern { tag: 2, ..ANY });
        // Tag 1: source 1 came before source 0. Tag 2: source 0 before source 1. Each source sent 1
        // after 2, 2 after 1.
        let messages = [from(0, 1), from(0, 2), from(1, 2), from(1, 1)];
        assert!(explain(&[one, one, two, two], &messages, &[0, 3, 2, 1]).is_some());
        assert!(explain(&[one, one, two, two], &messages, &[3, 0, 1, 2]).is_none());
    }
}
