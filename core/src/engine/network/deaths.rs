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
use crate::engine::{Engine, FailureCause, Gone};
use crate::layout::Life;
use crate::memory::Memory;
use crate::wire::StreamHead;

impl<M: Memory + Clone> Engine<M> {
    /// Makes this rank report each death that it learns of to its peers on other nodes, and believe
    /// their reports. For jobs of one numbering with a launcher that does not report deaths.
    pub const fn tell_deaths(&mut self) {
        self.deaths.tells = true;
    }

    /// Returns whether [`Engine::poll_network`] has a death to report that no peer was told of.
    #[must_use]
    pub const fn has_deaths_to_tell(&self) -> bool {
        self.deaths.fresh
    }

    /// Notes that `rank` has failed, for the reports to peers.
    pub(in crate::engine) fn note_death(&mut self, rank: u32) {
        if !self.deaths.tells || rank >= self.segment.ranks() {
            return;
        }
        self.deaths.count += 1;
        self.deaths.fresh = true;
        self.peers[rank as usize].death = self.deaths.count;
        if self.peers[rank as usize].stream.is_some() {
            self.segment.rank_block(rank).liveness.end(Life::Dead);
        }
    }

    /// Puts the deaths that were learned of since the last call into each stream that accepts them.
    /// The other streams follow when they accept more.
    pub(super) fn push_deaths(&mut self, channel: &mut impl Channel) {
        if !core::mem::take(&mut self.deaths.fresh) {
            return;
        }
        let mut from = 0;
        while let Some(number) = self.next_stream(from) {
            from = number + 1;
            // A stream that breaks here reports that once all bytes that had arrived are taken.
            let _ = self.push_stream(number, channel);
        }
    }

    /// Returns the next death for the stream `number` to report, if there is one and a link for it.
    pub(super) fn next_death(&mut self, number: u32, channel: &impl Channel) -> Option<StreamHead> {
        let stream = self.streams.get_mut(number)?;
        let told = &mut stream.outgoing.deaths_told;
        if !self.deaths.has_more_than(*told) || !channel.is_linked(stream.peer) {
            return None;
        }
        *told += 1;
        let rank = self.peers.iter().position(|peer| peer.death == *told)?;
        Some(StreamHead::Dead { rank: rank as u32 })
    }

    /// Handles a peer's report that `rank` is dead.
    pub(super) fn take_death(&mut self, rank: u32) -> Result<(), Halt> {
        if rank >= self.segment.ranks() {
            return Err(NONSENSE);
        }
        // The operating system reports the deaths of this node's ranks, and this rank knows its own
        // state better.
        if self.deaths.tells && self.peers[rank as usize].stream.is_some() {
            self.end_remote(rank, Gone::Failed(FailureCause::Ended));
        }
        Ok(())
    }
}
