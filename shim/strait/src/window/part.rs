//! The parts of a window, as one member reaches them.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::ptr::NonNull;

use strait_core::hca::RemoteAddress;
use strait_core::rma::{AmSender, WindowBlock};
use strait_platform::Rank;

use super::gathered::GatheredAccumulates;
use super::started_transfers::StartedTransfers;
use crate::network::LaneId;

/// The part of one member, with the state of this member's access to it.
#[derive(Debug)]
pub(super) struct WindowPart {
    pub(super) rank: Rank,
    /// Access to the part. In a dynamic window, to the attachment that was looked up last, or to
    /// several.
    pub(super) reach: Cell<PartAccess>,
    /// The attachments that were looked up last, if they are several.
    pub(super) run: RefCell<Vec<RunPiece>>,
    /// Length in bytes.
    pub(super) length: usize,
    /// True when the member attaches memory, so that each operation looks it up.
    pub(super) is_dynamic: bool,
    /// Bytes of one displacement.
    pub(super) unit: usize,
    /// The member's block, if it is mapped here.
    pub(super) block: Option<WindowBlock>,
    /// Addresses for the device, in a window that spans nodes.
    pub(super) remote: Option<RemoteMember>,
    /// The active messages that this member has sent to the part.
    pub(super) am_sender: Cell<AmSender>,
    /// True when an operation may complete after its call: by the device, or by messages.
    pub(super) completes_later: bool,
    /// The stripes in which this member may change numbers by atomic instructions without the lock,
    /// while they are not revoked ([`strait_core::rma::StripeBias`]).
    pub(super) biased: Cell<u64>,
    /// Accumulates that wait for each other.
    pub(super) gathered: RefCell<GatheredAccumulates>,
    /// Transfers by the device that continue after their call.
    pub(super) started: RefCell<StartedTransfers>,
    /// True after the start of an access epoch until its post has been seen or its lock is held.
    pub(super) awaited: Cell<bool>,
}

/// The way in which a part is reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartAccess {
    /// Loads and stores: the part lies in the segment, or is this rank's own.
    Mapped(NonNull<u8>),
    /// The kernel, at an address of the owner's.
    Process(u64),
    /// The device, at an address of the owner's, which is on another node.
    Device(u64),
    /// Messages to the owner, in that place of the group. `address` is known only up to a multiple
    /// of the page size.
    Messages { place: u32, address: u64 },
    /// Several attachments of a dynamic window without gaps between them, from this address on.
    /// [`WindowPart::run`] lists them.
    Attachments(u64),
}

impl PartAccess {
    /// Returns the access to the same memory, `bytes` further on.
    pub(super) fn after(self, bytes: usize) -> Self {
        match self {
            // SAFETY: the offset lies in the memory, or one past its end.
            Self::Mapped(base) => Self::Mapped(unsafe { base.add(bytes) }),
            Self::Process(address) => Self::Process(address.wrapping_add(bytes as u64)),
            Self::Device(address) => Self::Device(address.wrapping_add(bytes as u64)),
            Self::Messages { place, address } => {
                Self::Messages { place, address: address.wrapping_add(bytes as u64) }
            }
            Self::Attachments(address) => Self::Attachments(address.wrapping_add(bytes as u64)),
        }
    }
}

impl WindowPart {
    /// Returns whether all operations on the part, and all signals to its owner, use messages.
    pub(super) const fn goes_by_messages(&self) -> bool {
        matches!(self.reach.get(), PartAccess::Messages { .. })
    }

    /// Returns the byte offset of an operation that covers `extent` bytes, if they lie in the part.
    #[inline(always)]
    pub(super) fn offset_of(&self, displacement: usize, extent: usize) -> Option<usize> {
        let offset = displacement.checked_mul(self.unit)?;
        (offset.checked_add(extent)? <= self.length).then_some(offset)
    }
}

/// Addresses of a member's memory for the device.
#[derive(Debug)]
pub(super) struct RemoteMember {
    pub(super) rank: Rank,
    pub(super) place: u32,
    pub(super) lane: LaneId,
    /// Address of the part. In a dynamic window, that of the attachment that was looked up last.
    pub(super) part: Cell<RemoteAddress>,
    /// Name of that memory in active messages.
    pub(super) within: Cell<u64>,
    pub(super) block: RemoteAddress,
    /// Address of this member's operand buffers at the other member.
    pub(super) operand_buffers: RemoteAddress,
}

/// How this rank accesses an attachment of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttachmentAccess {
    pub(super) reach: PartAccess,
    /// Address for the device.
    pub(super) remote: RemoteAddress,
    /// Name of the memory in active messages.
    pub(super) within: u64,
}

impl AttachmentAccess {
    /// Makes the part stand for this attachment.
    pub(super) fn enter(self, part: &WindowPart) {
        part.reach.set(self.reach);
        if let Some(remote) = &part.remote {
            remote.part.set(self.remote);
            remote.within.set(self.within);
        }
    }
}

/// The piece of an access that lies in one attachment.
#[derive(Debug)]
pub(super) struct RunPiece {
    pub(super) access: AttachmentAccess,
    /// The bytes of the access that lie in the attachment.
    pub(super) bytes: Range<usize>,
    /// Offset of the first of these bytes in the attachment.
    pub(super) offset: usize,
}

/// A piece of an operation: the origin's memory, the offset in the part in bytes, and the length in
/// bytes.
pub(super) type Stretch = (NonNull<u8>, usize, usize);
