//! The time that a request takes.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// The latency and bandwidth of the imitated device. In `inline` mode only the copy takes time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeModel {
    /// Time from the posting of a write or send to its effect at the peer, without the time of its
    /// bytes.
    pub write: Duration,
    /// Time from the posting of a read or atomic to its result, without the time of its bytes.
    pub read: Duration,
    /// Bytes per second each way: written bytes follow each other on one wire, read bytes on
    /// another. Zero means no limit.
    pub bytes_per_second: u64,
}

impl TimeModel {
    /// A model in which no request takes time.
    pub const NONE: Self =
        Self { write: Duration::ZERO, read: Duration::ZERO, bytes_per_second: 0 };

    /// The cards of `[RdmaChannel04]` §4.2.1: 5.9 µs and 870 MB/s for writes. The paper gives no
    /// figure for a small read. 12.4 µs is somewhat more than two times the latency of a write,
    /// since a read travels both ways.
    pub const INFINIBAND_2004: Self = Self {
        write: Duration::from_nanos(5_900),
        read: Duration::from_nanos(12_400),
        bytes_per_second: 870_000_000,
    };

    /// Returns the model of a device that is `times` times slower.
    #[must_use]
    pub const fn slower(self, times: u32) -> Self {
        let Self { write, read, bytes_per_second } = self;
        Self {
            write: write.saturating_mul(times),
            read: read.saturating_mul(times),
            bytes_per_second: bytes_per_second / times as u64,
        }
    }

    /// Returns the time for which `length` bytes keep the wire busy.
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

impl fmt::Display for TimeModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { write, read, bytes_per_second } = self;
        write!(f, "write {write:?}, read {read:?}, ")?;
        match bytes_per_second {
            0 => f.write_str("no limit on bytes per second"),
            bytes => write!(f, "{} MB/s", *bytes as f64 / 1e6),
        }
    }
}

impl TimeModel {
    /// Formats the model as [`TimeModel::from_str`] parses it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { write, read, bytes_per_second } = self;
        format!("{},{},{bytes_per_second}", write.as_nanos(), read.as_nanos())
    }
}

/// Parses nanoseconds of a write, nanoseconds of a read, and bytes per second, with commas between.
impl FromStr for TimeModel {
    type Err = BadModel;

    fn from_str(text: &str) -> Result<Self, BadModel> {
        let mut numbers = text.split(',').map(str::parse);
        let mut next = || numbers.next().and_then(Result::ok).ok_or(BadModel);
        let [write, read, bytes_per_second] = [next()?, next()?, next()?];
        let [write, read] = [write, read].map(Duration::from_nanos);
        if numbers.next().is_some() {
            Err(BadModel)
        } else {
            Ok(Self { write, read, bytes_per_second })
        }
    }
}

/// The text is not a [`TimeModel`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadModel;

impl fmt::Display for BadModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected three numbers with commas between, such as 5900,12400,870000000")
    }
}

impl core::error::Error for BadModel {}

/// The measured time of requests on this machine, so that they start in time: the shortest yet for
/// about the same length.
#[derive(Debug)]
pub(super) struct Pace([Option<Duration>; u64::BITS as usize + 1]);

impl Pace {
    /// The state before the first measurement.
    pub(super) const UNKNOWN: Self = Self([None; u64::BITS as usize + 1]);

    /// Returns the class of a length. A request of no bytes is the first class; then each class has
    /// twice the length of the one before.
    const fn class(length: u64) -> usize {
        (u64::BITS - length.leading_zeros()) as usize
    }

    /// Returns the shortest time that a request of about this length has taken.
    pub(super) fn of(&self, length: u64) -> Duration {
        self.0[Self::class(length)].unwrap_or_default()
    }

    /// Records the time that a request took.
    pub(super) fn learn(&mut self, length: u64, took: Duration) {
        let fastest = &mut self.0[Self::class(length)];
        *fastest = Some(fastest.map_or(took, |before| before.min(took)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_three_numbers() {
        let cards = TimeModel::INFINIBAND_2004;
        assert_eq!("5900,12400,870000000".parse(), Ok(cards));
        assert_eq!("0,0,0".parse(), Ok(TimeModel::NONE));
        assert_eq!(cards.slower(2).text(), "11800,24800,435000000");
        assert_eq!(cards.text().parse(), Ok(cards));
        for bad in ["", "1", "1,2", "1,2,3,4", "1,2,x", "-1,2,3", "1, 2,3"] {
            assert_eq!(bad.parse::<TimeModel>(), Err(BadModel), "{bad:?}");
        }
        assert_eq!(cards.to_string(), "write 5.9µs, read 12.4µs, 870 MB/s");
    }
}
