//! The last message that was longer than its receive, for observers.

use super::seqlock;
use super::waiting::{pack, unpack};
use crate::golden;
use crate::sync::AtomicU64;

/// A message that was longer than its receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Truncation {
    /// The sender.
    pub source: u32,
    /// The tag.
    pub tag: u32,
    /// Length of the message in bytes.
    pub message: u64,
    /// Length of the receive's buffer in bytes.
    pub buffer: u64,
}

/// The record of a rank's last [`Truncation`]. Zeroed memory is the record of a rank with none.
#[derive(Debug)]
#[repr(C)]
pub struct FaultRecord {
    sequence: AtomicU64,
    words: [AtomicU64; 3],
}

golden::structure!(FaultRecord { sequence, words });

impl FaultRecord {
    /// Records a truncation. Only the record's rank calls it, from one thread at a time.
    #[cold]
    pub fn write(&self, fault: Truncation) {
        let Truncation { source, tag, message, buffer } = fault;
        seqlock::write(&self.sequence, &self.words, [pack(source, tag), message, buffer]);
    }

    /// Returns the last truncation, or `None` if there was none or it is being written.
    #[must_use]
    pub fn read(&self) -> Option<Truncation> {
        let [from, message, buffer] = seqlock::read(&self.sequence, &self.words)?;
        let (source, tag) = unpack(from);
        (message > buffer).then_some(Truncation { source, tag, message, buffer })
    }
}
