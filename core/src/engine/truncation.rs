//! The record of a message that is longer than its receive.

use crate::layout::{Segment, Truncation};

/// Records a message that is longer than its receive.
#[cold]
pub(super) fn truncated(
    (segment, rank): (&Segment, u32),
    (source, tag): (u32, u32),
    message: usize,
    buffer: usize,
) {
    let (message, buffer) = (message as u64, buffer as u64);
    segment.rank_record(rank).faults.write(Truncation { source, tag, message, buffer });
}
