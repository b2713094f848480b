//! What the engine leaves in the segment for observers: counters, events, and the messages that no
//! receive has taken. No protocol reads any of it.

use super::Engine;
use crate::layout::{Count, Event, EventKind, UnexpectedHead, UnexpectedSummary};
use crate::matching::{ANY_SOURCE, Envelope};
use crate::memory::Memory;
use crate::wire::Key;

/// Number of unexpected messages that are looked at, so that a rank with many can still describe
/// some.
const LOOKED_AT: usize = 1024;

impl<M: Memory + Clone> Engine<M> {
    /// Records events from now on. `clock` returns the time of the machine's monotonic clock in
    /// nanoseconds.
    pub const fn record_events(&mut self, clock: fn() -> u64) {
        self.observed.clock = Some(clock);
    }

    /// Returns whether events are recorded.
    #[must_use]
    pub const fn records_events(&self) -> bool {
        self.observed.clock.is_some()
    }

    /// Records an event, if events are recorded.
    #[inline(always)]
    pub fn note(&self, kind: EventKind, peer: u32, key: Key, bytes: u64) {
        if let Some(clock) = self.observed.clock {
            self.write_event(clock, kind, peer, key, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_event(&self, clock: fn() -> u64, kind: EventKind, peer: u32, key: Key, bytes: u64) {
        let (tag, context) = (key.tag(), key.context());
        let event = Event { time_ns: clock(), kind, peer, tag, context, bytes };
        self.segment.rank_record(self.rank).events.write(event);
    }

    /// Adds to a counter about `peer`.
    #[inline]
    pub(super) fn count(&self, peer: u32, count: Count, by: u64) {
        if peer < self.segment.ranks() {
            self.segment.counters(self.rank, peer).add(count, by);
        }
    }

    /// Counts a message that met no receive.
    pub(super) fn count_unexpected(&self, kind: EventKind, envelope: &Envelope, bytes: usize) {
        let Envelope { context, source, tag } = *envelope;
        self.count(source, Count::Unexpected, 1);
        self.note(kind, source, Key::new(context, tag), bytes as u64);
    }

    /// Notes that a message which its sender kept met its receive.
    pub(super) fn note_met(&self, envelope: &Envelope) {
        let Envelope { context, source, tag } = *envelope;
        self.note(EventKind::Met, source, Key::new(context, tag), 0);
    }

    /// Copies the numbers of packets of all peers to their counters.
    pub fn publish_counts(&self) {
        let in_segment = |(rank, _): &(u32, _)| *rank < self.segment.ranks();
        for (rank, peer) in self.peers.iter().take_while(in_segment) {
            // The numbers of the next packets count from 1.
            let [sent, received] =
                [peer.paths.next_out(), peer.paths.next_in()].map(|next| next.number() - 1);
            if !peer.is_remote() && (sent != 0 || received != 0) {
                let counters = self.segment.counters(self.rank, rank);
                counters.set(Count::PacketsOut, sent);
                counters.set(Count::PacketsIn, received);
            }
        }
    }

    /// Describes the messages that no receive has taken: those of `awaited` first, if that is a
    /// rank. The call walks lists, so it is for waits that take long.
    #[must_use]
    pub fn unexpected_summary(&self, awaited: Option<u32>) -> UnexpectedSummary {
        let mut summary = UnexpectedSummary {
            messages: self.unexpected.count(),
            bytes: self.unexpected.held().bytes as u64,
            ..UnexpectedSummary::default()
        };
        let awaited = awaited.filter(|rank| *rank != ANY_SOURCE);
        let is_first = |source: u32| Some(source) == awaited;
        for round in [true, false] {
            let waiting = self.unexpected.waiting().take(LOOKED_AT);
            for (envelope, bytes) in waiting.filter(|one| is_first(one.0.source) == round) {
                add(&mut summary, envelope, bytes as u64);
            }
        }
        summary
    }
}

/// Counts a message in the head of its kind, if there is room for one.
fn add(summary: &mut UnexpectedSummary, envelope: Envelope, bytes: u64) {
    let Envelope { context, source, tag } = envelope;
    let is_same =
        |head: &UnexpectedHead| (head.context, head.source, head.tag) == (context, source, tag);
    for place in &mut summary.heads {
        match place {
            Some(head) if is_same(head) => {
                head.count += 1;
                return;
            }
            Some(_) => {}
            None => {
                *place = Some(UnexpectedHead { source, tag, context, count: 1, bytes });
                return;
            }
        }
    }
}
