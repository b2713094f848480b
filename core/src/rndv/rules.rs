//! The rules by name, so that a test can disable each one alone and show that it matters.

use super::adapt;

/// Maximum number of RTRs of one envelope that are in flight or kept.
pub const RTRS: u32 = 8;

/// Maximum number of envelopes that one rank speculates on at a time, in each direction.
pub const RECORDS: usize = 256;

/// The rules that [`super::RtrSender`] and [`super::RtrReceiver`] keep. Production uses [`All`]; a
/// model disables one to show what breaks.
pub trait Rules {
    /// In-order assignment, and crossing: an RTR is for the message of its turn. Without it, the
    /// RTR serves whichever message is next.
    const IN_ORDER: bool = true;
    /// Acknowledgement: the receiver counts an RTR-ACK. Without it, the next RTRs ask for turns of
    /// the past.
    const ACKNOWLEDGED: bool = true;
    /// No RTR is sent past a receive without one.
    const NO_RTR_PAST_NONE: bool = true;
    /// No RTR is sent past a receive with a wildcard, which never has one. It is the preceding
    /// rule, for receives in different bins.
    const NO_RTR_PAST_WILDCARD: bool = true;
    /// Eager-flag: a message without a turn voids the RTRs that were sent before it arrived.
    const EAGER_FLAG: bool = true;
    /// Number of turns that a message without a turn skips: as many as the receiver may have asked
    /// for. A smaller number leaves some RTRs valid.
    const SKIPPED: u32 = Self::RTRS;
    /// Stop-RTR: the receiver obeys it.
    const STOP_RTR: bool = true;
    /// Resume-RTR: the sender says it. Without it, an envelope never speculates again after a
    /// message without a turn.
    const RESUME_RTR: bool = true;
    /// Misprediction: the receiver obeys it.
    const MISPREDICTION: bool = true;
    /// Bounded accumulation: maximum number of RTRs of an envelope, at most [`RTRS`] and a power of
    /// two.
    const RTRS: u32 = RTRS;
    /// Bounded accumulation: the receiver observes the maximum.
    const BOUNDED: bool = true;
    /// Number of envelopes in a table, a power of two.
    const RECORDS: usize = RECORDS;
    /// A record that is created after other messages of its envelope counts from beyond all turns
    /// that the receiver may have asked for: those of evicted records, and the first turns of a
    /// receiver that opened the envelope ahead. Without it, a record counts from the first turn.
    const COUNTS_ON: bool = true;
    /// Retraction: it voids the RTRs of its turn and of later turns.
    const RETRACTION: bool = true;
    /// Adaptation: the sender says stop-RTR if too few RTRs are used.
    const ADAPTATION: bool = true;
    /// Adaptation: the threshold, in percent.
    const USAGE_MIN: u32 = adapt::USAGE_MIN;
    /// Adaptation: minimum number of RTRs in a decision.
    const SAMPLES: u32 = adapt::SAMPLES;
    /// Adaptation: number of messages in the first pause.
    const PAUSE_MIN: u32 = adapt::PAUSE_MIN;
    /// Adaptation: maximum number of messages in a pause.
    const PAUSE_MAX: u32 = adapt::PAUSE_MAX;
}

/// All rules.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct All;

impl Rules for All {}
