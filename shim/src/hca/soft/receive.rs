//! The receives that this device has posted, and what became of them.

use core::time::Duration;
use std::time::Instant;

use strait_core::hca::{Completion, Connection, Done, HcaError, Piece, PostError, WorkError};
use strait_core::sync::Ordering::Release;

use super::block::{Arrival, Block, RECEIVES, Use};
use super::fabric::Fabric;
use crate::liveness::has_ended;

/// Time between two questions whether the peer that fills a receive still lives.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What the owner of the receives knows of them. Their ids are nobody else's concern.
#[derive(Debug)]
pub(super) struct Posted {
    ids: Box<[(u64, u32)]>,
    /// Receives ever posted, and of them those that were reported; both wrap.
    posted: u32,
    reported: u32,
    asked: Option<Instant>,
}

impl Posted {
    pub(super) fn new() -> Self {
        Self { ids: vec![(0, 0); RECEIVES as usize].into(), posted: 0, reported: 0, asked: None }
    }

    /// Posts a piece for any peer.
    pub(super) fn post(&mut self, block: &Block, id: u64, piece: &Piece) -> Result<(), PostError> {
        if self.posted.wrapping_sub(self.reported) == RECEIVES {
            return Err(PostError::Full);
        }
        let slot = (self.posted % RECEIVES) as usize;
        self.ids[slot] = (id, piece.length);
        block.slots[slot].post(piece.base.as_ptr().addr() as u64, piece.length, piece.key);
        self.posted = self.posted.wrapping_add(1);
        block.receives.posted.store(self.posted, Release);
        Ok(())
    }

    /// The next receive that has ended, in the order in which they were taken.
    pub(super) fn next(
        &mut self,
        block: &Block,
        fabric: &Fabric,
    ) -> Result<Option<Completion>, HcaError> {
        if self.reported == self.posted {
            return Ok(None);
        }
        let at = (self.reported % RECEIVES) as usize;
        let (slot, (id, room)) = (&block.slots[at], self.ids[at]);
        let result = match slot.state() {
            Use::Posted => return Ok(None),
            Use::Done => {
                let (arrival, length, immediate) =
                    slot.outcome().ok_or(HcaError::Device { code: 0 })?;
                match arrival {
                    Arrival::Message if length > room => return Err(HcaError::Device { code: 0 }),
                    Arrival::Message => Ok(Done::Receive { length }),
                    Arrival::Immediate => Ok(Done::Immediate { immediate, length }),
                    Arrival::TooLong => Err(WorkError::Length),
                    Arrival::BadPiece => Err(WorkError::LocalAccess),
                    Arrival::Cut => Err(WorkError::Flushed),
                }
            }
            Use::Taken { by } => {
                if !self.is_dead(by, fabric) {
                    return Ok(None);
                }
                // Its taker died over it.
                Err(WorkError::Flushed)
            }
            Use::Free => return Err(HcaError::Device { code: 0 }),
        };
        let connection = Connection(slot.connection().ok_or(HcaError::Device { code: 0 })?);
        slot.free();
        self.reported = self.reported.wrapping_add(1);
        Ok(Some(Completion { id, connection, result }))
    }

    /// Whether `rank`, who fills a receive, is known to be dead. Not always asked.
    fn is_dead(&mut self, rank: u32, fabric: &Fabric) -> bool {
        let now = Instant::now();
        if self.asked.is_some_and(|last| now - last < ASK_EVERY) {
            return false;
        }
        self.asked = Some(now);
        fabric.liveness(rank).is_none_or(has_ended)
    }
}
