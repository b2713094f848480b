//! Which rungs run at the same time.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use super::outcome::Climbed;
use super::rungs::{Lane, Rung};

/// Runs `climb` for all rungs: those of a lane one after the other, and the lanes side by side.
/// `fetch` runs beside them. Rungs that need it wait for its end. Returns the results in the order
/// of `rungs`.
pub(super) fn run(
    rungs: &[Rung],
    climb: &(dyn Fn(&Rung) -> Climbed + Sync),
    fetch: &(dyn Fn() + Sync),
) -> Vec<Climbed> {
    let fetched = Event::default();
    let lane = |lane: Lane| {
        let own = rungs.iter().enumerate().filter(|(_, rung)| rung.lane == lane);
        let climbed = own.map(|(at, rung)| {
            if rung.downloads {
                fetched.wait();
            }
            (at, climb(rung))
        });
        climbed.collect::<Vec<_>>()
    };
    let mut climbed = thread::scope(|scope| {
        if rungs.iter().any(|rung| rung.downloads) {
            scope.spawn(|| {
                // The rungs that wait go on after a panic, too.
                let _end = fetched.at_the_end();
                fetch();
            });
        }
        let lanes = [Lane::Jobs, Lane::Computation].map(|name| scope.spawn(move || lane(name)));
        let joined = lanes.map(|lane| lane.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.into_iter().flatten().collect::<Vec<_>>()
    });
    climbed.sort_by_key(|(at, _)| *at);
    climbed.into_iter().map(|(_, climbed)| climbed).collect()
}

/// Something that happens once.
#[derive(Default)]
struct Event {
    has_happened: Mutex<bool>,
    news: Condvar,
}

impl Event {
    fn wait(&self) {
        let happened = self.has_happened.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.news.wait_while(happened, |happened| !*happened));
    }

    /// Returns a guard that makes it happen when it is dropped.
    fn at_the_end(&self) -> impl Drop + '_ {
        struct End<'a>(&'a Event);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                *self.0.has_happened.lock().unwrap_or_else(PoisonError::into_inner) = true;
                self.0.news.notify_all();
            }
        }
        End(self)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;
    use crate::ladder::rungs::RUNGS;

    #[test]
    fn a_lane_runs_one_rung_at_a_time_and_results_keep_their_order() {
        let running = AtomicU32::new(0);
        let climbed = run(
            &RUNGS,
            &|rung| {
                let unit = if rung.lane == Lane::Jobs { 1 } else { 1 << 16 };
                let before = running.fetch_add(unit, Ordering::SeqCst);
                assert_eq!(before / unit % (1 << 16), 0, "{}", rung.name);
                thread::yield_now();
                running.fetch_sub(unit, Ordering::SeqCst);
                Climbed::new(rung.name)
            },
            &|| {},
        );
        let names: Vec<&str> = climbed.iter().map(|climbed| climbed.name).collect();
        assert_eq!(names, RUNGS.map(|rung| rung.name));
    }

    #[test]
    fn what_is_downloaded_is_there_before_it_is_needed() {
        let fetched = AtomicBool::new(false);
        run(
            &RUNGS,
            &|rung| {
                assert!(!rung.downloads || fetched.load(Ordering::SeqCst), "{}", rung.name);
                Climbed::new(rung.name)
            },
            &|| fetched.store(true, Ordering::SeqCst),
        );
    }
}
