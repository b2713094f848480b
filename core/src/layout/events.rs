//! The last events of one rank, for observers.
//!
//! A ring with one writer and any number of readers. The writer never waits: it overwrites the
//! oldest event. A reader takes an event only if the writer has not come round to it meanwhile. So
//! the events of a rank that was killed are readable, except for one that it was writing.

use super::waiting::{pack, unpack};
use crate::golden;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, CacheLine, order};

/// Number of events in the ring of a rank.
pub const EVENTS: usize = 256;

/// Words of an event.
const WORDS: usize = 4;

/// Defines the kinds of events, as version 11 of the layout numbers them.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $words:literal,)+) => {
        /// A kind of event.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u32)]
        pub enum EventKind {
            $($(#[$doc])* $name = $number,)+
        }

        impl EventKind {
            const fn parse(raw: u32) -> Option<Self> {
                match raw {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Returns the name that traces show.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)+
                }
            }
        }
    };
}

kinds! {
    /// A packet left through a cell.
    CellSent = 1: "send by a cell",
    /// A send found no room and waits.
    SendBlocked = 2: "send waits for room",
    /// A large message was announced (RTS or RTR-ACK).
    Announced = 3: "send announced",
    /// A message was offered: its sender keeps it until the receiver pulls it.
    Offered = 4: "send deferred",
    /// A large message has been moved, at its sender.
    SendEnded = 5: "large send ended",
    /// A message arrived and met no receive.
    Unexpected = 6: "unexpected message",
    /// An announced or offered message met its receive.
    Met = 7: "receive matched an announced message",
    /// An announced or offered message met no receive.
    UnexpectedNews = 8: "unexpected announced message",
    /// A message was longer than its receive.
    Truncated = 9: "message longer than its receive",
    /// A peer has died or left.
    PeerGone = 10: "peer gone",
    /// A wait has lasted longer than its spinning. The number of bytes is the call's number.
    WaitBegan = 11: "wait",
    /// That wait is over.
    WaitEnded = 12: "wait ended",
    /// The lock of a target of a window was taken. The number of bytes is 1 for an exclusive lock,
    /// and 0 for a shared one.
    LockTaken = 13: "window lock taken",
    /// The lock of a target of a window was released.
    LockReleased = 14: "window lock released",
    /// An epoch of a window began. The context is the window's number, and the number of bytes is
    /// that of the [`EpochKind`].
    EpochBegan = 15: "window epoch",
    /// That epoch is over.
    EpochEnded = 16: "window epoch ended",
}

/// A kind of epoch of a window (MPI-4.1 §12.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum EpochKind {
    /// From one fence to the next.
    Fence = 1,
    /// From start to complete.
    Access = 2,
    /// From post to wait.
    Exposure = 3,
    /// From lock to unlock, or from `lock_all` to `unlock_all`.
    Lock = 4,
}

impl EpochKind {
    /// Parses the number that another process wrote.
    #[must_use]
    pub const fn parse(raw: u64) -> Option<Self> {
        match raw {
            1 => Some(Self::Fence),
            2 => Some(Self::Access),
            3 => Some(Self::Exposure),
            4 => Some(Self::Lock),
            _ => None,
        }
    }

    /// Returns the name that traces show.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fence => "fence epoch",
            Self::Access => "access epoch",
            Self::Exposure => "exposure epoch",
            Self::Lock => "lock epoch",
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Event {
    /// Time in nanoseconds of the machine's monotonic clock.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// The other rank; [`u32::MAX`] if there is none.
    pub peer: u32,
    /// The tag, if the event has one.
    pub tag: u32,
    /// The context or the number of the window, if the event has one.
    pub context: u32,
    /// Length of the message in bytes, or the call of a wait, the type of a lock, the kind of an
    /// epoch.
    pub bytes: u64,
}

/// The ring of the last `N` events of a rank. Zeroed memory is an empty ring.
#[derive(Debug)]
#[repr(C)]
pub struct EventRing<const N: usize = EVENTS> {
    /// Number of events that were written so far.
    written: CacheLine<AtomicU64>,
    events: [[AtomicU64; WORDS]; N],
}

/// The ring as the segment has it.
#[cfg(all(test, not(strait_loom)))]
type SegmentEventRing = EventRing<EVENTS>;

golden::structure!(SegmentEventRing { written, events });

impl<const N: usize> EventRing<N> {
    /// Creates an empty ring, for models and tests.
    #[must_use]
    pub fn empty() -> Self {
        let event = || core::array::from_fn(|_| AtomicU64::new(0));
        Self { written: CacheLine(AtomicU64::new(0)), events: core::array::from_fn(|_| event()) }
    }

    /// Writes an event over the oldest one. Only the ring's rank calls it, from one thread at a
    /// time.
    pub fn write(&self, event: Event) {
        let Event { time_ns, kind, peer, tag, context, bytes } = event;
        let number = self.written.load(Relaxed);
        let place = &self.events[(number % N as u64) as usize];
        let words = [time_ns, pack(kind as u32, peer), pack(tag, context), bytes];
        for (place, word) in place.iter().zip(words) {
            // ORDER events/1: Release, pairs with events/3: a reader that sees the word also sees
            // the count of the events before this one.
            place.store(word, order("events/1", Release));
        }
        // ORDER events/2: Release, pairs with events/4: a reader that sees the count sees the
        // words of all events that it counts.
        self.written.store(number.wrapping_add(1), order("events/2", Release));
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        // ORDER events/4: Acquire, pairs with events/2: the words are no older than the count.
        self.written.load(order("events/4", Acquire))
    }

    /// Returns the event with this number, counted from 0. Returns `None` if it was not written
    /// yet, if a later one has taken its place, or if it holds values that no rank writes.
    #[must_use]
    pub fn read(&self, number: u64) -> Option<Event> {
        if number >= self.written() {
            return None;
        }
        let place = &self.events[(number % N as u64) as usize];
        // ORDER events/3: Acquire, pairs with events/1: if a word is of a later event, the count
        // read below shows that the writer has come round.
        let words: [u64; WORDS] =
            core::array::from_fn(|at| place[at].load(order("events/3", Acquire)));
        let behind = self.written.load(Relaxed).wrapping_sub(number);
        if behind == 0 || behind >= N as u64 {
            return None;
        }
        let [time_ns, what, name, bytes] = words;
        let ((kind, peer), (tag, context)) = (unpack(what), unpack(name));
        Some(Event { time_ns, kind: EventKind::parse(kind)?, peer, tag, context, bytes })
    }

    /// Returns the events that can be read, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        let written = self.written();
        (written.saturating_sub(N as u64)..written).filter_map(|number| self.read(number))
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        let peer = number as u32;
        let kind = EventKind::Announced;
        Event { time_ns: number, kind, peer, tag: 7, context: 1, bytes: number }
    }

    #[test]
    fn the_last_events_are_kept() {
        let ring = EventRing::<4>::empty();
        assert_eq!(ring.iter().count(), 0);
        (0..6).for_each(|number| ring.write(event(number)));
        // The place of the oldest one may be the next to be written.
        assert_eq!(ring.iter().collect::<std::vec::Vec<_>>(), [event(3), event(4), event(5)]);
        assert_eq!((ring.read(1), ring.read(6)), (None, None));
    }

    #[test]
    fn kinds_of_epochs_are_found_by_their_numbers() {
        use EpochKind::{Access, Exposure, Fence, Lock};
        for kind in [Fence, Access, Exposure, Lock] {
            assert_eq!(EpochKind::parse(kind as u64), Some(kind));
        }
        assert_eq!([0, 5, u64::MAX].map(EpochKind::parse), [None; 3]);
    }

    #[test]
    fn what_no_rank_writes_is_not_an_event() {
        let ring = EventRing::<4>::empty();
        ring.write(event(0));
        ring.events[0][1].store(99, Relaxed);
        assert_eq!(ring.iter().count(), 0);
        ring.written.store(u64::MAX, Relaxed);
        assert_eq!(ring.iter().count(), 0);
    }
}
