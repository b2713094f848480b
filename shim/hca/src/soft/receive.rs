//! The receives that this device has posted, and their results.

use std::time::Instant;

use strait_core::hca::fabric::{ReceiveBuffer, ReceiveResult, ReceiveSlot, Use};
use strait_core::hca::{Completion, Connection, Done, HcaError, PostError, Sge, WorkError};
use strait_platform::backoff::DEVICE_LIVENESS_PERIOD;
use strait_platform::liveness::has_ended;

use super::block::{CONNECTIONS, DeviceBlock, RECEIVES};
use super::fabric::Fabric;

/// The error for a value in the fabric that no device writes.
const DAMAGED: HcaError = HcaError::Device { code: 0 };

/// The owner's private record of its receives. Peers do not see the ids.
#[derive(Debug)]
pub(super) struct PostedReceives {
    /// Id and length of the piece in each slot. `None`: the slot is empty, or its receive was
    /// reported.
    lent: Box<[Option<(u64, u32)>]>,
    /// Number of receives ever posted, and the number of those before the oldest that was not
    /// reported. Both wrap.
    posted: u32,
    reported: u32,
    asked: Option<Instant>,
}

const fn slot(number: u32) -> usize {
    (number % RECEIVES) as usize
}

impl PostedReceives {
    pub(super) fn new() -> Self {
        Self { lent: vec![None; RECEIVES as usize].into(), posted: 0, reported: 0, asked: None }
    }

    /// Posts a piece for any peer. Slots are used in turn, so in the end it waits for a slot with a
    /// sender that has stopped halfway.
    pub(super) fn post(
        &mut self,
        block: &DeviceBlock,
        id: u64,
        piece: &Sge,
    ) -> Result<(), PostError> {
        if self.posted.wrapping_sub(self.reported) == RECEIVES {
            return Err(PostError::Full);
        }
        self.lent[slot(self.posted)] = Some((id, piece.length));
        let (base, length, key) = (piece.base.as_ptr().addr() as u64, piece.length, piece.key);
        block.receives.post(&block.slots, self.posted, ReceiveBuffer { base, length, key });
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    /// Returns the next receive that has ended. Receives of one connection end in the order in
    /// which they were taken. Between connections there is no order, since one sender may stop
    /// halfway, and the others do not wait for it.
    pub(super) fn next(
        &mut self,
        block: &DeviceBlock,
        fabric: &Fabric,
    ) -> Result<Option<Completion>, HcaError> {
        let mut asks = None;
        let mut number = self.reported;
        while number != self.posted {
            let found = &block.slots[slot(number)];
            let ended = match found.state() {
                _ if self.lent[slot(number)].is_none() => false,
                // Later slots are not used either.
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

    /// Returns the oldest receive that is done on the connection of receive `last`, which has
    /// ended. When this device polled it before, it may have been in flight. It is done now, since
    /// a sender ends one receive before it takes the next.
    fn first_of(&self, block: &DeviceBlock, last: u32) -> u32 {
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

    /// Reports receive `number`, which has ended: it is done, or its sender died.
    fn report(&mut self, block: &DeviceBlock, number: u32) -> Result<Completion, HcaError> {
        let found = &block.slots[slot(number)];
        let (id, room) = self.lent[slot(number)].take().ok_or(DAMAGED)?;
        // The state is read again: a sender that is dead now may have completed the receive before.
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

    /// Returns whether it is time to check which of the processes that fill a receive are alive.
    fn may_ask(&mut self) -> bool {
        let now = Instant::now();
        let may = self.asked.is_none_or(|last| now - last >= DEVICE_LIVENESS_PERIOD);
        if may {
            self.asked = Some(now);
        }
        may
    }
}

/// Returns the result of a receive with room for `room` bytes.
fn outcome(slot: &ReceiveSlot, room: u32) -> Result<Result<Done, WorkError>, HcaError> {
    let (arrival, length, immediate) = slot.outcome().ok_or(DAMAGED)?;
    Ok(match arrival {
        ReceiveResult::Message if length > room => return Err(DAMAGED),
        ReceiveResult::Message => Ok(Done::Receive { length }),
        ReceiveResult::Immediate => Ok(Done::Immediate { immediate, length }),
        ReceiveResult::TooLong => Err(WorkError::Length),
        ReceiveResult::BadPiece => Err(WorkError::LocalAccess),
        ReceiveResult::Cut => Err(WorkError::Flushed),
    })
}
