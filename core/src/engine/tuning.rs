//! Numbers that a user may tune.

use crate::lmt::{RemoteTransfer, Transfer};
use crate::rndv::Rendezvous;
use crate::sync::has_fast_kernel_copies;
use crate::wire::FASTBOX_LENGTH_MAX;

/// Numbers that a user may tune.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tuning {
    /// Longest message that goes through a fastbox, in bytes. A value above [`FASTBOX_LENGTH_MAX`]
    /// counts as that. Zero shuts the fastboxes.
    pub fastbox_max: usize,
    /// Longest message that is copied through fastbox and cells, in bytes. A longer one stays in
    /// its buffer until its receive is posted.
    pub eager_max: usize,
    /// Longest message that goes through the stream to another node, in bytes. A longer one goes
    /// beside it.
    pub stream_max: usize,
    /// Longest message that goes in parcels while enough of them are here, in bytes. Messages
    /// longer than `eager_max` go in parcels only under [`Transfer::Auto`]. Zero disables parcels.
    /// The default is 512 KiB, and 64 KiB where [`has_fast_kernel_copies`].
    pub parcel_max: usize,
    /// Private memory that one peer's unexpected messages may take, in bytes. Beyond it the peer
    /// keeps its messages until their receives are posted. Messages that it had handed over by then
    /// still arrive.
    pub unexpected_max: usize,
    /// Whether a receive that finds its message may go round the queue of posted receives
    /// (`[Nemesis07]` §3.3). Without it, each receive is posted and then matched. Embedders that do
    /// their own matching have no use for it.
    pub bypass: bool,
    /// The transfer of messages longer than `eager_max` on the node.
    pub transfer: Transfer,
    /// Whether [`Transfer::Auto`] begins with one copy by the kernel between cores without a common
    /// cache, instead of the copy ring, until both are measured. The default is
    /// [`has_fast_kernel_copies`].
    pub kernel_copies_first: bool,
    /// The way of messages longer than `stream_max` between nodes that are announced. A message
    /// that uses an RTR is always written.
    pub remote_transfer: RemoteTransfer,
    /// The negotiation of those messages, and of messages longer than `stream_max` between nodes.
    /// Contexts may have a choice of their own ([`super::Engine::choose_rendezvous`]).
    pub rendezvous: Rendezvous,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            fastbox_max: 2048,
            eager_max: 12 * 1024,
            stream_max: 16 * 1024,
            parcel_max: if has_fast_kernel_copies() { 64 * 1024 } else { 512 * 1024 },
            unexpected_max: 4 << 20,
            bypass: true,
            transfer: Transfer::Auto,
            kernel_copies_first: has_fast_kernel_copies(),
            remote_transfer: RemoteTransfer::Auto,
            rendezvous: Rendezvous::default(),
        }
    }
}

/// Longest message that goes by lines although parcels are here, in bytes.
pub const LINES_FIRST: usize = 1024;

impl Tuning {
    /// Returns whether messages of `length` bytes are announced to any peer, on this node or
    /// another.
    pub(super) const fn may_announce(&self, length: usize) -> bool {
        length > self.eager_max || length > self.stream_max
    }

    /// Returns whether messages of `length` bytes go by lines although parcels are here.
    #[inline(always)]
    pub(super) const fn by_lines_first(&self, length: usize) -> bool {
        length <= LINES_FIRST && length <= self.fastbox_max
    }

    /// Returns whether messages of `length` bytes go in parcels while there are enough. A transfer
    /// that the user names for large messages takes precedence.
    #[inline(always)]
    #[must_use]
    pub const fn suits_parcels(&self, length: usize) -> bool {
        let announced = length > self.eager_max && !matches!(self.transfer, Transfer::Auto);
        // The packets that name parcels go by lines.
        self.fastbox_max > 0
            && !self.by_lines_first(length)
            && !announced
            && length <= self.parcel_max
            && length <= self.unexpected_max
    }

    pub(super) fn within_limits(self) -> Self {
        Self { fastbox_max: self.fastbox_max.min(FASTBOX_LENGTH_MAX), ..self }
    }
}
