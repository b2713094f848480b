//! Model of post, start, complete and wait, checked by stateright in every interleaving of every
//! small program. It runs the counters of the library ([`Pair`]) between ranks. Signals and
//! operations from one rank to another travel in order. A model without a rule shows what the rule
//! is for.

use std::collections::VecDeque;

use stateright::{Checker, HasDiscoveries, Model, Property};
use strait_core::rma::{Pair, Signal};

/// The role of one rank towards another in a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Access {
    None,
    /// An epoch without operations.
    Empty,
    /// An epoch with one put.
    Put,
}

const ACCESSES: [Access; 3] = [Access::None, Access::Empty, Access::Put];

const PUTS: [Access; 2] = [Access::None, Access::Put];

/// One round: the accesses by origin and target.
type Round = Vec<Vec<Access>>;

/// The rules of a window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Rules {
    /// The first operation to a target waits for its post.
    waits_for_post: bool,
    /// A completion arrives after the operations before it.
    in_order: bool,
}

const ALL: Rules = Rules { waits_for_post: true, in_order: true };

/// A signal or operation under way from one rank to another.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Sent {
    Post(u64),
    Put { round: usize },
    Completion(u64),
}

/// Position of a rank in its round. Every rank makes the calls in this order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Next {
    Post,
    /// Calls start, and then puts to each target from this place on.
    Put(usize),
    Complete,
    Wait,
}

/// The knowledge of a rank about another: the numbers of the counters, since the counters
/// themselves cannot be compared.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Known {
    posted: u64,
    started: u64,
    /// Signals from the other rank.
    posts: u64,
    completions: u64,
}

impl Known {
    fn pair(&self) -> Pair {
        let mut pair = Pair::default();
        (0..self.posted).for_each(|_| _ = pair.post());
        (0..self.started).for_each(|_| pair.start());
        pair
    }

    fn is_posted(&self) -> bool {
        self.pair().is_posted(&raised(self.posts))
    }

    fn is_completed(&self) -> bool {
        self.pair().is_completed(&raised(self.completions))
    }
}

fn raised(number: u64) -> Signal {
    let signal = Signal::new();
    signal.raise(number);
    signal
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Rank {
    round: usize,
    next: Next,
    /// Indexed by rank.
    known: Vec<Known>,
    /// The round of the open exposure, by origin.
    exposed: Vec<Option<usize>>,
    /// The rounds of the puts that have landed, by origin.
    landed: Vec<Vec<usize>>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct State {
    rounds: Vec<Round>,
    ranks: Vec<Rank>,
    /// Indexed by sender and receiver.
    wires: Vec<Vec<VecDeque<Sent>>>,
    early: bool,
    late: bool,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Action {
    /// A rank makes its next call.
    Call(usize),
    /// A signal or operation lands.
    Land { from: usize, to: usize, place: usize },
}

struct Programs {
    rules: Rules,
    programs: Vec<Vec<Round>>,
}

const EARLY: &str = "an operation reaches a part while that is exposed to its origin, in its epoch";
const LATE: &str = "an exposure ends when its operations are there";
const END: &str = "every program comes to its end";

impl State {
    fn new(rounds: &[Round]) -> Self {
        let count = rounds[0].len();
        let rank = Rank {
            round: 0,
            next: Next::Post,
            known: vec![Known::default(); count],
            exposed: vec![None; count],
            landed: vec![Vec::new(); count],
        };
        let wires = vec![vec![VecDeque::new(); count]; count];
        let (rounds, ranks) = (rounds.to_vec(), vec![rank; count]);
        Self { rounds, ranks, wires, early: false, late: false }
    }

    /// Returns whether a rank's next call can return now.
    fn can_call(&self, rules: Rules, me: usize) -> bool {
        let Rank { round, next, ref known, .. } = self.ranks[me];
        let Some(plan) = self.rounds.get(round) else { return false };
        match next {
            Next::Post | Next::Complete => true,
            Next::Put(target) => {
                let waits = plan[me].get(target) == Some(&Access::Put) && rules.waits_for_post;
                !waits || known[target].is_posted()
            }
            Next::Wait => {
                let origins = (0..plan.len()).filter(|origin| plan[*origin][me] != Access::None);
                let mut known = origins.map(|origin| &known[origin]);
                known.all(Known::is_completed)
            }
        }
    }

    fn call(&mut self, me: usize) {
        let Self { rounds, ranks, wires, late, .. } = self;
        let rank = &mut ranks[me];
        let plan = &rounds[rank.round];
        let count = plan.len();
        let origins = (0..count).filter(|origin| plan[*origin][me] != Access::None);
        let targets = (0..count).filter(|target| plan[me][*target] != Access::None);
        rank.next = match rank.next {
            Next::Post => {
                for origin in origins {
                    let number = rank.known[origin].pair().post();
                    rank.known[origin].posted += 1;
                    rank.exposed[origin] = Some(rank.round);
                    wires[me][origin].push_back(Sent::Post(number));
                }
                targets.for_each(|target| rank.known[target].started += 1);
                Next::Put(0)
            }
            Next::Put(target) if target == count => Next::Complete,
            Next::Put(target) => {
                if plan[me][target] == Access::Put {
                    wires[me][target].push_back(Sent::Put { round: rank.round });
                }
                Next::Put(target + 1)
            }
            Next::Complete => {
                for target in targets {
                    let number = rank.known[target].pair().complete();
                    wires[me][target].push_back(Sent::Completion(number));
                }
                Next::Wait
            }
            Next::Wait => {
                for origin in origins {
                    let puts = plan[origin][me] == Access::Put;
                    *late |= puts && !rank.landed[origin].contains(&rank.round);
                    rank.exposed[origin] = None;
                }
                rank.round += 1;
                Next::Post
            }
        };
    }

    fn land(&mut self, from: usize, to: usize, place: usize) {
        let Some(sent) = self.wires[from][to].remove(place) else { return };
        let rank = &mut self.ranks[to];
        match sent {
            Sent::Post(number) => rank.known[from].posts = number,
            Sent::Completion(number) => rank.known[from].completions = number,
            Sent::Put { round } => {
                self.early |= rank.exposed[from] != Some(round);
                rank.landed[from].push(round);
            }
        }
    }

    fn actions(&self, rules: Rules) -> Vec<Action> {
        let calls = (0..self.ranks.len()).filter(|me| self.can_call(rules, *me)).map(Action::Call);
        let mut actions: Vec<_> = calls.collect();
        for (from, wires) in self.wires.iter().enumerate() {
            for (to, wire) in wires.iter().enumerate() {
                let most = if rules.in_order { 1 } else { wire.len() };
                let places = 0..most.min(wire.len());
                actions.extend(places.map(|place| Action::Land { from, to, place }));
            }
        }
        actions
    }

    fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| rank.round == self.rounds.len())
    }
}

impl Model for Programs {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.programs.iter().map(|rounds| State::new(rounds)).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // A state that breaks a property has no successors.
        if !state.early && !state.late {
            actions.extend(state.actions(self.rules));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Call(me) => next.call(me),
            Action::Land { from, to, place } => next.land(from, to, place),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EARLY, |_, it: &State| !it.early),
            Property::always(LATE, |_, it: &State| !it.late),
            Property::always(END, |it: &Self, state: &State| {
                let is_broken = state.early || state.late;
                is_broken || !state.actions(it.rules).is_empty() || state.is_over()
            }),
            Property::sometimes("an origin runs ahead of its target", |_, it: &State| {
                let rounds = it.ranks.iter().map(|rank| rank.round);
                rounds.clone().max() > rounds.min()
            }),
        ]
    }
}

/// Returns all rounds of `ranks` ranks in which no rank accesses itself.
fn rounds(ranks: usize, accesses: &[Access]) -> Vec<Round> {
    let pairs: Vec<_> = (0..ranks * ranks).filter(|at| at / ranks != at % ranks).collect();
    let mut all = vec![vec![vec![Access::None; ranks]; ranks]];
    for pair in pairs {
        let with = |round: Round| {
            accesses.iter().map(move |access| {
                let mut round = round.clone();
                round[pair / ranks][pair % ranks] = *access;
                round
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

/// Returns all programs of `count` rounds of two ranks.
fn of_two(count: u32, accesses: &[Access]) -> Vec<Vec<Round>> {
    let rounds = rounds(2, accesses);
    let of_number = |number: usize| {
        (0..count).map(|at| rounds[number / rounds.len().pow(at) % rounds.len()].clone()).collect()
    };
    (0..rounds.len().pow(count)).map(of_number).collect()
}

/// Returns all rounds of three ranks with up to three operations, and those with up to two
/// operations twice.
fn of_three() -> Vec<Vec<Round>> {
    let all = rounds(3, &PUTS);
    let up_to = |most| {
        let puts = |round: &Round| round.iter().flatten().filter(|it| **it == Access::Put).count();
        all.iter().filter(move |round| puts(round) <= most)
    };
    let twice = up_to(2).map(|round| vec![round.clone(), round.clone()]);
    up_to(3).map(|round| vec![round.clone()]).chain(twice).collect()
}

fn check(rules: Rules, programs: Vec<Vec<Round>>) -> impl Checker<Programs> {
    let model = Programs { rules, programs };
    model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

#[test]
fn two_ranks() {
    check(ALL, of_two(2, &ACCESSES)).assert_properties();
    check(ALL, of_two(3, &PUTS)).assert_properties();
}

#[test]
fn three_ranks() {
    check(ALL, of_three()).assert_properties();
}

#[test]
fn an_operation_that_does_not_wait_for_the_post_is_early() {
    let checker = check(Rules { waits_for_post: false, ..ALL }, of_two(2, &PUTS));
    assert!(checker.discovery(EARLY).is_some());
}

#[test]
fn a_completion_that_passes_operations_is_believed_too_soon() {
    let checker = check(Rules { in_order: false, ..ALL }, of_two(2, &PUTS));
    assert!(checker.discovery(LATE).is_some());
}
