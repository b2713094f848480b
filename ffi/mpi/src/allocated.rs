//! The pieces of the node's segment that the program has from `MPI_Alloc_mem`.

use core::cell::RefCell;
use std::collections::HashMap;

use strait::{SharedMemory, World};

use super::host::Pointer;

/// The pieces, by their addresses.
#[derive(Default)]
pub(crate) struct AllocatedMemory {
    pieces: RefCell<HashMap<usize, SharedMemory<u8>>>,
}

impl AllocatedMemory {
    /// Returns the address of a piece of so many bytes, if the segment has room.
    pub(crate) fn take(&self, world: &World, bytes: usize) -> Option<Pointer> {
        let mut piece = world.alloc::<u8>(bytes).ok()?;
        let start = piece.as_mut_ptr();
        self.pieces.borrow_mut().insert(start.addr(), piece);
        Some(start.cast())
    }

    /// Frees the piece at this address. Returns false if there is none.
    pub(crate) fn give_back(&self, start: Pointer) -> bool {
        self.pieces.borrow_mut().remove(&start.addr()).is_some()
    }
}

impl Drop for AllocatedMemory {
    fn drop(&mut self) {
        // A program that keeps memory may use it until it ends.
        self.pieces.get_mut().drain().for_each(|(_, piece)| core::mem::forget(piece));
    }
}
