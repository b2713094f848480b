//! Probes.

/// The effect of a probe on the message that it finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// The message stays in the queue.
    Peek,
    /// The message leaves the queue, for a later receive with the same context.
    Claim,
    /// The message is dropped.
    Discard,
}
