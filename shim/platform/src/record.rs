//! Writes to the segment what a rank waits for.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use crate::Rank;
use crate::clock::monotonic_ns;
use crate::segment::SegmentMap;
use strait_core::layout::{Communicator, RankRecord, UnexpectedSummary, Wait, WaitRecord, Waited};

/// What the ranks of this process record for observers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum RecordMode {
    /// Nothing.
    Off = 0,
    /// Waits that take long.
    #[default]
    Waits = 1,
    /// Waits, and the last events.
    Events = 2,
}

impl RecordMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Off, Self::Waits, Self::Events];

    /// Returns the name of the mode, as `STRAIT_RECORD` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Waits => "waits",
            Self::Events => "events",
        }
    }

    /// Makes this the mode of all ranks of this process.
    pub fn choose(self) {
        MODE.store(self as u8, Relaxed);
    }

    /// Returns the mode of this process.
    #[must_use]
    pub fn chosen() -> Self {
        match MODE.load(Relaxed) {
            0 => Self::Off,
            1 => Self::Waits,
            _ => Self::Events,
        }
    }
}

static MODE: AtomicU8 = AtomicU8::new(RecordMode::Waits as u8);

/// The places in which a rank records its waits.
#[derive(Clone, Copy, Debug)]
pub struct RecordPlace<'a> {
    waiting: &'a WaitRecord,
    record: &'a RankRecord,
}

impl<'a> RecordPlace<'a> {
    /// Returns the places of `rank`.
    #[must_use]
    pub fn of(map: &'a SegmentMap, rank: Rank) -> Self {
        Self { waiting: &map.rank_block(rank).waiting, record: map.rank_record(rank) }
    }

    fn write(self, waited: &Waited, unexpected: &UnexpectedSummary) {
        if RecordMode::chosen() == RecordMode::Off {
            return;
        }
        if let Some(wait) = waited.wait {
            self.record.details.write(waited.since_ns, &wait, unexpected);
        }
        self.waiting.write(waited);
    }

    /// Writes that a wait which began at `since_ns` goes on, after this number of checks.
    pub fn write_again(
        self,
        wait: Wait,
        since_ns: u64,
        checks: u64,
        unexpected: &UnexpectedSummary,
    ) {
        let latest_ns = monotonic_ns();
        self.write(&Waited { wait: Some(wait), since_ns, latest_ns, turns: checks }, unexpected);
    }

    /// Records a communicator of the interface above Strait.
    pub fn add_communicator(self, communicator: Communicator) {
        if RecordMode::chosen() != RecordMode::Off {
            self.record.communicators.add(communicator);
        }
    }

    /// Removes a communicator that the interface above Strait has freed.
    pub fn remove_communicator(self, context: u32) {
        self.record.communicators.remove(context);
    }

    /// Writes what a loop of calls that do not wait is for. The record stays until the next write,
    /// or until a wait ends. Its time shows its age.
    pub fn write_once(self, wait: Wait, unexpected: &UnexpectedSummary) {
        let now = monotonic_ns();
        let waited = Waited { wait: Some(wait), since_ns: now, latest_ns: now, turns: 0 };
        self.write(&waited, unexpected);
    }
}

/// The record of one wait, from its first write until the wait ends.
#[derive(Debug)]
pub struct WaitRecorder<'a> {
    place: RecordPlace<'a>,
    /// Time of the first write.
    since_ns: Option<u64>,
}

impl<'a> WaitRecorder<'a> {
    /// Creates a recorder, and writes nothing yet.
    #[must_use]
    pub const fn new(place: RecordPlace<'a>) -> Self {
        Self { place, since_ns: None }
    }

    /// Writes that the wait goes on, after `turns` progress calls. Returns true the first time.
    #[cold]
    pub fn renew(&mut self, wait: Wait, turns: u64, unexpected: &UnexpectedSummary) -> bool {
        let latest_ns = monotonic_ns();
        let is_first = self.since_ns.is_none();
        let since_ns = *self.since_ns.get_or_insert(latest_ns);
        self.place.write(&Waited { wait: Some(wait), since_ns, latest_ns, turns }, unexpected);
        is_first
    }

    /// Writes that the wait goes on, in a rank that has no unexpected messages yet.
    pub fn renew_alone(&mut self, wait: Wait) {
        self.renew(wait, 0, &UnexpectedSummary::default());
    }

    /// Returns whether something was written.
    #[must_use]
    pub const fn has_written(&self) -> bool {
        self.since_ns.is_some()
    }
}

impl Drop for WaitRecorder<'_> {
    fn drop(&mut self) {
        if self.since_ns.is_some() {
            let now = monotonic_ns();
            let over = Waited { wait: None, since_ns: now, latest_ns: now, turns: 0 };
            self.place.write(&over, &UnexpectedSummary::default());
        }
    }
}
