//! Events in random order.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::matching::{ANY_SOURCE, ANY_TAG};

/// One event. Tags come from a small space, so that many match.
#[derive(Clone, Copy, Debug)]
enum Step {
    Receive(Pattern, bool),
    Send(u32),
    Eager(u32),
    Hear,
    Deliver,
    Choose(Rendezvous),
}

fn step() -> impl Strategy<Value = Step> {
    let tag = 0..3_u32;
    let source = prop_oneof![9 => Just(PEER), 1 => Just(ANY_SOURCE)];
    let tags = prop_oneof![9 => tag.clone(), 1 => Just(ANY_TAG)];
    let pattern =
        (source, tags).prop_map(|(source, tag)| Pattern { context: CONTEXT, source, tag });
    prop_oneof![
        12 => (pattern, prop::bool::weighted(0.9)).prop_map(|(p, large)| Step::Receive(p, large)),
        10 => tag.clone().prop_map(Step::Send),
        2 => tag.prop_map(Step::Eager),
        12 => Just(Step::Hear),
        12 => Just(Step::Deliver),
        1 => (0..3_usize).prop_map(|which| Step::Choose(Rendezvous::ALL[which])),
    ]
}

/// Rules with fewer records than envelopes and with few RTRs, so that both run out.
struct Small;

impl Rules for Small {
    const RTRS: u32 = 4;
    const RECORDS: usize = 2;
}

pub(super) fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 2 } else { 500 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// In any order of events, the sender writes to the receive that the message meets
    /// ([`Pair::meet`]). An RTR is sent only if no earlier receive that could take its message
    /// lacks one. The number of RTRs is bounded.
    #[test]
    fn no_message_goes_to_another_receive(steps in vec(step(), 0..200)) {
        Counted::lend(|memory| {
            let mut pair = Pair::<Small>::open(memory);
            for step in steps {
                match step {
                    Step::Receive(pattern, large) => {
                        let waiting: Vec<u32> =
                            pair.posted.patterns().map(|(_, _, receive)| receive).collect();
                        if pair.receive(pattern, large).is_some() {
                            let Pattern { context, source, tag } = pattern;
                            let envelope = Envelope { context, source, tag };
                            let earlier = waiting.iter().map(|&receive| receive as usize);
                            let silent = |receive: usize| pair.asked[receive].is_none();
                            let matching = earlier
                                .filter(|&receive| pair.patterns[receive].matches(&envelope));
                            let matching: Vec<usize> = matching.collect();
                            assert!(!matching.iter().any(|&receive| silent(receive)));
                            assert!(matching.len() < Small::RTRS as usize);
                        }
                    }
                    Step::Send(tag) => drop(pair.send(tag)),
                    Step::Eager(tag) => pair.eager(tag),
                    Step::Hear => drop(pair.hear()),
                    Step::Deliver => drop(pair.deliver()),
                    Step::Choose(choice) => pair.choice = choice,
                }
            }
            pair.settle();
        });
    }
}
