//! The receives that this device has posted, and what became of them.

use core::time::Duration;
use std::time::Instant;

use strait_core::hca::fabric::{Arrival, Lent, Slot, Use};
use strait_core::hca::{Completion, Connection, Done, HcaError, Piece, PostError, WorkError};

use super::block::{Block, CONNECTIONS, RECEIVES};
use super::fabric::Fabric;
use crate::liveness::has_ended;

/// Time between two questions whether the peer that fills a receive still lives.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What stands in the fabric is nothing that a device writes.
const DAMAGED: HcaError = HcaError::Device { code: 0 };

/// What the owner of the receives knows of them. Their ids are nobody else's concern.
#[derive(Debug)]
pub(super) struct Posted {
    /// Id and length of what each slot lends. `None`: nothing, or it was reported.
    lent: Box<[Option<(u64, u32)>]>,
    /// Receives ever posted, and of them those before the oldest that was not reported; both wrap.
    posted: u32,
    reported: u32,
    asked: Option<Instant>,
}

const fn slot(number: u32) -> usize {
    (number % RECEIVES) as usize
}

impl Posted {
    pub(super) fn new() -> Self {
        Self { lent: vec![None; RECEIVES as usize].into(), posted: 0, reported: 0, asked: None }
    }

    /// Posts a piece for any peer. Slots are used in turn, so one whose message has stopped halfway is waited for in the end.
    pub(super) fn post(&mut self, block: &Block, id: u64, piece: &Piece) -> Result<(), PostError> {
        if self.posted.wrapping_sub(self.reported) == RECEIVES {
            return Err(PostError::Full);
        }
        self.lent[slot(self.posted)] = Some((id, piece.length));
        let (base, length, key) = (piece.base.as_ptr().addr() as u64, piece.length, piece.key);
        block.receives.post(&block.slots, self.posted, Lent { base, length, key });
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    /// The next receive that has ended. Those of one connection end in the order in which they were taken; between connections
    /// there is none, since one sender may stop halfway, and others do not wait for it.
    pub(super) fn next(
        &mut self,
        block: &Block,
        fabric: &Fabric,
    ) -> Result<Option<Completion>, HcaError> {
        let mut asks = None;
        let mut number = self.reported;
        while number != self.posted {
            let found = &block.slots[slot(number)];
            let ended = match found.state() {
                _ if self.lent[slot(number)].is_none() => false,
                // Nor is any behind it.
                Use::Posted => return Ok(None),
                Use::Done => true,
                Use::Taken { by } => {
                    let asks = *asks.get_or_insert_with(|| self.may_ask());
                    asks && fabric.liveness(by).is_none_or(has_ended)
                }
                Use::Free => return Err(DAMAGED),
            };
            if ended {
                let number = self.first_of(block, number);
                return self.report(block, number).map(Some);
            }
            number = number.wrapping_add(1);
        }
        Ok(None)
    }

    /// The oldest receive that is done of those on the connection of receive `last`, which has ended. It may have been under way
    /// when we looked at it; it is not now, since a sender ends one before it takes the next.
    fn first_of(&self, block: &Block, last: u32) -> u32 {
        let connection = block.slots[slot(last)].connection();
        let mut number = self.reported;
        while number != last {
            let found = &block.slots[slot(number)];
            let waits = self.lent[slot(number)].is_some() && found.state() == Use::Done;
            if waits && found.connection() == connection {
                break;
            }
            number = number.wrapping_add(1);
        }
        number
    }

    /// Reports receive `number`, which has ended: it is done, or its taker died.
    fn report(&mut self, block: &Block, number: u32) -> Result<Completion, HcaError> {
        let found = &block.slots[slot(number)];
        let (id, room) = self.lent[slot(number)].take().ok_or(DAMAGED)?;
        // Asked again: who is dead now may have been done before.
        let is_done = found.state() == Use::Done;
        let result = if is_done { outcome(found, room)? } else { Err(WorkError::Flushed) };
        let connection = found.connection();
        if connection >= CONNECTIONS {
            return Err(DAMAGED);
        }
        found.take_back();
        self.pass_reported();
        Ok(Completion { id, connection: Connection(connection), result })
    }

    fn pass_reported(&mut self) {
        while self.reported != self.posted && self.lent[slot(self.reported)].is_none() {
            self.reported = self.reported.wrapping_add(1);
        }
    }

    /// Whether it is time to ask who of those that fill a receive still lives.
    fn may_ask(&mut self) -> bool {
        let now = Instant::now();
        let may = self.asked.is_none_or(|last| now - last >= ASK_EVERY);
        if may {
            self.asked = Some(now);
        }
        may
    }
}

/// How a receive with room for so many bytes ended.
fn outcome(slot: &Slot, room: u32) -> Result<Result<Done, WorkError>, HcaError> {
    let (arrival, length, immediate) = slot.outcome().ok_or(DAMAGED)?;
    Ok(match arrival {
        Arrival::Message if length > room => return Err(DAMAGED),
        Arrival::Message => Ok(Done::Receive { length }),
        Arrival::Immediate => Ok(Done::Immediate { immediate, length }),
        Arrival::TooLong => Err(WorkError::Length),
        Arrival::BadPiece => Err(WorkError::LocalAccess),
        Arrival::Cut => Err(WorkError::Flushed),
    })
}
