//! Large messages that are in flight together, and are measured together.

/// Number of bytes after which a run is measured although further messages are in flight.
pub(super) const RUN_BYTES: u64 = 4 << 20;

/// The choice made for a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen {
    pub(super) class: usize,
    /// Number of the run; zero for a message that is not measured.
    pub(super) run: u32,
}

impl Chosen {
    /// Returns whether the message is measured.
    pub(crate) const fn is_measured(&self) -> bool {
        self.run != 0
    }
}

/// Messages that are in flight together. They take the same transfer and are measured together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransferRun {
    /// Number of the run; zero means none.
    number: u32,
    candidate: usize,
    /// Number of messages in flight.
    open: u32,
    /// Total size of the messages that take the transfer, in bytes.
    announced: u64,
    /// Total size of the complete messages, in bytes.
    bytes: u64,
    began: u64,
    /// Time at which the bytes that are measured had arrived. Zero: not yet.
    full: u64,
    /// A message did not go by the candidate alone, so the run says nothing about it.
    is_spoiled: bool,
}

impl TransferRun {
    /// Begins a run of messages that take `candidate`. `runs` counts the runs and numbers them.
    pub(super) fn begin(runs: &mut u32, candidate: usize) -> Self {
        // Zero is not a run number.
        *runs = runs.wrapping_add(1).max(1);
        Self { number: *runs, candidate, ..Self::default() }
    }

    /// Returns whether no message is in flight.
    pub(super) const fn is_none(&self) -> bool {
        self.number == 0
    }

    pub(super) const fn candidate(&self) -> usize {
        self.candidate
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a message of `length` bytes. Returns its candidate and its run, which is zero if the
    /// message takes the `best` candidate beside the run. A trial takes no more messages of a long
    /// window than it measures.
    pub(super) const fn join(&mut self, best: usize, length: usize) -> (usize, u32) {
        if self.candidate != best && self.announced >= RUN_BYTES {
            return (best, 0);
        }
        self.announced += length as u64;
        self.open += 1;
        (self.candidate, self.number)
    }

    /// Records the end of a message that began at `began`: all `bytes` of it had arrived at `now`,
    /// or zero bytes if it failed. Returns the run if it is over.
    ///
    /// A sender that fills the ring sees the end of many messages at once. All of them count: the
    /// first ones alone would seem to have taken the time of all.
    pub(super) fn ended(
        &mut self,
        chosen: Chosen,
        bytes: usize,
        began: u64,
        now: u64,
    ) -> Option<Self> {
        if !chosen.is_measured() || self.number != chosen.run {
            return None;
        }
        if self.full != 0 && self.full != now {
            return Some(core::mem::take(self));
        }
        self.open = self.open.saturating_sub(1);
        self.is_spoiled |= bytes == 0;
        if bytes > 0 {
            self.began = if self.bytes == 0 { began } else { self.began };
            self.bytes += bytes as u64;
        }
        if self.open == 0 || self.bytes >= RUN_BYTES {
            self.full = now;
        }
        (self.open == 0).then(|| core::mem::take(self))
    }

    /// Returns the cost of a run that is over, in nanoseconds per mebibyte, if it was measured.
    pub(super) fn cost(&self) -> Option<u32> {
        let elapsed = self.full.saturating_sub(self.began);
        if self.bytes == 0 || elapsed == 0 || self.is_spoiled {
            return None;
        }
        let cost = elapsed.saturating_mul(1 << 20) / self.bytes;
        Some(u32::try_from(cost).unwrap_or(u32::MAX).max(1))
    }
}
