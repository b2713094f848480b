//! What one rank leaves for observers, beside its wait record.

use super::{DetailRecord, EventRing, FaultRecord};
use crate::golden;
use crate::sync::CacheLine;

/// The records of one rank for observers. The rank alone writes them, and no rank reads them. Its
/// [`super::PairCounters`] follow, one for each rank of the job.
///
/// | offset | size | field     |
/// |-------:|-----:|-----------|
/// |      0 |  448 | `details` |
/// |    448 |   64 | `faults`  |
/// |    512 | 8256 | `events`  |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RankRecord {
    /// Details of the rank's wait, and its unexpected messages.
    pub details: CacheLine<DetailRecord>,
    /// Its last message that was longer than its receive.
    pub faults: CacheLine<FaultRecord>,
    /// Its last events. All zero unless the rank records events.
    pub events: EventRing,
}

golden::structure!(RankRecord { details, faults, events });
