//! Access to the words of a lock.

use strait_core::hca::RemoteAddress;
use strait_core::lock::{LockMode, LockWord, LockWords, McsWord, RemoteWord, WordAccess};
use strait_core::rma::{Lane, WindowBlock};

use super::state::LockMethod;
use crate::network::resources::JobDevice;
use crate::progress::windows::lock_manager::change_of;
use crate::window::Window;
use crate::window::part::{RemoteMember, WindowPart};
use crate::{Error, WindowError};

/// A word of a lock, and the means of its access.
pub(super) enum Reached<'a, 'world> {
    /// A word that the processor accesses.
    Near(&'a LockWord),
    /// A word that the device accesses.
    Far(FarWord<'a, 'world>),
}

/// A word that the device reaches.
#[derive(Clone, Copy)]
pub(super) struct FarWord<'a, 'world> {
    pub(super) window: &'a Window<'world>,
    pub(super) remote: &'a RemoteMember,
    pub(super) there: RemoteAddress,
}

impl FarWord<'_, '_> {
    /// Posts an access, and returns the number of the request; `None` for an access that needs no
    /// wait.
    pub(super) fn post(&self, op: WordAccess) -> Result<Option<u64>, Error> {
        let (window, remote, there) = (self.window, self.remote, self.there);
        if let Some(change) = change_of(op) {
            return window.ask(remote, |lane, device| lane.change(device, change, there)).map(Some);
        }
        match op {
            WordAccess::Write(word) => window.write_word(remote, there, word).map(|()| None),
            _ => {
                let fetch = |lane: &mut Lane, device: &mut JobDevice| {
                    lane.fetch(device, size_of::<u64>(), there)
                };
                window.ask(remote, fetch).map(Some)
            }
        }
    }

    /// Waits for a request, and returns the value that it found.
    pub(super) fn found(&self, number: u64) -> Result<u64, Error> {
        self.window.await_done(self.remote, number)?;
        self.window.ask(self.remote, |lane, _| Ok(Some(lane.found(number))))
    }

    /// Returns the value that a request found, if it is complete.
    pub(super) fn look(&self, number: u64) -> Result<Option<u64>, Error> {
        self.window.ask(self.remote, |lane, _| {
            Ok(Some(if lane.is_done(number)? { Some(lane.found(number)) } else { None }))
        })
    }
}

impl RemoteWord for FarWord<'_, '_> {
    type Error = Error;

    fn perform(&self, op: WordAccess) -> Result<u64, Error> {
        match self.post(op)? {
            Some(number) => self.found(number),
            None => Ok(0),
        }
    }
}

impl RemoteWord for Reached<'_, '_> {
    type Error = Error;

    fn perform(&self, op: WordAccess) -> Result<u64, Error> {
        match self {
            Self::Near(word) => Ok(word.access(op)),
            Self::Far(word) => word.perform(op),
        }
    }
}

impl Window<'_> {
    /// Returns a word of the queue at a target. This member reads and writes its own words by the
    /// processor.
    pub(super) fn queue_word(
        &self,
        target: u32,
        word: McsWord,
        op: WordAccess,
    ) -> Result<Reached<'_, '_>, Error> {
        let members = self.parts.len() as u32;
        let lock = match self.passive.way {
            LockMethod::Queue(LockMode::Network) => LockWords::NETWORK,
            _ => LockWords::CPU,
        };
        let (owner, offset) = LockWords::mcs_offset(word, target, members, lock);
        let owner = owner.unwrap_or(target);
        let is_told = matches!(op, WordAccess::Read | WordAccess::Write(_));
        if owner == self.group.place() && is_told && !matches!(word, McsWord::Lock) {
            return Ok(Reached::Near(self.own_word(offset)));
        }
        match self.passive.way {
            LockMethod::Queue(LockMode::Network) => self.remote_word(owner, offset),
            _ => self.lock_word(owner, offset),
        }
    }

    fn own_word(&self, offset: usize) -> &LockWord {
        self.words_at(&self.block, offset)
    }

    fn words_at(&self, block: &WindowBlock, offset: usize) -> &LockWord {
        let word: *const _ = block.locks().at(offset);
        // SAFETY: the word is mapped as long as the window.
        unsafe { &*word }
    }

    /// Returns a word of a member: for the processor on the same node, otherwise for the device.
    pub(super) fn lock_word(&self, member: u32, offset: usize) -> Result<Reached<'_, '_>, Error> {
        match &self.part(member)?.block {
            Some(block) => Ok(Reached::Near(self.words_at(block, offset))),
            None => self.remote_word(member, offset),
        }
    }

    /// Returns a word of a member, for access by the device.
    pub(super) fn remote_word(&self, member: u32, offset: usize) -> Result<Reached<'_, '_>, Error> {
        let WindowPart { remote, rank, .. } = self.part(member)?;
        let remote = remote.as_ref().ok_or(WindowError::OtherNode { rank: *rank })?;
        let there = remote.block.after(WindowBlock::locks_offset(self.parts.len() as u32) + offset);
        Ok(Reached::Far(FarWord { window: self, remote, there }))
    }
}
