//! The choice between RDMA read and RDMA write for announced messages from a peer on another node.
//!
//! The receiver of an announced message may read it, or have its sender write it. A read needs one
//! trip there and back and no processor of the sender. A write needs the sender inside the library,
//! but many devices write faster than they read (`[RdmaChannel04]` §6). So the receiver begins with
//! reads, measures what a mebibyte costs by either way for each class of lengths, tries the dearer
//! way seldom, and takes the cheaper one.
//!
//! Time is an argument and affects only speed: both ways deliver every message.

use super::choice::{CLASSES, class_of};
use super::rate::{FIRST_TRIAL, Rate, SPACING_LEAST};
use super::run::{Chosen, TransferRun};
use crate::buffer::Direction;

/// The way of an announced message between nodes: one that uses no RTR.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RemoteTransfer {
    /// The cheaper way lately, for each peer and class of lengths.
    #[default]
    Auto,
    /// The receiver reads by RDMA.
    Read,
    /// The sender writes by RDMA.
    Write,
}

impl RemoteTransfer {
    /// All ways, the default first.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Read, Self::Write];

    /// Returns the name in tables and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The candidates. The first one is taken until both were measured.
const WAYS: [Direction; 2] = [Direction::Read, Direction::Write];
const READ: usize = 0;
const WRITE: usize = 1;

/// What one receiver knows about the two ways from one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteChoice {
    classes: [SizeClass; CLASSES.len() + 1],
    /// Number of runs so far. It numbers the runs.
    runs: u32,
    /// Completion time of the last message from the peer.
    last_end: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct SizeClass {
    rates: [Rate; WAYS.len()],
    run: TransferRun,
    /// Cost of the cheaper way when the spacing of the trials was last reset.
    settled: u32,
}

impl RemoteChoice {
    /// Chooses the way of a message of `length` bytes that has met its receive. The caller passes
    /// the result to [`RemoteChoice::ended`].
    pub(crate) fn choose(&mut self, length: usize) -> (Direction, Chosen) {
        let number = class_of(length);
        let class = &mut self.classes[number];
        if class.run.is_none() {
            let way = class.next();
            class.run = TransferRun::begin(&mut self.runs, way);
        }
        // A message that went the other way beside a trial would take a part of the device from it.
        // So a trial takes all messages that are in flight together.
        let way = class.run.candidate();
        let (way, run) = class.run.join(way, length);
        (WAYS[way], Chosen { class: number, run })
    }

    /// Records the end of a message: all `bytes` of it arrived, or zero bytes if it did not go by
    /// the chosen way. Its transfer began at `began`. Times are in nanoseconds from an arbitrary
    /// common origin.
    pub(crate) fn ended(&mut self, chosen: Chosen, bytes: usize, began: u64, now: u64) {
        let class = &mut self.classes[chosen.class];
        // Messages from one peer arrive one after the other.
        let ended = class.run.ended(chosen, bytes, began.max(self.last_end), now);
        if bytes > 0 {
            self.last_end = now;
        }
        if let Some(run) = ended
            && let Some(cost) = run.cost()
        {
            class.learn(run.candidate(), cost);
        }
    }
}

impl SizeClass {
    /// Returns the way of the next run.
    fn next(&mut self) -> usize {
        let best = self.best();
        let other = WAYS.len() - 1 - best;
        let rate = &mut self.rates[other];
        if rate.known == 0 && rate.spacing == 0 {
            (rate.spacing, rate.wait) = (SPACING_LEAST, FIRST_TRIAL);
        }
        match rate.wait.checked_sub(1) {
            Some(wait) => {
                rate.wait = wait;
                best
            }
            None => {
                // A trial that cannot be measured does not follow at once on the last one.
                rate.wait = SPACING_LEAST;
                other
            }
        }
    }

    /// Returns the cheaper way, or the first one until both were measured often enough.
    ///
    /// The median counts, and not a lower measurement as on a node. A sender that computes most of
    /// the time makes most writes dear, and the few cheap ones do not make up for that.
    fn best(&self) -> usize {
        let [read, write] = &self.rates;
        let are_known = read.is_known() && write.is_known();
        if are_known && write.median() < read.median() { WRITE } else { READ }
    }

    fn learn(&mut self, way: usize, cost: u32) {
        self.rates[way].learn(cost);
        let best = self.best();
        let least = self.rates[best].median().max(1);
        if way == best && least.abs_diff(self.settled) > self.settled / 2 {
            // Costs have changed, so the dearer way may be the cheaper one now.
            if self.settled > 0 {
                self.rates.iter_mut().for_each(Rate::hasten);
            }
            self.settled = least;
        }
        let rate = &mut self.rates[way];
        // A way that may be the cheaper one is tried again at once. Otherwise, a higher cost means
        // a later trial.
        rate.wait = if cost < least { 0 } else { rate.pause(least) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 1 << 20;

    /// Receives messages one at a time, by ways of these costs in nanoseconds. Returns how many
    /// came by each way.
    fn receive(
        choice: &mut RemoteChoice,
        now: &mut u64,
        messages: u32,
        costs: impl Fn(u32) -> [u64; 2],
    ) -> [u32; 2] {
        let mut counts = [0; 2];
        for message in 0..messages {
            let (direction, chosen) = choice.choose(LENGTH);
            let way = WAYS.iter().position(|way| *way == direction).unwrap();
            counts[way] += 1;
            let began = *now + 10;
            *now = began + costs(message)[way];
            choice.ended(chosen, LENGTH, began, *now);
        }
        counts
    }

    #[test]
    fn each_way_has_a_name_of_its_own() {
        assert_eq!(RemoteTransfer::ALL.map(RemoteTransfer::name), ["auto", "read", "write"]);
        assert_eq!(RemoteTransfer::default(), RemoteTransfer::ALL[0]);
    }

    #[test]
    fn the_first_messages_are_read() {
        let (mut choice, mut now) = (RemoteChoice::default(), 0);
        let counts = receive(&mut choice, &mut now, FIRST_TRIAL, |_| [9, 1]);
        assert_eq!(counts, [FIRST_TRIAL, 0]);
        assert_eq!(receive(&mut choice, &mut now, 1, |_| [9, 1]), [0, 1], "then a write is tried");
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn the_cheaper_way_is_taken_and_the_other_is_tried_seldom() {
        for (costs, cheaper) in [([50_000, 90_000], READ), ([90_000, 50_000], WRITE)] {
            let (mut choice, mut now) = (RemoteChoice::default(), 0);
            receive(&mut choice, &mut now, 20, |_| costs);
            let counts = receive(&mut choice, &mut now, 1000, |_| costs);
            assert!(counts[cheaper] > 970 && counts[1 - cheaper] >= 2, "{counts:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn a_way_that_gets_dear_is_left_after_a_few_messages_and_found_again() {
        let (mut choice, mut now) = (RemoteChoice::default(), 0);
        receive(&mut choice, &mut now, 100, |_| [90_000, 50_000]);
        let dear = receive(&mut choice, &mut now, 100, |_| [90_000, 400_000]);
        assert!(dear[WRITE] < 10, "{dear:?}");
        receive(&mut choice, &mut now, 1000, |_| [90_000, 50_000]);
        let cheap = receive(&mut choice, &mut now, 100, |_| [90_000, 50_000]);
        assert!(cheap[WRITE] > 95, "{cheap:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic on thousands of messages, no memory")]
    fn a_sender_that_is_seldom_inside_the_library_is_read_from() {
        let (mut choice, mut now) = (RemoteChoice::default(), 0);
        // The sender answers two requests of five at once.
        let costs = |message| [90_000, if message % 5 < 2 { 50_000 } else { 5_000_000 }];
        receive(&mut choice, &mut now, 200, costs);
        let counts = receive(&mut choice, &mut now, 1000, costs);
        assert!(counts[WRITE] < 20, "{counts:?}");
    }

    #[test]
    fn each_class_of_lengths_has_its_own_choice() {
        let (mut choice, mut now) = (RemoteChoice::default(), 0);
        receive(&mut choice, &mut now, 100, |_| [90_000, 50_000]);
        assert_eq!(choice.choose(LENGTH).0, Direction::Write);
        assert_eq!(choice.choose(CLASSES[1]).0, Direction::Read);
    }

    #[test]
    fn messages_that_are_under_way_together_take_one_way_and_are_measured_as_one() {
        let mut choice = RemoteChoice::default();
        let chosen: [_; 4] = core::array::from_fn(|_| choice.choose(LENGTH));
        assert!(chosen.iter().all(|(way, _)| *way == Direction::Read));
        for (number, (_, chosen)) in (1..).zip(chosen) {
            choice.ended(chosen, LENGTH, 1000, 1000 + 100 * number);
        }
        assert_eq!(choice.classes[3].rates[READ].median(), 100);
    }

    #[test]
    fn a_message_that_came_another_way_is_not_measured() {
        let mut choice = RemoteChoice::default();
        let (_, chosen) = choice.choose(LENGTH);
        choice.ended(chosen, 0, 0, 1000);
        assert!(choice.classes[3].rates.iter().all(|rate| rate.known == 0));
        assert!(choice.classes[3].run.is_none(), "the run is over");
    }

    #[test]
    fn a_trial_takes_a_whole_window_and_ends_although_more_messages_come() {
        let (mut choice, mut now) = (RemoteChoice::default(), 0);
        receive(&mut choice, &mut now, FIRST_TRIAL, |_| [50_000, 90_000]);
        let chosen: [_; 8] = core::array::from_fn(|_| choice.choose(LENGTH));
        assert!(chosen.iter().all(|(way, _)| *way == Direction::Write));
        // The run is over with the first message that ends after enough of it has come.
        for (number, (_, chosen)) in (1..).zip(&chosen[..5]) {
            choice.ended(*chosen, LENGTH, now, now + 90_000 * number);
        }
        assert_eq!(choice.choose(LENGTH).0, Direction::Read);
    }
}
