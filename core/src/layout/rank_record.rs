//! What one rank leaves for observers, beside its wait record.

use super::{CommunicatorRecord, DetailRecord, EventRing, FaultRecord};
use crate::golden;
use crate::sync::CacheLine;

/// The records of one rank for observers. The rank alone writes them, and no rank reads them. Its
/// [`super::PairCounters`] follow, one for each rank of the job.
///
/// | offset | size | field     |
/// |-------:|-----:|-----------|
/// |      0 |  512 | `details` |
/// |    512 |   64 | `faults`  |
/// |    576 | 8256 | `events`  |
/// |   8832 |  896 | `communicators` |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RankRecord {
    /// Details of the rank's wait, and its unexpected messages.
    pub details: CacheLine<DetailRecord>,
    /// Its last message that was longer than its receive.
    pub faults: CacheLine<FaultRecord>,
    /// Its last events. All zero unless the rank records events.
    pub events: EventRing,
    /// The communicators of the interface above Strait, if that tells them.
    pub communicators: CacheLine<CommunicatorRecord>,
}

golden::structure!(RankRecord { details, faults, events, communicators });
