//! Ranks that take turns by the clocks of their processors.

use super::fabric::{Fabric, State, lock};
use super::request::Request;
use super::wire::Wire;

/// The result of a rank's turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// The rank did something.
    Moved,
    /// The rank did nothing: its next turn comes after an event on the fabric.
    Waits,
    /// The rank has finished its work.
    Finished,
}

impl Fabric {
    /// Gives all ranks turns until they have finished. The next turn goes to the rank with the
    /// earliest processor clock, after all earlier events on the fabric. Returns the elapsed
    /// nanoseconds of virtual time.
    ///
    /// # Panics
    ///
    /// When all ranks wait and nothing is under way.
    pub fn play(&self, mut turn: impl FnMut(u32) -> Step) -> u64 {
        let ranks = lock(&self.0).ranks.len() as u32;
        let start = lock(&self.0).gather_clocks();
        let mut steps = vec![Step::Moved; ranks as usize];
        while steps.iter().any(|step| *step != Step::Finished) {
            let clock = |rank: u32| lock(&self.0).rank(rank).clock;
            let ready = (0..ranks)
                .filter(|rank| steps[*rank as usize] == Step::Moved)
                .min_by_key(|rank| clock(*rank));
            let next = lock(&self.0).next();
            match (ready, next) {
                (Some(rank), next) if next.is_none_or(|due| due > clock(rank)) => {
                    steps[rank as usize] = turn(rank);
                }
                (_, Some(due)) => {
                    let _ = self.advance();
                    for (rank, step) in (0..).zip(&mut steps) {
                        if *step == Step::Waits {
                            let mut state = lock(&self.0);
                            let clock = &mut state.rank_mut(rank).clock;
                            *clock = (*clock).max(due);
                            *step = Step::Moved;
                        }
                    }
                }
                (_, None) => panic!("all ranks wait, and nothing is under way"),
            }
        }
        lock(&self.0).gather_clocks() - start
    }
}

impl State {
    /// Sets all clocks to the latest one, and returns it.
    fn gather_clocks(&mut self) -> u64 {
        let latest = self.ranks.iter().map(|rank| rank.clock).max().unwrap_or(0).max(self.now);
        self.ranks.iter_mut().for_each(|rank| rank.clock = latest);
        latest
    }

    /// Advances the processor clock of `rank`.
    pub(super) fn spend(&mut self, rank: u32, on: impl FnOnce(&Wire) -> u64) {
        if let Some(wire) = self.model.wire {
            self.rank_mut(rank).clock += on(&wire);
        }
    }

    /// Posts a request of `rank` and returns its time of arrival at the peer. All bytes of a write
    /// have then passed the link.
    pub(super) fn leave(&mut self, rank: u32, request: &Request) -> u64 {
        let Some(wire) = self.model.wire else { return 0 };
        self.spend(rank, |wire| wire.post);
        let posted = self.rank(rank).clock;
        if request.is_write() {
            self.pass(rank, posted, request.length(), &wire) + wire.write
        } else {
            posted + wire.read / 2
        }
    }

    /// Returns the arrival time of the result of a read or atomic that starts at `peer` now.
    pub(super) fn come_back(&mut self, peer: u32, request: &Request) -> u64 {
        let Some(wire) = self.model.wire else { return self.now };
        self.pass(peer, self.now, request.length(), &wire) + wire.read - wire.read / 2
    }

    /// Lets `length` bytes pass the outgoing link of `rank`, from `now` or from the time when it is
    /// free. Returns the time at which they have passed.
    fn pass(&mut self, rank: u32, now: u64, length: usize, wire: &Wire) -> u64 {
        let rank = self.rank_mut(rank);
        let begin = now.max(rank.link_free);
        rank.link_free = begin + wire.on_link(length).max(wire.gap);
        begin + wire.on_link(length)
    }
}
