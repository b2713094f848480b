//! The choice of the transfer for large messages to a peer.
//!
//! The fastest transfer depends on where the two processors are, which changes under a hypervisor.
//! The time that a cache line takes from one to the other shows where they are: some 30 ns if they
//! share a cache, some 160 ns if not. So the sender times a line now and then and begins with the
//! transfer for that place. Each class of lengths also keeps the measured cost of each candidate.
//! It tries the others seldom, and takes the cheapest one.
//!
//! Time is an argument and affects only speed: every transfer delivers every message.

use super::Transfer;
use super::rate::{DOUBTED, DOUBTFUL, ENOUGH, FIRST_TRIAL, Rate, SPACING_LEAST, SPACING_MOST};
use super::run::{Chosen, TransferRun};

/// The transfers that [`Transfer::Auto`] chooses from.
pub const CANDIDATES: [Transfer; 3] =
    [Transfer::CopyRing, Transfer::CopyRingStreamed, Transfer::CmaShared];

/// The candidate that is fastest if the cores share a cache, and the one that is otherwise. The
/// latter loses less where it is wrong, so it is also the first one.
const NEAR: usize = 0;
const FAR: usize = 1;

/// Longest time, in nanoseconds, that a line takes between cores that share a cache. The time
/// contains that of reading the clock.
const NEAR_MOST: u32 = 120;

/// The times beyond which cores have moved that were near, or were not. Between the cores of one
/// Xeon a line takes about [`NEAR_MOST`]; without a distance they would seem to move all the time.
const LEFT_NEAR: u32 = 160;
const LEFT_FAR: u32 = 90;

/// The candidate that uses no ring.
const ONE_COPY: usize = 2;

/// Number of the last lines of which the median decides. One disturbed line says nothing.
const TIMED: usize = 3;

/// Longest message of each class but the last, in bytes. For messages of one class, the same
/// transfer tends to be fastest.
pub const CLASSES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Number of runs before the first trial of the ring of the other place, which costs several times
/// as much as that of this place.
const FIRST_TRIAL_ELSEWHERE: u32 = 100;

/// Number of runs between two trials of that ring, if it costs as much as the best. A change of
/// place shows in the times of lines, and a wrong place raises a doubt.
const SPACING_ELSEWHERE: u32 = SPACING_MOST;

/// Cost, in nanoseconds per mebibyte, below which a ring is not compared with one copy. The kernel
/// has not been seen to copy for less than 50,000, by both sides at once.
const BEYOND_ONE_COPY: u32 = 40_000;

/// The order in which a doubt tries the candidates. One copy comes first: it suffers least from
/// both causes.
const DOUBT_ORDER: [usize; CANDIDATES.len()] = [ONE_COPY, NEAR, FAR];

/// Number of the first bytes through a ring that are not measured. They meet pages of the ring that
/// the receiver has not mapped yet, and a ring has as many at most.
const FIRST_PASS: u64 = 1 << 20;

/// Returns the number of the class of messages of `length` bytes.
pub(super) fn class_of(length: usize) -> usize {
    CLASSES.iter().take_while(|longest| length > **longest).count()
}

/// What one sender knows about the transfers to one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransferChoice {
    classes: [SizeClass; CLASSES.len() + 1],
    line: LineTimes,
    /// Number of runs so far. It numbers the runs.
    runs: u32,
    /// Completion time of the last message to the peer.
    last_end: u64,
    /// Number of bytes that went through the ring, up to [`FIRST_PASS`].
    first_pass: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct SizeClass {
    rates: [Rate; CANDIDATES.len()],
    run: TransferRun,
    /// Cost of the best candidate when the spacing of the trials was last reset.
    settled: u32,
}

/// The times of the last lines from the peer's core, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct LineTimes {
    last: [u32; TIMED],
    count: u8,
    is_near: bool,
    /// Whether one copy is the candidate of this place if it is not near.
    kernel_first: bool,
}

impl LineTimes {
    /// Returns whether enough lines were timed to know the place of the cores.
    const fn is_known(&self) -> bool {
        self.count as usize == TIMED
    }

    /// Counts a line. Returns true if the cores have moved.
    fn count(&mut self, nanoseconds: u32) -> bool {
        let was_near = self.is_known().then_some(self.is_near);
        self.last.rotate_right(1);
        self.last[0] = nanoseconds;
        self.count = (self.count + 1).min(TIMED as u8);
        if self.is_known() {
            let most = match was_near {
                None => NEAR_MOST,
                Some(true) => LEFT_NEAR,
                Some(false) => LEFT_FAR,
            };
            let near = self.last.iter().filter(|line| **line <= most).count();
            self.is_near = near > TIMED / 2;
        }
        was_near.is_some_and(|was_near| self.is_near != was_near)
    }

    /// Returns the candidate for this place.
    const fn candidate(&self) -> usize {
        let is_kernels = self.kernel_first && self.is_known() && !self.is_near;
        if is_kernels { ONE_COPY } else { self.ring() }
    }

    /// Returns the ring for this place.
    const fn ring(&self) -> usize {
        if self.is_near { NEAR } else { FAR }
    }
}

/// The transfer without a ring of a message of which nothing is measured.
pub(crate) const WITHOUT_RING: Transfer = CANDIDATES[ONE_COPY];

/// The transfer of a message to a peer of which nothing is known.
pub(crate) const UNMEASURED: Transfer = CANDIDATES[FAR];

impl TransferChoice {
    /// Chooses a transfer for a message of `length` bytes that is about to be announced. The caller
    /// passes the result to [`TransferChoice::ended`].
    pub(crate) fn choose(&mut self, length: usize) -> (Transfer, Chosen) {
        let place = self.line.candidate();
        let (number, class) = self.class(length, |class| class.next(place));
        let best = class.best(place);
        let (candidate, run) = class.run.join(best, length);
        (CANDIDATES[candidate], Chosen { class: number, run })
    }

    /// Chooses the transfer without a ring for such a message. Its cost is known when there is a
    /// ring.
    pub(crate) fn choose_one_copy(&mut self, length: usize) -> (Transfer, Chosen) {
        let (number, class) = self.class(length, |_| ONE_COPY);
        let (candidate, run) = class.run.join(ONE_COPY, length);
        (CANDIDATES[candidate], Chosen { class: number, run })
    }

    /// Returns the class of messages of `length` bytes, with its number. `next` returns the
    /// candidate of a new run, if none is under way.
    fn class(
        &mut self,
        length: usize,
        next: impl FnOnce(&mut SizeClass) -> usize,
    ) -> (usize, &mut SizeClass) {
        let number = class_of(length);
        let class = &mut self.classes[number];
        if class.run.is_none() {
            let candidate = next(class);
            class.run = TransferRun::begin(&mut self.runs, candidate);
        }
        (number, class)
    }

    /// Returns the faster copy-ring transfer for messages of `length` bytes, for data that cannot
    /// take another transfer.
    pub(crate) fn ring(&self, length: usize) -> Transfer {
        let [cached, streamed, ..] = &self.classes[class_of(length)].rates;
        let place = self.line.ring();
        let candidate = match cached.is_known() && streamed.is_known() {
            true if streamed.cost() < cached.cost() => FAR,
            true => NEAR,
            false => place,
        };
        CANDIDATES[candidate]
    }

    /// Returns whether the lines that were timed tell where the peer's core is.
    pub(crate) const fn is_place_known(&self) -> bool {
        self.line.is_known()
    }

    /// Notes the time that a line took from the peer's core to this one. `kernel_first`: one copy
    /// is the candidate between cores that share no cache.
    pub(crate) fn line_timed(&mut self, nanoseconds: u32, kernel_first: bool) {
        self.line.kernel_first = kernel_first;
        if self.line.count(nanoseconds) {
            // Nothing that was measured before says anything about this place.
            self.classes = Default::default();
        }
    }

    /// Records the end of a message: all `bytes` of it arrived, or zero bytes if it failed. Its
    /// receive was posted at `met`. Times are in nanoseconds from an arbitrary common origin.
    pub(crate) fn ended(&mut self, chosen: Chosen, bytes: usize, met: u64, now: u64) {
        // Messages to one peer arrive one after the other.
        let began = met.max(self.last_end);
        self.last_end = now;
        let class = &mut self.classes[chosen.class];
        let Some(run) = class.run.ended(chosen, bytes, began, now) else { return };
        let is_first_pass = CANDIDATES[run.candidate()].is_ring() && self.first_pass < FIRST_PASS;
        if is_first_pass {
            self.first_pass += run.bytes();
        } else if let Some(cost) = run.cost() {
            class.learn(run.candidate(), cost, self.line.candidate());
        }
    }
}

impl SizeClass {
    /// Returns the candidate of the next run. `place` is that of the place of the cores.
    fn next(&mut self, place: usize) -> usize {
        let best = self.best(place);
        let is_fast = self.rates[best].is_known() && self.rates[best].cost() < BEYOND_ONE_COPY;
        let mut next = best;
        for (number, rate) in self.rates.iter_mut().enumerate() {
            if number == best || (number == ONE_COPY && is_fast) {
                continue;
            }
            if rate.known == 0 && rate.spacing == 0 {
                let elsewhere = CANDIDATES[number].is_ring();
                rate.spacing = if elsewhere { SPACING_ELSEWHERE } else { SPACING_LEAST };
                rate.wait = if elsewhere { FIRST_TRIAL_ELSEWHERE } else { FIRST_TRIAL };
            }
            match rate.wait.checked_sub(1) {
                Some(wait) => rate.wait = wait,
                None => {
                    // A trial that cannot be measured does not follow at once on the last one.
                    rate.wait = SPACING_LEAST;
                    next = number;
                }
            }
        }
        next
    }

    /// Returns the cheapest of the candidates that are known well, or that of the place.
    fn best(&self, place: usize) -> usize {
        let known = self.rates.iter().enumerate().filter(|(_, rate)| rate.is_known());
        let cheapest = known.min_by_key(|(_, rate)| rate.cost());
        let is_better = |rate: &Rate| {
            let of_place = &self.rates[place];
            of_place.is_known() || (of_place.is_doubtful() && rate.cost() < of_place.least() / 2)
        };
        cheapest.filter(|(_, rate)| is_better(rate)).map_or(place, |(number, _)| number)
    }

    fn learn(&mut self, candidate: usize, cost: u32, place: usize) {
        self.rates[candidate].learn(cost);
        let best = self.best(place);
        if self.rates[best].known == 0 {
            // There was no ring yet.
            self.rates[candidate].wait = SPACING_LEAST;
            return;
        }
        let least = self.rates[best].cost().max(1);
        if candidate == best && least.abs_diff(self.settled) > self.settled / 2 {
            // The processors are busier or less so, and one copy may be cheaper now. What the
            // rings cost elsewhere is as it was.
            self.settled = least;
            self.rates[ONE_COPY].hasten();
        }
        let of_place = &self.rates[place];
        let is_doubted = candidate == place
            && match of_place.known {
                DOUBTED => of_place.is_doubtful(),
                ENOUGH => least > DOUBTFUL,
                _ => false,
            };
        if is_doubted {
            self.doubt(place);
        }
        let rate = &mut self.rates[candidate];
        // A candidate that may be the best is retried at once. Otherwise, a higher cost means a
        // later trial.
        rate.wait = if cost < least { 0 } else { rate.pause(least) };
    }

    /// Makes the trials of all candidates happen now that were not measured often enough, except
    /// that of the place.
    fn doubt(&mut self, place: usize) {
        // One after the other, each as often as it takes.
        let mut wait = 0;
        for number in DOUBT_ORDER {
            let rate = &mut self.rates[number];
            if number != place && !rate.is_known() {
                (rate.wait, rate.spacing) = (wait, SPACING_LEAST);
                wait += u32::from(ENOUGH);
            }
        }
    }
}

#[cfg(test)]
mod tests;
