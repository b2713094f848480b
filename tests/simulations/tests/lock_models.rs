//! The locks of windows in every interleaving of small programs: the state machines of the library,
//! checked by stateright. Exclusive holders exclude all others, sharers share, no member waits for
//! ever, and a death is reported or survived.

use stateright::{Checker, HasDiscoveries, Model, Property};

use strait_core::lock::LockType::{self, Exclusive, Shared};
use strait_core::lock::{
    FixedMode, Follow, History, Hysteresis, LockCosts, LockMode, MeasuredCost,
};
use strait_tests::locks::{Action, Design, Moves, Play};

/// Threads of a check.
const THREADS: usize = 2;

/// One lock, and the members that request it.
struct Wanted {
    begin: Play,
    sharing: bool,
}

const EXCLUSION: &str = "an exclusive holder excludes all others";
const SERVED: &str = "at the end every member was served, or learned of a death";

impl Model for Wanted {
    type State = Play;
    type Action = Action;

    fn init_states(&self) -> Vec<Play> {
        vec![self.begin.clone()]
    }

    fn actions(&self, state: &Play, actions: &mut Vec<Action>) {
        actions.extend(state.actions());
    }

    fn next_state(&self, state: &Play, action: Action) -> Option<Play> {
        let mut next = state.clone();
        next.act(action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, |_, play: &Play| play.broken.is_none()),
            Property::always(SERVED, |_, play: &Play| {
                // A death may happen, but need not.
                let may_go_on = play.actions().iter().any(|it| !matches!(it, Action::Kill(_)));
                may_go_on || play.broken.is_some() || play.is_over()
            }),
        ];
        if self.sharing {
            let shared = |_: &Self, play: &Play| play.most > 1;
            properties.push(Property::sometimes("two share the lock", shared));
        }
        properties
    }
}

/// Checks every interleaving. `on_node` members are on the target's node.
#[track_caller]
fn holds(name: &str, design: Design, programs: &[&[LockType]], on_node: u32, deaths: u32) {
    let sharers = programs.iter().filter(|program| program.contains(&Shared)).count();
    let begin = Play::new(design, programs, on_node, deaths);
    let standstill = begin.standstill();
    assert_eq!(standstill, None, "{name}, {design:?}: these steps lead to no end");
    let model = Wanted { begin, sharing: sharers > 1 };
    let checker = model.checker().threads(THREADS).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_dfs().join();
    println!("{name}, {design:?}, {deaths} deaths: {} states", checker.unique_state_count());
    checker.assert_properties();
}

const FOLLOW: Design = Design::Hybrid(Moves::Always(Follow));
const SLOW: Design = Design::Hybrid(Moves::Sometimes(Hysteresis::new(2)));
const RECENT: Design = Design::Hybrid(Moves::Recently(History::new(2, 3)));
/// The second request in the wrong mode moves the lock.
const COSTLY: Design = Design::Hybrid(Moves::Worthwhile(MeasuredCost::new(LockCosts {
    suiting: 10,
    other: 40,
    migration: 70,
})));
const PINNED: [Design; 2] = [
    Design::Hybrid(Moves::Never(FixedMode(LockMode::Cpu))),
    Design::Hybrid(Moves::Never(FixedMode(LockMode::Network))),
];

const E: &[LockType] = &[Exclusive];
const EE: &[LockType] = &[Exclusive, Exclusive];
const S: &[LockType] = &[Shared];
const SE: &[LockType] = &[Shared, Exclusive];

#[test]
fn a_manager_serves_in_order() {
    holds("four", Design::Managed, &[SE, EE, SE, S], 1, 0);
    holds("four, one dies", Design::Managed, &[E, SE, S, E], 1, 1);
}

#[test]
fn test_and_set_serves_all() {
    holds("three", Design::TestAndSet, &[SE, SE, EE], 3, 0);
    holds("four, one dies", Design::TestAndSet, &[E, E, S, S], 4, 1);
}

#[test]
fn a_queue_serves_all() {
    for native_swap in [true, false] {
        let design = Design::Queue(native_swap);
        holds("three", design, &[EE, E, SE], 3, 0);
        holds("two share", design, &[E, S, S], 3, 0);
        // The first member that notices a death breaks the queue, and no member waits for ever.
        holds("three, one dies", design, &[E, SE, E], 3, 1);
        holds("sharers, one dies", design, &[E, S, S], 3, 1);
        holds("two die", design, &[E, E, S], 3, 2);
    }
}

#[test]
fn a_lock_migrates_and_serves_all() {
    for design in [FOLLOW, SLOW, RECENT, COSTLY, PINNED[0], PINNED[1]] {
        // The target, a rank on its node, and two ranks on other nodes.
        holds("two and two", design, &[E, SE, E, S], 2, 0);
        holds("there and back", design, &[EE, EE, EE], 2, 0);
        holds("sharers", design, &[S, S, SE], 1, 0);
    }
}

#[test]
fn a_lock_migrates_although_members_die() {
    for design in [FOLLOW, SLOW, RECENT, COSTLY, PINNED[0], PINNED[1]] {
        holds("one dies", design, &[E, SE, SE], 2, 1);
        holds("two die", design, &[E, E, S], 2, 2);
    }
    holds("two of four die", FOLLOW, &[E, E, S, E], 2, 2);
}
