//! RTRs that this rank sent or received.

use super::network::There;
use crate::lmt::Rtr;
use crate::wire::Turn;

/// The fates of RTRs, of all envelopes together ([`super::Engine::rtrs`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rtrs {
    /// RTRs that this rank sent.
    pub sent: u64,
    /// Sent RTRs that were retracted: the receive was cancelled, or stood behind a cancelled
    /// receive.
    pub retracted: u64,
    /// Sent RTRs of receives that met a message which did not use them: it had left before, or was
    /// not large.
    pub missed: u64,
    /// RTRs that came to this rank.
    pub heard: u64,
    /// Messages of this rank that used an RTR.
    pub used: u64,
    /// Number of times this rank sent stop-RTR because too few RTRs were used.
    pub stopped: u64,
}

/// The RTR of a posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostedRtr {
    pub(super) turn: Turn,
    pub(super) peer: u32,
    /// Its number among the receivers. For a peer on another node, its number among the invited.
    pub(super) number: u32,
}

/// The place where a receive wants its message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// On this node.
    Here(Rtr),
    /// On another node.
    There(There),
}
