//! Writes to the segment what a rank waits for.

use crate::observe::monotonic_ns;
use strait_core::layout::{Wait, WaitRecord, Waited};

/// The record of one wait, from its first write until the wait ends.
#[derive(Debug)]
pub struct WaitRecorder<'a> {
    record: &'a WaitRecord,
    /// Time of the first write.
    since_ns: Option<u64>,
}

impl<'a> WaitRecorder<'a> {
    /// Creates a recorder, and writes nothing yet.
    #[must_use]
    pub const fn new(record: &'a WaitRecord) -> Self {
        Self { record, since_ns: None }
    }

    /// Writes that the wait goes on, after `turns` progress calls.
    #[cold]
    pub fn renew(&mut self, wait: Wait, turns: u64) {
        let latest_ns = monotonic_ns();
        let since_ns = *self.since_ns.get_or_insert(latest_ns);
        self.record.write(&Waited { wait: Some(wait), since_ns, latest_ns, turns });
    }
}

/// Writes what a loop of calls that do not wait is for. The record stays until the next write, or
/// until a wait ends. Its time shows its age.
pub fn write_once(record: &WaitRecord, wait: Wait) {
    let now = monotonic_ns();
    record.write(&Waited { wait: Some(wait), since_ns: now, latest_ns: now, turns: 0 });
}

impl Drop for WaitRecorder<'_> {
    fn drop(&mut self) {
        if self.since_ns.is_some() {
            let now = monotonic_ns();
            self.record.write(&Waited { wait: None, since_ns: now, latest_ns: now, turns: 0 });
        }
    }
}
