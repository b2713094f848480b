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
//!
//! Where strings are fast, they copy best into lines of this core's caches, and slowly into
//! others while another core reads memory, too. Messages through the ring on a Zen 5, near, in
//! microseconds a message:
//!
//! |                         | strings | registers | and prefetched lines | non-temporal |
//! |-------------------------|--------:|----------:|---------------------:|-------------:|
//! | 512 KiB, one buffer     |     8.7 |      10.5 |                 10.8 |              |
//! | 512 KiB, 64 buffers     |      51 |        23 |                   24 |              |
//! | 1 MiB, 32 buffers       |      90 |        48 |                   48 |              |
//! | 4 MiB, 16 buffers       |     395 |       193 |                  202 |              |
//! | 16 MiB, one buffer      |    1087 |       537 |                  531 |          457 |
//! | 1 MiB, 60 buffers, written before and read after, one at a time | 97 | 103 | 107 | |

use core::ptr::NonNull;

use crate::buffer::copy::{Stores, fills_alike};
use crate::sync::has_fast_kernel_copies;

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
        if fills_alike(length) {
            // Near cores were measured on AMD's processors only.
            let may_stream = is_streamed || !has_fast_kernel_copies();
            self.with_strings(start, length, is_streamed, may_stream)
        } else {
            self.without_strings(start, length, is_streamed)
        }
    }

    fn without_strings(&mut self, start: NonNull<u8>, length: usize, is_streamed: bool) -> Stores {
        if !is_streamed || length < STREAMED_LEAST {
            return Stores::Fetching;
        }
        if self.is_warm(start, length) { Stores::Cached } else { Stores::NonTemporal }
    }

    /// Chooses where strings are fast, by which [`Stores::Cached`] copies.
    fn with_strings(
        &mut self,
        start: NonNull<u8>,
        length: usize,
        is_streamed: bool,
        may_stream: bool,
    ) -> Stores {
        if length < STREAMED_LEAST || self.is_warm(start, length) {
            return Stores::Cached;
        }
        if may_stream && length >= STREAMED_LEAST_BY_STRINGS {
            Stores::NonTemporal
        } else if is_streamed {
            Stores::Cached
        } else {
            Stores::Fetching
        }
    }

    /// Returns whether a cache still has the lines of the buffer at `start`, and remembers it.
    fn is_warm(&mut self, start: NonNull<u8>, length: usize) -> bool {
        self.meet(start.addr().get()) && length <= KEPT_MOST
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

    fn at(start: usize) -> NonNull<u8> {
        NonNull::without_provenance(start.try_into().unwrap())
    }

    #[test]
    fn a_buffer_is_warm_until_others_were_used_since() {
        let mut recent = RecentBuffers::default();
        let mut is_warm =
            |start| recent.without_strings(at(start), STREAMED_LEAST, true) == Stores::Cached;
        for start in 1..=REMEMBERED {
            assert!(!is_warm(start));
        }
        for _ in 0..3 {
            (1..=REMEMBERED).for_each(|start| assert!(is_warm(start)));
        }
        // The oldest is forgotten.
        assert!(!is_warm(9) && !is_warm(1) && is_warm(9));
        assert!(is_warm(REMEMBERED) && !is_warm(2));
    }

    #[test]
    fn short_messages_stay_in_the_caches_and_the_longest_do_not() {
        let mut recent = RecentBuffers::default();
        for _ in 0..2 {
            let mut stores = |length| recent.without_strings(at(64), length, true);
            assert_eq!(stores(STREAMED_LEAST - 1), Stores::Fetching);
            assert_eq!(stores(2 * KEPT_MOST), Stores::NonTemporal);
            assert_eq!(recent.without_strings(at(64), KEPT_MOST, false), Stores::Fetching);
        }
    }

    #[test]
    fn strings_copy_into_warm_buffers_and_registers_into_others() {
        let mut recent = RecentBuffers::default();
        let mut near = |start, length| recent.with_strings(at(start), length, false, true);
        for start in 1..=REMEMBERED {
            assert_eq!(near(start, KEPT_MOST), Stores::Fetching);
            assert_eq!(near(start, KEPT_MOST), Stores::Cached);
            assert_eq!(near(99, STREAMED_LEAST - 1), Stores::Cached, "it is not remembered");
            assert_eq!(near(start, STREAMED_LEAST_BY_STRINGS), Stores::NonTemporal);
        }
        assert_eq!(near(99, KEPT_MOST), Stores::Fetching);
    }

    #[test]
    fn far_messages_go_by_strings_up_to_the_longest() {
        let mut recent = RecentBuffers::default();
        for start in 1..=REMEMBERED {
            let mut far = |length| recent.with_strings(at(start), length, true, true);
            assert_eq!(far(STREAMED_LEAST_BY_STRINGS - 1), Stores::Cached);
            assert_eq!(far(STREAMED_LEAST_BY_STRINGS), Stores::NonTemporal);
        }
        let near = recent.with_strings(at(9), STREAMED_LEAST_BY_STRINGS, false, false);
        assert_eq!(near, Stores::Fetching);
    }
}
