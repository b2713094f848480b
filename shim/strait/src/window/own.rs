//! The resources that a member gives to a window.

use core::any::Any;
use core::cell::RefCell;
use core::ptr::NonNull;

use strait_core::buffer::Part as Buffer;
use strait_core::hca::Address;
use strait_core::rma::WindowBlock;
use strait_platform::Rank;

use super::attachments::Attachments;
use super::internode::InternodeMemory;
use super::part_descriptor::PartDescriptor;
use crate::{Error, Group, SharedMemory, World};

/// The resources that a member gives to a window.
#[derive(Debug)]
pub(super) struct Own {
    /// Start of the member's part.
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
    /// The words of the member's block.
    pub(super) block_words: WindowBlock,
    /// Resources for the device, if the window spans nodes.
    pub(super) beyond: Option<InternodeMemory>,
    /// The memory in the segment that holds the words.
    pub(super) _block: SharedMemory<u8>,
    /// The attachments of the member, if the window is dynamic.
    pub(super) attachments: Option<RefCell<Attachments>>,
    /// Owner of the memory of the part, and of all parts in a shared window. `None`: the embedder
    /// keeps the memory.
    pub(super) _memory: Option<Box<dyn Any>>,
}

impl Own {
    /// Connects the lanes and starts the handler.
    pub(super) fn connect(
        &mut self,
        group: &Group<'_>,
        descriptors: &[PartDescriptor],
        ends: &[(Rank, Address)],
    ) -> Result<(), Error> {
        let part = Buffer { base: self.base, length: self.length };
        let Some(beyond) = &mut self.beyond else { return Ok(()) };
        let world = group.world();
        beyond.connect(world, ends)?;
        // SAFETY: the block stays allocated until `give_back`.
        unsafe { beyond.open_handler(world, group.place(), self.block_words, descriptors) }?;
        if self.attachments.is_none() {
            // SAFETY: only raw pointers reach the part, and it stays valid until `give_back`.
            unsafe { beyond.add_ground(world, 0, part) };
        }
        Ok(())
    }

    /// Releases the resources. No peer may reach them any more.
    pub(super) fn give_back(self, world: &World) {
        let Self { beyond, attachments, .. } = self;
        attachments.into_iter().for_each(|all| all.into_inner().give_back(world));
        beyond.into_iter().for_each(|beyond| beyond.give_back(world));
    }
}

/// The memory of a member's part, and its owner.
#[derive(Debug)]
pub(super) struct PartMemory {
    pub(super) base: NonNull<u8>,
    pub(super) length: usize,
    pub(super) keeper: Option<Box<dyn Any>>,
}
