//! Shared parts of the models: the memory they work on, and the two ways to run a scenario.
//!
//! With `--cfg strait_loom`, [`model`] explores every interleaving of a scenario and every value
//! that a load may return, up to a bound. Otherwise it repeats the scenario on threads of `std`:
//! natively, under Miri, or under the thread sanitizer.
//!
//! A scenario never waits. Its threads poll a bounded number of times and are joined. Whatever has
//! not arrived after the join is lost. A lost message is therefore a failed assertion and not an
//! endless execution.

mod lines;
mod pool;
mod two_modes;

pub use lines::{contents, key, read, writer};
pub use pool::{Owner, Pool};
pub use two_modes::{Guarded, TwoModes, had};

#[cfg(strait_loom)]
pub use loom::{sync::Arc, thread};
#[cfg(not(strait_loom))]
pub use std::{sync::Arc, thread};

/// Explores `scenario` with two preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
#[cfg(strait_loom)]
#[track_caller]
pub fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    explore(builder, scenario);
}

/// Explores every interleaving of `scenario`, with any number of preemptions. Suits two threads
/// that do little.
#[cfg(strait_loom)]
#[track_caller]
pub fn model_in_full(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    explore(builder, scenario);
}

/// Explores `scenario` with at most this many preemptions, whatever `LOOM_MAX_PREEMPTIONS` says.
/// Suits two threads that do much.
#[cfg(strait_loom)]
#[track_caller]
pub fn model_within(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    explore(builder, scenario);
}

/// Runs the model and prints how much it explored: a model that explores little proves little.
#[cfg(strait_loom)]
#[track_caller]
fn explore(mut builder: loom::model::Builder, scenario: impl Fn() + Send + Sync + 'static) {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    let place = core::panic::Location::caller();
    let executions = std::sync::Arc::new(AtomicU64::new(0));
    let counter = std::sync::Arc::clone(&executions);
    let begun = std::time::Instant::now();
    builder.max_branches = 10_000;
    builder.check(move || {
        counter.fetch_add(1, Relaxed);
        scenario();
    });
    let bound = builder.preemption_bound.map_or("any number of".into(), |bound| bound.to_string());
    let (executions, took) = (executions.load(Relaxed), begun.elapsed());
    println!("{place}: {executions} executions, {bound} preemptions, {took:?}");
}

/// Runs `scenario` many times on real threads; a few times under Miri, which is slow.
#[cfg(not(strait_loom))]
pub fn model(scenario: impl Fn() + Send + Sync + 'static) {
    for _ in 0..if cfg!(miri) { 3 } else { 500 } {
        scenario();
    }
}

#[cfg(not(strait_loom))]
pub use model as model_in_full;

/// Runs [`model`], which has no preemption bound on real threads.
#[cfg(not(strait_loom))]
pub fn model_within(_preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    model(scenario);
}
