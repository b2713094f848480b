//! All lock managers of a rank, and the messages between them and those of other ranks.
//!
//! The messages are those of the engine, in a context and with a tag of their own. The rank probes
//! for them and posts no receive, so other messages keep their usual paths.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::buffer::{Cursor, Part as Buffer};
use strait_core::engine::{ProgressError, Received, RequestId, Sent, StartError};
use strait_core::layout::Corrupt;
use strait_core::matching::{ANY_SOURCE, Pattern};
use strait_core::wire::Key;
use strait_platform::Rank;

use super::ServedWindows;
use super::lock_manager::WindowLockManager;
use super::lock_message::{LockMessage, PackedLockMessage};
use super::started::started;
use crate::memory::ShmEngine;
use crate::network::resources::JobNetwork;
use crate::reserved::{INTERNAL as CONTEXT, WINDOW_OWNER as OWNER, WINDOW_TAG as TAG};

/// A message that has arrived, and its source.
type ReceivedWords = (Rank, Result<PackedLockMessage, Corrupt>);

/// A message that the engine has not completed.
type PendingSend = (RequestId, Box<PackedLockMessage>);

/// The lock managers of a rank's windows.
#[derive(Default)]
pub(crate) struct WindowLockManagers {
    opened: u64,
    managers: Vec<WindowLockManager>,
    said: VecDeque<(Rank, LockMessage)>,
    leaving: Vec<PendingSend>,
    arriving: Option<PendingSend>,
}

impl WindowLockManagers {
    /// Returns the number of the next lock manager. No other lock manager ever has it, so messages
    /// to a closed one reach no other.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    pub(crate) fn open(&mut self, lock_manager: WindowLockManager) {
        self.managers.push(lock_manager);
    }

    pub(crate) fn close(&mut self, number: u64) {
        self.managers.retain(|lock_manager| lock_manager.number != number);
    }

    pub(crate) fn manager(&mut self, number: u64) -> Option<&mut WindowLockManager> {
        self.managers.iter_mut().find(|lock_manager| lock_manager.number == number)
    }

    /// Returns whether there is anything to serve.
    #[inline(always)]
    pub(crate) const fn is_open(&self) -> bool {
        !self.managers.is_empty() || !self.leaving.is_empty()
    }

    pub(crate) fn say(&mut self, to: Rank, message: LockMessage) {
        self.said.push_back((to, message));
    }

    /// Releases the locks and requests of a rank that has died or left.
    pub(crate) fn revoke(&mut self, rank: Rank) {
        self.managers.iter_mut().for_each(|lock_manager| lock_manager.revoke(rank));
    }

    /// Takes in the messages to all lock managers, lets those that are `served` grant what they
    /// can, and sends the answers. Returns whether anything was done.
    pub(crate) fn serve(
        &mut self,
        engine: &mut ShmEngine,
        mut network: Option<&mut JobNetwork>,
        me: Rank,
        served: ServedWindows,
    ) -> Result<bool, ProgressError> {
        let (mut moved, mut outcome) = (false, Ok(()));
        while let Some((source, packed)) = self.hear(engine)? {
            moved = true;
            let heard =
                packed.and_then(LockMessage::parse).and_then(|said| self.take_in(source, said));
            if let Err(corrupt) = heard {
                // The member must not wait for its answer for ever.
                self.said.extend(
                    self.managers.iter().filter_map(|lock_manager| lock_manager.refusal(source)),
                );
                outcome = Err(corrupt.into());
            }
        }
        self.work(engine, network.as_deref_mut(), served);
        self.leaving.retain(|(id, _)| engine.test(*id).is_none());
        while let Some((to, message)) = self.said.pop_front() {
            moved = true;
            if to == me {
                self.take_in(me, message)?;
                self.work(engine, network.as_deref_mut(), served);
            } else if !self.send(engine, to, message)? {
                self.said.push_front((to, message));
                break;
            }
        }
        outcome.map(|()| moved)
    }

    /// Lets the lock managers that are `served` grant the locks that they can.
    fn work(
        &mut self,
        engine: &ShmEngine,
        mut network: Option<&mut JobNetwork>,
        served: ServedWindows,
    ) {
        for lock_manager in &mut self.managers {
            if served.has_lock_manager(lock_manager.number) {
                lock_manager.work(engine, network.as_deref_mut(), &mut self.said);
            }
        }
    }

    /// Takes in a message. A message to a closed lock manager is dropped.
    fn take_in(&mut self, source: Rank, message: LockMessage) -> Result<(), Corrupt> {
        if !(1..=self.opened).contains(&message.manager) {
            return Err(Corrupt::Lock { found: message.manager as u32 });
        }
        self.manager(message.manager)
            .map_or(Ok(()), |lock_manager| lock_manager.take_in(source, message))
    }

    /// Returns the next message and its source. A message of another length than
    /// [`PackedLockMessage`] is corrupt.
    fn hear(&mut self, engine: &mut ShmEngine) -> Result<Option<ReceivedWords>, ProgressError> {
        loop {
            let (outcome, packed) = match self.arriving.take() {
                Some((id, packed)) => match engine.test(id) {
                    Some(outcome) => (outcome, packed),
                    None => {
                        self.arriving = Some((id, packed));
                        return Ok(None);
                    }
                },
                None => {
                    let pattern = Pattern { context: CONTEXT, source: ANY_SOURCE, tag: TAG };
                    if !matches!(engine.iprobe(pattern), Ok(Some(_))) {
                        return Ok(None);
                    }
                    let mut packed = Box::new(PackedLockMessage::default());
                    // SAFETY: the box stays allocated until the receive has ended: below, or when
                    // these are dropped.
                    let received = unsafe {
                        engine.irecv(pattern, Cursor::contiguous(buffer(&mut packed)), OWNER)
                    };
                    match received {
                        Ok(Received::Done(outcome)) => (outcome, packed),
                        Ok(Received::Pending(id)) => {
                            self.arriving = Some((id, packed));
                            continue;
                        }
                        Err(error) => return started(error).map(|()| None),
                    }
                }
            };
            // The message of a rank that died during the transfer is lost.
            let Ok(status) = outcome else { continue };
            let is_whole = status.bytes == size_of::<PackedLockMessage>();
            let corrupt = Corrupt::Lock { found: status.bytes as u32 };
            return Ok(Some((status.source, is_whole.then_some(*packed).ok_or(corrupt))));
        }
    }

    /// Sends a message. Returns false when that is not possible now.
    fn send(
        &mut self,
        engine: &mut ShmEngine,
        to: Rank,
        message: LockMessage,
    ) -> Result<bool, ProgressError> {
        let mut packed = Box::new(message.pack());
        // SAFETY: the box stays allocated until the send has ended, or these are dropped.
        let sent = unsafe {
            engine.isend(to, Key::new(CONTEXT, TAG), Cursor::contiguous(buffer(&mut packed)), OWNER)
        };
        match sent {
            Ok(Sent::Done) => Ok(true),
            Ok(Sent::Pending(id)) => {
                self.leaving.push((id, packed));
                Ok(true)
            }
            // A rank that is gone gets no message.
            Err(StartError::Peer(_)) => Ok(true),
            Err(error) => started(error).map(|()| false),
        }
    }
}

impl Drop for WindowLockManagers {
    /// Leaks the messages that the engine has not completed, because it may still access them.
    fn drop(&mut self) {
        self.leaving.drain(..).chain(self.arriving.take()).for_each(|(_, packed)| {
            Box::leak(packed);
        });
    }
}

fn buffer(packed: &mut PackedLockMessage) -> Buffer {
    Buffer { base: NonNull::from(&mut *packed).cast(), length: size_of::<PackedLockMessage>() }
}
