//! The words of a lock, as one member reaches them.

use strait_core::hca::Remote;
use strait_core::lock::{LockWord, McsWord, Mode, Op, RemoteWord, Words};
use strait_core::rma::{Block, Change, Lane};

use super::Way;
use crate::Error;
use crate::network::JobDevice;
use crate::window::far::Far;
use crate::window::part::Part;
use crate::window::{Window, WindowError};

/// A word, by whoever changes it.
pub(super) enum Reached<'a, 'world> {
    /// The processor.
    Near(&'a LockWord),
    /// The device.
    Far(FarWord<'a, 'world>),
}

/// A word that the device reaches.
#[derive(Clone, Copy)]
pub(super) struct FarWord<'a, 'world> {
    pub(super) window: &'a Window<'world>,
    pub(super) far: &'a Far,
    pub(super) there: Remote,
}

impl FarWord<'_, '_> {
    /// Asks for an access. The number of the request; none for one that is not waited for.
    pub(super) fn post(&self, op: Op) -> Result<Option<u64>, Error> {
        let (window, far, there) = (self.window, self.far, self.there);
        if let Some(change) = change_of(op) {
            return window.ask(far, |lane, device| lane.change(device, change, there)).map(Some);
        }
        match op {
            Op::Write(word) => window.write_word(far, there, word).map(|()| None),
            _ => {
                let fetch = |lane: &mut Lane, device: &mut JobDevice| {
                    lane.fetch(device, size_of::<u64>(), there)
                };
                window.ask(far, fetch).map(Some)
            }
        }
    }

    /// What the request found, once it is done.
    pub(super) fn found(&self, number: u64) -> Result<u64, Error> {
        self.window.await_done(self.far, number)?;
        self.window.ask(self.far, |lane, _| Ok(Some(lane.found(number))))
    }

    /// The same, if it is done.
    pub(super) fn look(&self, number: u64) -> Result<Option<u64>, Error> {
        self.window.ask(self.far, |lane, _| {
            Ok(Some(if lane.is_done(number)? { Some(lane.found(number)) } else { None }))
        })
    }
}

impl RemoteWord for FarWord<'_, '_> {
    type Error = Error;

    fn perform(&self, op: Op) -> Result<u64, Error> {
        match self.post(op)? {
            Some(number) => self.found(number),
            None => Ok(0),
        }
    }
}

impl RemoteWord for Reached<'_, '_> {
    type Error = Error;

    fn perform(&self, op: Op) -> Result<u64, Error> {
        match self {
            Self::Near(word) => Ok(word.access(op)),
            Self::Far(word) => word.perform(op),
        }
    }
}

/// An atomic of the device that is this access. A queue that a device reaches asks for no swap.
pub(super) const fn change_of(op: Op) -> Option<Change> {
    match op {
        Op::CompareAndSwap { expected, desired } => Some(Change::Swap { expected, desired }),
        Op::FetchAdd(number) => Some(Change::Add(number)),
        Op::Swap(_) | Op::Read | Op::Write(_) => None,
    }
}

impl Window<'_> {
    /// A word of the queue at a target. What this member's own words say it reads itself.
    pub(super) fn queue_word(
        &self,
        target: u32,
        word: McsWord,
        op: Op,
    ) -> Result<Reached<'_, '_>, Error> {
        let members = self.parts.len() as u32;
        let lock = match self.passive.way {
            Way::Queue(Mode::Network) => Words::NETWORK,
            _ => Words::CPU,
        };
        let (owner, offset) = Words::mcs_offset(word, target, members, lock);
        let owner = owner.unwrap_or(target);
        let is_told = matches!(op, Op::Read | Op::Write(_));
        if owner == self.group.place() && is_told && !matches!(word, McsWord::Lock) {
            return Ok(Reached::Near(self.own_word(offset)));
        }
        match self.passive.way {
            Way::Queue(Mode::Network) => self.far_word(owner, offset),
            _ => self.lock_word(owner, offset),
        }
    }

    fn own_word(&self, offset: usize) -> &LockWord {
        self.words_at(&self.block, offset)
    }

    fn words_at(&self, block: &Block, offset: usize) -> &LockWord {
        let word: *const _ = block.locks().at(offset);
        // SAFETY: mapped as long as the window.
        unsafe { &*word }
    }

    /// A word of a member's, by the processor if it is on the node, by the device otherwise.
    pub(super) fn lock_word(&self, member: u32, offset: usize) -> Result<Reached<'_, '_>, Error> {
        match &self.part(member)?.block {
            Some(block) => Ok(Reached::Near(self.words_at(block, offset))),
            None => self.far_word(member, offset),
        }
    }

    /// A word of a member's, by the device.
    pub(super) fn far_word(&self, member: u32, offset: usize) -> Result<Reached<'_, '_>, Error> {
        let Part { far, rank, .. } = self.part(member)?;
        let far = far.as_ref().ok_or(WindowError::OtherNode { rank: *rank })?;
        let there = far.block.after(Block::locks_offset(self.parts.len() as u32) + offset);
        Ok(Reached::Far(FarWord { window: self, far, there }))
    }
}
