//! The speculative rendezvous in every interleaving of every small program: the state machines and
//! the matching queues of the library, checked by stateright. A model without a rule shows what the
//! rule is for.

mod checker;
mod judging;
mod program;
mod receiving;
mod replayed;
mod rules;
mod sending;
mod state;

use strait_core::rndv::Rules;

use checker::holds;
use program::{OpenedAhead, Scope};
use state::Ruled;

/// Few RTRs, judged in small samples, and a record for every envelope.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Small;

impl Rules for Small {
    const RTRS: u32 = 2;
    const RECORDS: usize = 4;
    const SAMPLES: u32 = 5;
    const PAUSE_MIN: u32 = 1;
    const PAUSE_MAX: u32 = 2;
}

impl Ruled for Small {}

/// One RTR, and one record.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Tiny;

impl Rules for Tiny {
    const RTRS: u32 = 1;
    const RECORDS: usize = 1;
    const SAMPLES: u32 = 1;
    const PAUSE_MIN: u32 = 1;
    const PAUSE_MAX: u32 = 2;
}

impl Ruled for Tiny {}

#[test]
fn one_envelope() {
    holds::<Small>("one envelope", Scope::one_envelope().of(3, 3));
    holds::<Tiny>("one envelope, one RTR", Scope::one_envelope().of(3, 3));
}

#[test]
fn unopened() {
    holds::<Small>("no rank has sent", Scope::one_envelope().of(3, 3).unopened());
}

#[test]
fn opened_ahead() {
    for ahead in [OpenedAhead::Receiver, OpenedAhead::Both] {
        let what = |scope| format!("opened ahead by {ahead:?}: {scope}");
        holds::<Small>(&what("one envelope"), Scope::one_envelope().of(3, 3).ahead(ahead));
        holds::<Tiny>(&what("one RTR"), Scope::one_envelope().of(3, 3).ahead(ahead));
        holds::<Small>(&what("cancelled"), Scope::cancelled().of(2, 3).ahead(ahead));
        holds::<Tiny>(&what("two tags, one record"), Scope::two_tags().of(2, 3).ahead(ahead));
    }
}

#[test]
fn wildcards() {
    holds::<Small>("wildcards", Scope::wildcards().of(2, 3));
}

#[test]
fn two_senders() {
    holds::<Small>("two senders", Scope::two_senders().of(1, 3));
}

#[test]
fn cancelled_receives() {
    holds::<Small>("cancelled receives", Scope::cancelled().of(3, 3));
    holds::<Tiny>("cancelled receives, one RTR", Scope::cancelled().of(3, 3));
}

#[test]
fn two_tags() {
    holds::<Small>("two tags", Scope::two_tags().of(3, 3));
    holds::<Tiny>("two tags, one record", Scope::two_tags().of(3, 3));
}

#[test]
fn adaptation() {
    holds::<Small>("adaptive", Scope::large().of(6, 6).adaptive());
    holds::<Tiny>("adaptive, one RTR", Scope::large().of(6, 6).adaptive());
    holds::<Small>("adaptive, mispredicted", Scope::mispredicted().of(4, 4).adaptive());
    holds::<Tiny>("adaptive, one RTR, mispredicted", Scope::mispredicted().of(4, 4).adaptive());
    holds::<Tiny>("adaptive, cancelled receives", Scope::cancelled().of(3, 3).adaptive());
    holds::<Tiny>("adaptive, two tags, one record", Scope::two_tags().of(3, 3).adaptive());
}
