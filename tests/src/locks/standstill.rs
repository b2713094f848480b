//! A search for standstills: states from which the members cannot all finish, whatever happens
//! next.
//!
//! A checker that looks for states without a next step misses members that send each other back
//! and forth for ever. This search finds both.

use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::hash::DefaultHasher;

use super::{Action, Play};

/// The states that can be reached, by number in the order of their discovery.
#[derive(Default)]
struct Graph {
    /// Number of each state, by its hash.
    numbers: HashMap<u64, usize>,
    /// State and action that first led to each state; `None` at the beginning.
    reached_by: Vec<Option<(usize, Action)>>,
    /// States that lead to each state without a death.
    before: Vec<Vec<usize>>,
    /// States in which every member has finished.
    ends: Vec<usize>,
}

impl Graph {
    fn explore(begin: &Play) -> Self {
        let mut graph = Self::default();
        graph.number(begin, None);
        let mut unexplored = vec![(0, begin.clone())];
        while let Some((number, play)) = unexplored.pop() {
            if play.is_over() || play.broken.is_some() {
                graph.ends.push(number);
            }
            for action in play.actions() {
                let mut next = play.clone();
                next.act(action);
                let (next_number, is_new) = graph.number(&next, Some((number, action)));
                if !matches!(action, Action::Kill(_)) {
                    graph.before[next_number].push(number);
                }
                if is_new {
                    unexplored.push((next_number, next));
                }
            }
        }
        graph
    }

    /// Returns the number of a state, and whether the state is new.
    fn number(&mut self, play: &Play, reached_by: Option<(usize, Action)>) -> (usize, bool) {
        let mut hasher = DefaultHasher::new();
        play.hash(&mut hasher);
        let new = self.reached_by.len();
        let number = *self.numbers.entry(hasher.finish()).or_insert(new);
        if number == new {
            self.reached_by.push(reached_by);
            self.before.push(Vec::new());
        }
        (number, number == new)
    }

    /// Returns the first state that leads to no end.
    fn first_without_end(&self) -> Option<usize> {
        let mut leads_to_end = vec![false; self.before.len()];
        let mut unvisited = self.ends.clone();
        while let Some(number) = unvisited.pop() {
            if !core::mem::replace(&mut leads_to_end[number], true) {
                unvisited.extend(&self.before[number]);
            }
        }
        leads_to_end.iter().position(|leads| !leads)
    }

    /// Returns the actions that lead to a state.
    fn path_to(&self, number: usize) -> Vec<Action> {
        let mut path = Vec::new();
        let mut at = self.reached_by[number];
        while let Some((before, action)) = at {
            path.push(action);
            at = self.reached_by[before];
        }
        path.reverse();
        path
    }
}

impl Play {
    /// Explores every state. Returns the actions that lead to a standstill, if there is one.
    ///
    /// A further death does not count as a way out of a standstill.
    #[must_use]
    pub fn standstill(&self) -> Option<Vec<Action>> {
        let graph = Graph::explore(self);
        graph.first_without_end().map(|number| graph.path_to(number))
    }
}
