//! What a member has started at a part of a window.

use strait_core::hca::Region;

/// What this member has started at one part and not completed yet.
#[derive(Debug, Default)]
pub(super) struct StartedTransfers {
    /// The last request that accesses memory of the caller; 0 when there is none.
    pub(super) last: u64,
    /// The registrations, each with the last request that uses it, in order.
    pub(super) regions: Vec<(u64, Region)>,
}
