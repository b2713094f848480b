//! `strait run --stall`: looks at the job from the launcher, and says why it does not go on.

use core::time::Duration;
use std::{io, process, thread};

use rustix::process::{Signal, getpid, kill_process};
use strait::observe::{ObservedJob, ObservedRank, job_of};

use crate::output::complain;
use crate::why;
use crate::why::graph::Activity;
use crate::why::view::{JobView, activity};

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches the job of this launcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallWatch {
    /// Time without movement after which it speaks.
    limit: Duration,
    ends: bool,
}

impl StallWatch {
    /// Creates a watch that speaks after `seconds` without movement. `ends`: it also ends a job
    /// that is stuck.
    pub(crate) const fn new(seconds: u64, ends: bool) -> Self {
        Self { limit: Duration::from_secs(seconds), ends }
    }

    /// Starts the watch in a thread, which lasts as long as this process.
    pub(crate) fn start(self) -> io::Result<()> {
        let watch = move || {
            if let Some(job) = job_of(process::id()) {
                self.watch(&job);
            }
        };
        thread::Builder::new().name("strait-stall".to_owned()).spawn(watch).map(drop)
    }

    fn watch(self, job: &ObservedJob) {
        let mut before = job.look();
        let mut still = Duration::ZERO;
        // What was said last is not said again until something has moved.
        let mut has_spoken = false;
        loop {
            thread::sleep(PAUSE);
            let now = job.look();
            if !stands_still(job, &before, &now) {
                (still, has_spoken) = (Duration::ZERO, false);
            } else {
                still += PAUSE;
            }
            if still >= self.limit && !has_spoken {
                has_spoken = true;
                self.speak(&JobView::new(job, &before, &now), still);
            }
            before = now;
        }
    }

    fn speak(self, view: &JobView, still: Duration) {
        complain(format_args!("no rank has moved for {still:?}\n{}", why::text(view)));
        if self.ends && view.is_stuck() {
            complain("--stall-end: the job is stuck, and ends");
            // The launcher forwards the signal to its ranks.
            if kill_process(getpid(), Signal::TERM).is_err() {
                complain("the job could not be ended");
            }
        }
    }
}

/// Returns whether some rank waits, and no rank has moved between two looks.
fn stands_still(job: &ObservedJob, before: &[ObservedRank], now: &[ObservedRank]) -> bool {
    let waits = |rank: &ObservedRank| matches!(activity(rank), Activity::Waits { .. });
    let same = |(before, now): (&ObservedRank, &ObservedRank)| {
        let since = |rank: &ObservedRank| rank.waited.ok().flatten().map(|waited| waited.since_ns);
        activity(before) == activity(now) && since(before) == since(now)
    };
    job.nodes() > 0 && now.iter().any(waits) && before.iter().zip(now).all(same)
}
