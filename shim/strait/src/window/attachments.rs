//! The memory that a member has attached to a dynamic window.

use core::any::Any;
use core::ptr::NonNull;

use strait_core::engine::Channel;
use strait_core::hca::Region;
use strait_core::rma::AttachmentTag;

use crate::World;

/// Memory of this member that is attached to a dynamic window: [`crate::Window::attach`].
///
/// Other members name it by a displacement: the address of its first byte, with a tag. The tag
/// tells this attachment from earlier and later ones at the same address. The displacement of byte
/// `n` is larger by `n`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Attached {
    pub(super) tag: AttachmentTag,
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
}

// SAFETY: the value is only a name. It gives no access to the memory without the window.
unsafe impl Send for Attached {}

impl Attached {
    /// Returns the displacement of the first byte, for all operations of all members.
    #[must_use]
    pub fn displacement(&self) -> usize {
        self.tag.displace(self.address() as u64) as usize
    }

    /// Returns the address of the first byte, as `MPI_Get_address` does. The address is a
    /// displacement, too: it names whatever is attached there when it is used.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.addr().get()
    }
}

/// The attachments of this member.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    /// The current attachments, in no order.
    pub(super) now: Vec<AttachedMemory>,
    /// Detached memory. Other members may still have been accessing it, so it is kept as long as
    /// the window.
    pub(super) before: Vec<Box<dyn Any>>,
}

#[derive(Debug)]
pub(super) struct AttachedMemory {
    pub(super) attached: Attached,
    pub(super) region: Option<Region>,
    pub(super) memory: Option<Box<dyn Any>>,
}

impl Attachments {
    /// Releases the registrations. No member may reach the memory any more.
    pub(super) fn give_back(self, world: &World) {
        for region in self.now.into_iter().filter_map(|kept| kept.region) {
            world.with_network(|network| network.release(region));
        }
    }
}
