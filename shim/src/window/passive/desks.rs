//! All desks of a rank, and the messages between them and those of others.
//!
//! The messages are the engine's, in a context and with a tag of their own. They are looked for, and not waited for: no receive is
//! posted, so other messages take the ways they always do.

use core::ptr::NonNull;
use std::collections::VecDeque;

use strait_core::layout::Corrupt;
use strait_core::matching::{ANY_SOURCE, Pattern, TAG_MAX};
use strait_core::progress::{
    Cursor, Owner, Part as Buffer, ProgressError, Received, RequestId, Sent, StartError,
};
use strait_core::wire::Key;

use super::desk::Desk;
use super::message::{Message, Packed};
use crate::Rank;
use crate::collective::INTERNAL;
use crate::network::JobNetwork;
use crate::world::ShmEngine;

const CONTEXT: u32 = INTERNAL;

/// No group's messages have it.
const TAG: u32 = TAG_MAX;

/// Nobody's operations: no scope has this number.
const OWNER: Owner = Owner(0);

/// A message that has arrived, and its source.
type Heard = (Rank, Result<Packed, Corrupt>);

/// A message that the engine has not done with.
type Under = (RequestId, Box<Packed>);

/// Where a rank's windows have their managers.
#[derive(Default)]
pub(crate) struct Desks {
    opened: u64,
    desks: Vec<Desk>,
    said: VecDeque<(Rank, Message)>,
    leaving: Vec<Under>,
    arriving: Option<Under>,
}

impl Desks {
    /// The number of the next desk. No other desk ever has it, so what is said to one that is closed is said to nobody.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    pub(super) fn open(&mut self, desk: Desk) {
        self.desks.push(desk);
    }

    pub(super) fn close(&mut self, number: u64) {
        self.desks.retain(|desk| desk.number != number);
    }

    pub(super) fn desk(&mut self, number: u64) -> Option<&mut Desk> {
        self.desks.iter_mut().find(|desk| desk.number == number)
    }

    /// Whether there is anything to serve.
    #[inline(always)]
    pub(crate) const fn is_open(&self) -> bool {
        !self.desks.is_empty() || !self.leaving.is_empty()
    }

    pub(super) fn say(&mut self, to: Rank, message: Message) {
        self.said.push_back((to, message));
    }

    /// A rank has died or left.
    pub(crate) fn revoke(&mut self, rank: Rank) {
        self.desks.iter_mut().for_each(|desk| desk.revoke(rank));
    }

    /// Takes in what was said, grants what can be granted, and says so. Whether anything was done.
    pub(crate) fn serve(
        &mut self,
        engine: &mut ShmEngine,
        mut network: Option<&mut JobNetwork>,
        me: Rank,
    ) -> Result<bool, ProgressError> {
        let (mut moved, mut outcome) = (false, Ok(()));
        while let Some((source, packed)) = self.hear(engine)? {
            moved = true;
            let heard = packed.and_then(Message::parse).and_then(|said| self.take_in(source, said));
            if let Err(corrupt) = heard {
                // A member that waits for an answer must not wait for ever.
                self.said.extend(self.desks.iter().filter_map(|desk| desk.refusal(source)));
                outcome = Err(corrupt.into());
            }
        }
        for desk in &mut self.desks {
            desk.work(engine, network.as_deref_mut(), &mut self.said);
        }
        self.leaving.retain(|(id, _)| engine.test(*id).is_none());
        while let Some((to, message)) = self.said.pop_front() {
            moved = true;
            if to == me {
                self.take_in(me, message)?;
                for desk in &mut self.desks {
                    desk.work(engine, network.as_deref_mut(), &mut self.said);
                }
            } else if !self.send(engine, to, message)? {
                self.said.push_front((to, message));
                break;
            }
        }
        outcome.map(|()| moved)
    }

    /// To a desk that is closed nothing is said.
    fn take_in(&mut self, source: Rank, message: Message) -> Result<(), Corrupt> {
        if !(1..=self.opened).contains(&message.desk) {
            return Err(Corrupt::Lock { found: message.desk as u32 });
        }
        self.desk(message.desk).map_or(Ok(()), |desk| desk.take_in(source, message))
    }

    /// The next message, and its source. A message of another length than these have is corrupt.
    fn hear(&mut self, engine: &mut ShmEngine) -> Result<Option<Heard>, ProgressError> {
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
                    let mut packed = Box::new(Packed::default());
                    // SAFETY: the box is kept until the receive is over, below or when these are dropped.
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
            // The words of one that died on the way are lost with it.
            let Ok(status) = outcome else { continue };
            let is_whole = status.bytes == size_of::<Packed>();
            let corrupt = Corrupt::Lock { found: status.bytes as u32 };
            return Ok(Some((status.source, is_whole.then_some(*packed).ok_or(corrupt))));
        }
    }

    /// Sends a message. False: not now.
    fn send(
        &mut self,
        engine: &mut ShmEngine,
        to: Rank,
        message: Message,
    ) -> Result<bool, ProgressError> {
        let mut packed = Box::new(message.pack());
        // SAFETY: the box is kept until the send is over, or these are dropped.
        let sent = unsafe {
            engine.isend(to, Key::new(CONTEXT, TAG), Cursor::contiguous(buffer(&mut packed)), OWNER)
        };
        match sent {
            Ok(Sent::Done) => Ok(true),
            Ok(Sent::Pending(id)) => {
                self.leaving.push((id, packed));
                Ok(true)
            }
            // Who is gone hears nothing.
            Err(StartError::Peer(_)) => Ok(true),
            Err(error) => started(error).map(|()| false),
        }
    }
}

impl Drop for Desks {
    /// The engine may still name what it has not done with.
    fn drop(&mut self) {
        self.leaving.drain(..).chain(self.arriving.take()).for_each(|(_, packed)| {
            Box::leak(packed);
        });
    }
}

fn buffer(packed: &mut Packed) -> Buffer {
    Buffer { base: NonNull::from(&mut *packed).cast(), length: size_of::<Packed>() }
}

/// What a call that did not begin means for progress.
pub(crate) const fn started(error: StartError) -> Result<(), ProgressError> {
    match error {
        StartError::OutOfMemory(error) => Err(ProgressError::OutOfMemory(error)),
        StartError::Corrupt(error) => Err(ProgressError::Corrupt(error)),
        StartError::Rank { .. } | StartError::Tag { .. } | StartError::Peer(_) => Ok(()),
    }
}
