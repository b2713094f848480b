//! What a request's way takes, in time.

use core::time::Duration;

/// How long requests take on the device that is imitated. In `inline` mode nothing takes time but the copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeModel {
    /// From the posting of a write, send or of nothing at all to its effect at the peer, without the time of its bytes.
    pub write: Duration,
    /// From the posting of a read or atomic until its result is here, without the time of its bytes.
    pub read: Duration,
    /// Bytes that leave in a second; requests follow each other on the wire. Zero: any number at once.
    pub bytes_per_second: u64,
}

impl TimeModel {
    /// Everything at once.
    pub const NONE: Self =
        Self { write: Duration::ZERO, read: Duration::ZERO, bytes_per_second: 0 };

    /// The cards of `[RdmaChannel04]` §4.2.1: 5.9 µs and 870 MB/s for writes. Its text gives no figure for a small read;
    /// 12.4 µs is somewhat more than twice a write's way, which is what it goes.
    pub const INFINIBAND_2004: Self = Self {
        write: Duration::from_nanos(5_900),
        read: Duration::from_nanos(12_400),
        bytes_per_second: 870_000_000,
    };

    /// How long `length` bytes keep the wire busy.
    pub(super) fn on_wire(&self, length: u64) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let nanoseconds = u128::from(length) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    pub(super) const fn latency(&self, fetches: bool) -> Duration {
        if fetches { self.read } else { self.write }
    }
}
