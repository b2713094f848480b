//! Ranks that take turns by the clocks of their processors.

use super::fabric::{SimFabric, State, lock};
use super::request::SimRequest;
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

impl SimFabric {
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

    /// Copies `length` bytes with the processor of `rank`, when its memory bus is free.
    pub(super) fn copy(&mut self, rank: u32, length: usize) {
        let Some(wire) = self.model.wire else { return };
        let rank = self.rank_mut(rank);
        rank.clock = rank.clock.max(rank.bus_free) + wire.copying(length);
        rank.bus_free = rank.clock;
    }

    /// Posts a request of `rank` to `peer` and returns its time of arrival there. All bytes of a
    /// write have then passed the links.
    pub(super) fn leave(&mut self, rank: u32, peer: u32, request: &SimRequest) -> u64 {
        let Some(wire) = self.model.wire else { return 0 };
        self.spend(rank, |wire| wire.post);
        let posted = self.rank(rank).clock;
        if request.is_write() {
            self.pass(rank, peer, posted, request.length(), &wire) + wire.write
        } else {
            posted + wire.read / 2
        }
    }

    /// Returns the arrival time at `rank` of the result of a read or atomic that starts at `peer`
    /// now.
    pub(super) fn come_back(&mut self, peer: u32, rank: u32, request: &SimRequest) -> u64 {
        let Some(wire) = self.model.wire else { return self.now };
        self.pass(peer, rank, self.now, request.length(), &wire) + wire.read - wire.read / 2
    }

    /// Lets `length` bytes pass the outgoing link of `from` and the incoming one of `to`, beginning
    /// at `now` or when the links are free. Returns the time at which they have passed.
    fn pass(&mut self, from: u32, to: u32, now: u64, length: usize, wire: &Wire) -> u64 {
        let (on_link, on_bus) = (wire.on_link(length), wire.on_bus(length));
        let sender = self.rank_mut(from);
        if length <= wire.packet {
            // The longer messages take as much longer, which is little.
            return now + on_link;
        }
        let begin = now.max(sender.link_free);
        sender.link_free = begin + on_link.max(wire.gap);
        sender.bus_free = sender.bus_free.max(now) + on_bus;
        let receiver = self.rank_mut(to);
        let end = begin.max(receiver.inbound_free) + on_link;
        receiver.inbound_free = end;
        end
    }

    /// Accounts for bytes that the device of `rank` has just written to memory: they crossed the
    /// memory bus while they came over the link.
    pub(super) fn land(&mut self, rank: u32, length: usize) {
        let Some(wire) = self.model.wire else { return };
        let began = self.now.saturating_sub(wire.on_link(length));
        let rank = self.rank_mut(rank);
        rank.bus_free = rank.bus_free.max(began) + wire.on_bus(length);
    }
}
