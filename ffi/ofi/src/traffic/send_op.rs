//! Sends, as the user asks for them.

use core::ffi::c_void;
use core::ptr;

use strait_core::buffer::Part;

use super::class::MessageClass;
use super::promises::ProviderEnvelope;
use crate::abi::flag;
use crate::wire::{HAS_DATA, IOV_MAX, ProviderHead};

/// The kind of a message, and the way its send completes. The destination and the buffer are
/// separate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOp {
    pub(crate) lane: MessageClass,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
    /// The buffer may be reused when the call returns.
    pub(crate) inject: bool,
    /// The send completes when the receiver has taken the message.
    pub(crate) delivery: bool,
    /// In addition, the send does not complete before a receive has matched the message.
    pub(crate) matched: bool,
}

/// A message in parts, which Strait reads while the send is pending.
#[derive(Debug)]
pub(crate) struct OutgoingParts {
    pub(super) head: [u8; ProviderHead::BYTES],
    pub(super) parts: [Part; IOV_MAX + 1],
}

impl SendOp {
    /// Makes a send that releases its buffer at once, and reports no completion.
    #[inline(always)]
    pub(crate) const fn injected(lane: MessageClass) -> Self {
        Self {
            lane,
            tag: 0,
            data: None,
            context: ptr::null_mut(),
            quiet: true,
            inject: true,
            delivery: false,
            matched: false,
        }
    }

    /// Makes a send with these flags of libfabric.
    #[inline(always)]
    pub(crate) const fn flagged(lane: MessageClass, flags: u64, quiet: bool) -> Self {
        Self {
            quiet,
            inject: flags & flag::INJECT != 0,
            delivery: flags & (flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE) != 0,
            matched: flags & flag::MATCH_COMPLETE != 0,
            ..Self::injected(lane)
        }
    }

    #[inline(always)]
    pub(super) fn head(&self) -> ProviderHead {
        ProviderHead { tag: self.tag, data: self.data.unwrap_or(0) }
    }

    /// Returns the envelope of the message to `rank`.
    #[inline(always)]
    pub(super) const fn envelope(&self, rank: u32) -> ProviderEnvelope {
        ProviderEnvelope { peer: rank, lane: self.lane, tag: self.tag }
    }

    #[inline(always)]
    pub(super) fn flags(&self) -> u32 {
        if self.data.is_some() { HAS_DATA } else { 0 }
    }
}
