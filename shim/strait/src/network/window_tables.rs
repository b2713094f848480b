//! What a network keeps for windows and groups: lanes, transfers, handlers and mailboxes. Each has
//! a name until it is closed.

use core::ptr::NonNull;

use strait_core::buffer::Part;
use strait_core::engine::Owner;
use strait_core::hca::Region;
use strait_core::rma::{self, AmHandler, Lane};
use strait_platform::Rank;
use strait_platform::segment::Mapping;

/// The name of a lane, until it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LaneId(pub(super) usize);

/// A lane, and the memory that it was lent with its first request.
#[derive(Debug)]
pub(super) struct OpenLane {
    pub(super) lane: Lane,
    pub(super) slots: Option<RegisteredMemory>,
}

/// Memory for the device, which is registered as long as it exists.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    pub(super) region: Region,
    pub(super) memory: Mapping,
}

impl RegisteredMemory {
    /// Returns the start of the memory, and its local key.
    pub(crate) const fn start(&self) -> (NonNull<u8>, u32) {
        (self.memory.base(), self.region.local_key)
    }
}

/// The name of this rank's mailboxes with one peer, until they are closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MailboxId(pub(super) usize);

/// A transfer between user memory and a member's part. The device may still be working on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTransfer {
    /// The scope that keeps the memory borrowed.
    pub(crate) owner: Owner,
    /// The member.
    pub(crate) rank: Rank,
    pub(crate) lane: LaneId,
    /// The last request of the transfer.
    pub(crate) last: u64,
    /// The registration of the user memory.
    pub(crate) region: Region,
    /// Length in bytes.
    pub(crate) bytes: usize,
}

/// The name of a transfer, until it has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TransferId(pub(super) usize);

/// An origin in the table of a handler.
pub(crate) type LaneOrigin = rma::AmOrigin<LaneId>;

/// The name of a handler, until it is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HandlerId(pub(super) usize);

/// A handler, and the memory regions on which its active messages operate, by name.
#[derive(Debug)]
pub(super) struct OpenHandler {
    pub(super) handler: AmHandler<LaneId, Vec<LaneOrigin>>,
    pub(super) grounds: Vec<(u64, Part)>,
}

/// The handlers, by name, with counts of the receives for the messages that wake them.
#[derive(Debug, Default)]
pub(super) struct AmHandlers {
    pub(super) all: NameTable<OpenHandler>,
    /// Number of receives that have to be posted.
    pub(super) owed: usize,
    /// Number of receives that are still posted for closed handlers.
    pub(super) spare: usize,
}

/// Entries by name. A name is used again after its entry is taken out.
#[derive(Debug)]
pub(super) struct NameTable<T>(Vec<Option<T>>);

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> NameTable<T> {
    /// Adds an entry and returns its name.
    pub(super) fn add(&mut self, entry: T) -> usize {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        self.0.resize_with(self.0.len().max(free + 1), || None);
        self.0[free] = Some(entry);
        free
    }

    /// Returns the entry with this name, if there is one.
    #[inline]
    pub(super) fn get_mut(&mut self, name: usize) -> Option<&mut T> {
        self.0.get_mut(name)?.as_mut()
    }

    /// Takes out the entry with this name, if there is one.
    pub(super) fn take(&mut self, name: usize) -> Option<T> {
        self.0.get_mut(name)?.take()
    }

    /// Puts an entry back under the name under which it was taken out just now.
    pub(super) fn put_back(&mut self, name: usize, entry: T) {
        self.0[name] = Some(entry);
    }

    /// Returns a number that no name reaches.
    pub(super) const fn end(&self) -> usize {
        self.0.len()
    }

    /// Returns the entries with their names.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.0.iter_mut().enumerate().filter_map(|(name, entry)| Some((name, entry.as_mut()?)))
    }

    /// Returns the name of an entry for which `is_it` holds, if there is one.
    pub(super) fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        self.0.iter().position(|entry| entry.as_ref().is_some_and(&is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_used_again_when_its_entry_is_gone() {
        let mut table = NameTable::default();
        let [first, second] = ['a', 'b'].map(|entry| table.add(entry));
        assert_eq!(table.take(first), Some('a'));
        assert_eq!((table.take(first), table.get_mut(second)), (None, Some(&mut 'b')));
        assert_eq!((table.add('c'), table.find(|it| *it == 'c')), (first, Some(first)));
        assert_eq!(table.take(table.end()), None);
    }
}
