//! The buffers into which large messages came lately.
//!
//! A sender on a core that shares no cache with this one fills the copy ring round its caches. So
//! what this rank reads comes from memory. Where the bytes go decides how they are stored best. A
//! buffer that is used again soon has its lines in this core's caches, and plain stores change them
//! there. The lines of any other are in memory: plain stores fetch each of them first, non-temporal
//! stores do not. Which of both it is shows in the address: a program that receives into the same
//! few buffers uses them again before other data have taken their place.
//!
//! Measured on a Zen 4 by a bare ring of 1 MiB that a peer fills so, in microseconds a message of
//! 512 KiB. *Read*: the receiver reads each message afterwards, as a program would.
//!
//! |                                  | one buffer | and read | 128 buffers | and read |
//! |----------------------------------|-----------:|---------:|------------:|---------:|
//! | plain stores                     |       23.1 |       34 |          38 |       51 |
//! | with prefetched lines            |       27.5 |       40 |          37 |       51 |
//! | non-temporal stores              |       23.9 |       40 |          28 |       47 |
//!
//! Between cores that share a cache, non-temporal stores lose where the sender's data come from
//! memory, too.

use core::ptr::NonNull;

use crate::buffer::copy::{Stores, fills_alike};

/// Number of buffers that are remembered.
const REMEMBERED: usize = 4;

/// Shortest message, in bytes, for which non-temporal stores may be faster.
const STREAMED_LEAST: usize = 128 * 1024;

/// The same where strings are fast: 4 MiB take 145 µs round the caches and 120 through them, 16 MiB
/// 0.65 and 1.0 ms.
const STREAMED_LEAST_BY_STRINGS: usize = 8 * 1024 * 1024;

/// Longest message, in bytes, that a cache keeps until its buffer is used again.
const KEPT_MOST: usize = 4 * 1024 * 1024;

/// The addresses of the last buffers, the newest first.
#[derive(Debug, Default)]
pub(super) struct RecentBuffers {
    starts: [usize; REMEMBERED],
}

impl RecentBuffers {
    /// Returns the stores that copy a message of `length` bytes best into the buffer at `start`.
    /// Remembers the buffer. `is_streamed` says whether the sender bypassed its caches.
    pub(super) fn stores(
        &mut self,
        start: NonNull<u8>,
        length: usize,
        is_streamed: bool,
    ) -> Stores {
        let least = if fills_alike(length) { STREAMED_LEAST_BY_STRINGS } else { STREAMED_LEAST };
        if !is_streamed || length < least {
            return Stores::Fetching;
        }
        let is_warm = self.meet(start.addr().get()) && length <= KEPT_MOST;
        if is_warm { Stores::Cached } else { Stores::NonTemporal }
    }

    /// Makes the buffer at `start` the newest one. Returns whether it was among those remembered.
    fn meet(&mut self, start: usize) -> bool {
        let place = self.starts.iter().position(|known| *known == start);
        self.starts[..=place.unwrap_or(REMEMBERED - 1)].rotate_right(1);
        self.starts[0] = start;
        place.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(recent: &mut RecentBuffers, start: usize, length: usize) -> Stores {
        let start = NonNull::without_provenance(start.try_into().unwrap());
        recent.stores(start, length, true)
    }

    #[test]
    fn a_buffer_is_warm_until_others_were_used_since() {
        if fills_alike(STREAMED_LEAST) {
            return;
        }
        let mut recent = RecentBuffers::default();
        let warm = |recent: &mut _, start| stores(recent, start, STREAMED_LEAST) == Stores::Cached;
        for start in 1..=REMEMBERED {
            assert!(!warm(&mut recent, start));
        }
        for _ in 0..3 {
            (1..=REMEMBERED).for_each(|start| assert!(warm(&mut recent, start)));
        }
        // The oldest is forgotten.
        assert!(!warm(&mut recent, 9) && !warm(&mut recent, 1) && warm(&mut recent, 9));
        assert!(warm(&mut recent, REMEMBERED) && !warm(&mut recent, 2));
    }

    #[test]
    fn short_messages_stay_in_the_caches_and_the_longest_do_not() {
        let mut recent = RecentBuffers::default();
        for _ in 0..2 {
            assert_eq!(stores(&mut recent, 64, STREAMED_LEAST - 1), Stores::Fetching);
            assert_eq!(stores(&mut recent, 64, 2 * KEPT_MOST), Stores::NonTemporal);
        }
    }
}
