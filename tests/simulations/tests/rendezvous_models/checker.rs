//! The model checker over all programs of a scope.

use core::marker::PhantomData;
use std::env;
use std::sync::Arc;

use stateright::{Checker, HasDiscoveries, Model, Property};

use strait_core::matching::Pattern;

use crate::program::{Program, Scope, envelope};
use crate::state::{Action, Broken, Ruled, State};

/// All programs of a scope, under some rules.
pub(crate) struct Programs<R> {
    programs: Vec<Arc<Program>>,
    rules: PhantomData<R>,
}

pub(crate) const ORDER: &str = "a message goes to the receive that MPI's order prescribes";
pub(crate) const DATA: &str =
    "a message is written into the buffer of its receive and nowhere else";
pub(crate) const BOUND: &str = "RTRs are bounded";
pub(crate) const USE: &str = "an RTR that comes before its message is used";
pub(crate) const RESUME: &str = "after a message by rendezvous RTRs are sent again";
pub(crate) const WASTE: &str = "RTRs are stopped where they are wasted, and nowhere else";
pub(crate) const END: &str = "at the end nothing is left";

/// Threads of a check.
const THREADS: usize = 2;

impl<R: Ruled> Programs<R> {
    fn new(scope: &Scope) -> Self {
        Self { programs: scope.programs().into_iter().map(Arc::new).collect(), rules: PhantomData }
    }
}

impl<R: Ruled> Model for Programs<R> {
    type State = State<R>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<R>> {
        self.programs.iter().map(State::new).collect()
    }

    fn actions(&self, state: &State<R>, actions: &mut Vec<Action>) {
        actions.extend(state.actions());
    }

    fn next_state(&self, state: &State<R>, action: Action) -> Option<State<R>> {
        let mut next = state.clone();
        next.act(action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ORDER, |_, it: &State<R>| it.broken != Some(Broken::Order)),
            Property::always(DATA, |_, it: &State<R>| it.broken != Some(Broken::Data)),
            Property::always(BOUND, |_, it: &State<R>| it.broken != Some(Broken::Bound)),
            Property::always(USE, |_, it: &State<R>| it.broken != Some(Broken::Use)),
            Property::always(RESUME, |_, it: &State<R>| it.broken != Some(Broken::Resume)),
            Property::always(WASTE, |_, it: &State<R>| it.broken != Some(Broken::Waste)),
            Property::always(END, |_, it: &State<R>| !it.actions().is_empty() || it.is_clean()),
            Property::sometimes("an RTR is used", |_, it: &State<R>| it.has_used()),
        ];
        if self.programs.iter().any(|program| program.is_judged(R::RECORDS)) {
            let resumed = "stop-RTR is said, and then resume-RTR";
            properties.push(Property::sometimes(resumed, |_, it: &State<R>| it.has_resumed()));
        }
        properties
    }
}

impl<R: Ruled> State<R> {
    /// Returns whether a state without successors is as it must be.
    fn is_clean(&self) -> bool {
        // A broken rule is reported under its own name.
        self.broken.is_some()
            || self.is_at_rest()
                && self.nothing_fits()
                && self.wrote_what_came()
                && self.keeps_nothing_wrong()
    }

    /// Returns whether all programs are over, and all messages that were read are reported as read.
    fn is_at_rest(&self) -> bool {
        let unread = |number: &usize, sender: u32| {
            self.receiving.arrived.iter().any(|(it, _)| (it.sender, it.number) == (sender, *number))
        };
        let mut senders = (0..).zip(&self.senders);
        self.receiving.steps == self.program.steps.len()
            && self.receiving.cancelling.is_none()
            && senders.all(|(rank, it)| it.announced.iter().all(|number| unread(number, rank)))
    }

    /// Returns whether no message waits for a receive that would match it.
    fn nothing_fits(&self) -> bool {
        let fits = |pattern: &Pattern| {
            self.receiving.arrived.iter().any(|(message, _)| pattern.matches(&message.envelope()))
        };
        !self.receiving.waiting.iter().any(|(_, pattern)| fits(pattern))
    }

    fn wrote_what_came(&self) -> bool {
        let mut written = self.receives.iter().filter(|receive| receive.written.is_some());
        written.all(|receive| receive.written == receive.met)
    }

    /// Returns whether all kept RTRs belong to posted receives, and to the messages that these
    /// would match.
    fn keeps_nothing_wrong(&self) -> bool {
        let tags = [0, 1];
        let mut envelopes =
            (0..self.senders.len()).flat_map(|sender| tags.map(|tag| (sender, tag)));
        envelopes.all(|(sender, tag)| {
            let posted = self.receiving.waiting.iter().map(|(receive, _)| *receive);
            let envelope = envelope(sender as u32, tag);
            let mut next = posted.filter(|receive| self.pattern_of(*receive).matches(&envelope));
            let mut usable = self.still_usable(sender, tag).into_iter();
            usable.all(|(turn, receive)| {
                next.next() == Some(receive) && self.receives[receive].asked == Some(turn)
            })
        })
    }

    fn has_used(&self) -> bool {
        self.receives.iter().any(|receive| receive.written.is_some() && receive.met.is_some())
    }
}

/// Returns the number of sends and receives beyond those of the usual run.
fn more() -> usize {
    let more = env::var("STRAIT_MODEL_MORE").ok();
    more.map_or(0, |more| more.parse().expect("STRAIT_MODEL_MORE is a number"))
}

/// Checks every state of every program, and prints the number of states.
pub(crate) fn holds<R: Ruled>(what: &str, scope: Scope) {
    let model = Programs::<R>::new(&scope.and(more()));
    let programs = model.programs.len();
    let checker = model.checker().threads(THREADS).spawn_dfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{what}: {programs} programs, {states} states, {depth} steps deep");
    checker.assert_properties();
}

/// Checks that these rules, of which one is missing, break the property. Prints the number of
/// steps.
pub(crate) fn breaks<R: Ruled>(what: &str, scope: &Scope, property: &'static str) {
    let checker = Programs::<R>::new(scope).checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let found = checker.discovery(property);
    let found = found.unwrap_or_else(|| panic!("{:?}", checker.discoveries().keys()));
    println!(
        "without {what}: {} steps, after {} states",
        found.into_actions().len(),
        checker.unique_state_count()
    );
}
