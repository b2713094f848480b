//! Deaths that ranks report to each other, for a job with a launcher that reports none.
//!
//! A rank learns of a death on its own node from the operating system, and of one on another node
//! from a broken link. Most pairs of ranks have no link. So a rank that waits for a living peer may
//! never learn that the peer has given up because a third rank died.
//!
//! Therefore each rank that learns of a death reports it on each of its links
//! ([`StreamHead::Dead`]). It also marks a rank of another node as dead in the segment, where the
//! ranks of its own node look. This ends every wait: the waiting rank has a link to the rank that
//! it waits for, or shares the segment with it. That rank tells why it gave up.

use super::{Channel, Halt, NONSENSE};
use crate::engine::rank_list::RankList;
use crate::engine::{Engine, FailureCause, Gone};
use crate::layout::Life;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::StreamHead;

/// The deaths that this rank reports, in the order in which it learned of them. Each stream counts
/// how many of them it has reported.
#[derive(Debug)]
pub(super) struct Deaths<M: Memory> {
    tells: bool,
    /// Whether there is a death that no stream was asked to report yet.
    fresh: bool,
    dead: RankList<M>,
}

impl<M: Memory> Deaths<M> {
    /// Returns the record of a job of which no rank has died.
    pub(super) fn new(memory: M) -> Self {
        Self { tells: false, fresh: false, dead: RankList::new(memory) }
    }

    /// Makes room for the deaths of `peers` peers.
    pub(super) fn make_room(&mut self, peers: usize) -> Result<(), OutOfMemory> {
        self.dead.make_room(peers)
    }

    const fn tell(&mut self) {
        self.tells = true;
    }

    const fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns whether a death is fresh. From now on it is not.
    const fn take_fresh(&mut self) -> bool {
        core::mem::replace(&mut self.fresh, false)
    }

    /// Notes the death of `rank`. Returns false if this rank does not report deaths.
    fn learn(&mut self, rank: u32) -> bool {
        if self.tells {
            self.dead.insert(rank);
            self.fresh = true;
        }
        self.tells
    }

    /// Returns whether a stream that has reported `told` deaths has more to report.
    #[inline(always)]
    pub(super) fn has_more_than(&self, told: u32) -> bool {
        self.dead.len() > told as usize
    }

    /// Returns the next death for a stream that has reported `told` deaths, and counts it.
    pub(super) fn next(&self, told: &mut u32) -> Option<u32> {
        if !self.has_more_than(*told) {
            return None;
        }
        *told += 1;
        Some(self.dead.get(*told as usize - 1))
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Makes this rank report each death that it learns of to its peers on other nodes, and believe
    /// their reports. For jobs of one numbering with a launcher that does not report deaths.
    pub const fn tell_deaths(&mut self) {
        self.network.deaths.tell();
    }

    /// Returns whether [`Engine::poll_network`] has a death to report that no peer was told of.
    #[must_use]
    pub const fn has_deaths_to_tell(&self) -> bool {
        self.network.deaths.is_fresh()
    }

    /// Notes that `rank` has failed, for the reports to peers.
    pub(in crate::engine) fn note_death(&mut self, rank: u32) {
        if rank >= self.segment.ranks() || !self.network.deaths.learn(rank) {
            return;
        }
        if self.peers[rank as usize].is_remote() {
            self.segment.rank_block(rank).liveness.end(Life::Dead);
        }
    }

    /// Puts the deaths that were learned of since the last call into each stream that accepts them.
    /// The other streams follow when they accept more.
    pub(super) fn push_deaths(&mut self, channel: &mut impl Channel) {
        if self.network.deaths.take_fresh() {
            self.visit_streams(|engine, number| {
                // A stream that breaks here reports that once all bytes that had arrived are taken.
                let _ = engine.push_stream(number, channel);
            });
        }
    }

    /// Returns the next death for the stream `number` to report, if there is one and a link for it.
    pub(super) fn next_death(&mut self, number: u32, channel: &impl Channel) -> Option<StreamHead> {
        let stream = self.network.streams.get_mut(number)?;
        if !channel.is_linked(stream.peer()) {
            return None;
        }
        let rank = stream.outgoing.next_death(&self.network.deaths)?;
        Some(StreamHead::Dead { rank })
    }

    /// Handles a peer's report that `rank` is dead.
    pub(super) fn take_death(&mut self, rank: u32) -> Result<(), Halt> {
        if rank >= self.segment.ranks() {
            return Err(NONSENSE);
        }
        // The operating system reports the deaths of this node's ranks, and this rank knows its own
        // state better.
        if self.network.deaths.tells && self.peers[rank as usize].is_remote() {
            // A rank without contact, too: this rank reports the death in turn.
            self.contact(rank)?;
            self.end_remote(rank, Gone::Failed(FailureCause::Ended));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    fn deaths() -> Deaths<Counted> {
        let mut deaths = Deaths::new(Counted::default());
        deaths.make_room(3).unwrap();
        deaths
    }

    #[test]
    fn each_stream_reports_each_death_once_in_the_order_in_which_they_were_learned() {
        let mut deaths = deaths();
        deaths.tell();
        let mut told = [0; 2];
        deaths.learn(2);
        assert_eq!(deaths.next(&mut told[0]), Some(2));
        deaths.learn(0);
        for (told, rest) in told.iter_mut().zip([&[0][..], &[2, 0]]) {
            for rank in rest {
                assert!(deaths.has_more_than(*told));
                assert_eq!(deaths.next(told), Some(*rank));
            }
            assert!(!deaths.has_more_than(*told));
            assert_eq!(deaths.next(told), None);
        }
    }

    #[test]
    fn a_death_is_fresh_until_the_streams_were_asked_to_report_it() {
        let mut deaths = deaths();
        deaths.tell();
        assert!(!deaths.take_fresh());
        deaths.learn(1);
        assert!(deaths.is_fresh() && deaths.take_fresh());
        assert!(!deaths.is_fresh() && !deaths.take_fresh());
    }

    #[test]
    fn a_rank_that_does_not_report_deaths_learns_of_none() {
        let mut deaths = deaths();
        assert!(!deaths.learn(1));
        assert!(!deaths.is_fresh() && !deaths.has_more_than(0));
    }
}
