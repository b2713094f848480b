//! Saying what this rank waits for, in its record in the segment.

use strait_core::layout::{Wait, WaitRecord, Waited};

use crate::observe::monotonic_ns;

/// One wait, from the first time that it is written to the record until its end.
pub(super) struct Recorder<'a> {
    record: &'a WaitRecord,
    /// When it was written first.
    since_ns: Option<u64>,
}

impl<'a> Recorder<'a> {
    /// Writes nothing.
    pub(super) const fn new(record: &'a WaitRecord) -> Self {
        Self { record, since_ns: None }
    }

    /// Says that the wait goes on, after so many progress calls.
    #[cold]
    pub(super) fn renew(&mut self, wait: Wait, turns: u64) {
        let latest_ns = monotonic_ns();
        let since_ns = *self.since_ns.get_or_insert(latest_ns);
        self.record.write(&Waited { wait: Some(wait), since_ns, latest_ns, turns });
    }
}

/// Says what a loop of calls that do not wait is for. It stays there until it is said again, or a wait ends: its time tells.
pub(super) fn write_once(record: &WaitRecord, wait: Wait) {
    let now = monotonic_ns();
    record.write(&Waited { wait: Some(wait), since_ns: now, latest_ns: now, turns: 0 });
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        if self.since_ns.is_some() {
            let now = monotonic_ns();
            self.record.write(&Waited { wait: None, since_ns: now, latest_ns: now, turns: 0 });
        }
    }
}
