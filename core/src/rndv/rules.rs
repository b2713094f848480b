//! The rules by name, so that each can be taken away alone and shown to matter.

use super::adapt;

/// Most RTRs of one envelope that are on their way or kept.
pub const RTRS: u32 = 8;

/// Envelopes that one rank speculates on at a time, in each direction.
pub const RECORDS: usize = 256;

/// Which rules [`super::Sender`] and [`super::Receiver`] keep: [`All`], but in a model that shows what breaks without one.
pub trait Rules {
    /// In-order assignment, and crossing: an RTR is for the message of its turn. Without it, for whichever is next.
    const IN_ORDER: bool = true;
    /// Acknowledgement: an RTR-ACK is counted by the receiver. Without it the next RTRs ask for turns of the past.
    const ACKNOWLEDGED: bool = true;
    /// No RTR past a receive without one.
    const NO_RTR_PAST_NONE: bool = true;
    /// No RTR past a receive with a wildcard, which never has one: the same rule, where the bins differ.
    const NO_RTR_PAST_WILDCARD: bool = true;
    /// Eager-flag: a message without a turn voids the RTRs that were sent before it arrived.
    const EAGER_FLAG: bool = true;
    /// Turns that a message without a turn skips: as many as the receiver may have asked for. Fewer leave some valid.
    const SKIPPED: u32 = Self::RTRS;
    /// Stop-RTR: the receiver heeds it.
    const STOP_RTR: bool = true;
    /// Resume-RTR: the sender says it. Without it, what once went without a turn speculates no more.
    const RESUME_RTR: bool = true;
    /// Misprediction: the receiver heeds it.
    const MISPREDICTION: bool = true;
    /// Bounded accumulation: most RTRs of an envelope, at most [`RTRS`] and a power of two.
    const RTRS: u32 = RTRS;
    /// Whether the receiver keeps to that.
    const BOUNDED: bool = true;
    /// Envelopes in a table, a power of two.
    const RECORDS: usize = RECORDS;
    /// A record that is made anew counts on from beyond all that went. Without it, from the first turn.
    const COUNTS_ON: bool = true;
    /// Retraction: it voids the RTRs of its turn and after.
    const RETRACTION: bool = true;
    /// Adaptation: the sender says stop-RTR where too few RTRs are used.
    const ADAPTATION: bool = true;
    /// Adaptation: the threshold, percent.
    const USAGE_MIN: u32 = adapt::USAGE_MIN;
    /// Adaptation: fewest RTRs that are judged.
    const SAMPLES: u32 = adapt::SAMPLES;
    /// Adaptation: messages of the first pause, and of the longest.
    const PAUSE_MIN: u32 = adapt::PAUSE_MIN;
    /// See [`Rules::PAUSE_MIN`].
    const PAUSE_MAX: u32 = adapt::PAUSE_MAX;
}

/// All rules.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct All;

impl Rules for All {}
