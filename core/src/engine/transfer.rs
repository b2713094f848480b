//! The copy jobs of large messages: bytes that the embedder moves between two processes for the
//! engine.

use super::{Engine, ProgressError};
use crate::buffer::Direction;
use crate::lmt::{CopyJob, Refused, Transfer};
use crate::memory::Memory;
use crate::sync::{Step, reached};

impl<M: Memory + Clone> Engine<M> {
    /// Advances every large message under way.
    #[cold]
    pub(super) fn advance_transfers(&mut self) -> Result<bool, ProgressError> {
        let mut moved = false;
        let mut from = 0;
        while let Some(number) = self.transfers.next_sender(from) {
            from = number + 1;
            moved |= self.advance_sender(number)?;
        }
        from = 0;
        while let Some(number) = self.transfers.next_receiver(from) {
            from = number + 1;
            moved |= self.advance_receiver(number)?;
        }
        if self.transfers.methods().len() > 0 {
            moved |= self.advance_method_transfers()?;
        }
        Ok(moved)
    }

    /// Wakes the other sides of all large messages under way. Call it when this rank begins to wait
    /// inside the library ([`crate::layout::Liveness::set_inside`]): a side that sleeps because
    /// this rank was away has something to move from now on.
    #[cold]
    pub fn tell_partners(&mut self) {
        let mut from = 0;
        while let Some(number) = self.transfers.next_sender(from) {
            from = number + 1;
            if let Some(peer) = self.transfers.sender(number).map(|outbound| outbound.half.peer()) {
                self.notify(peer);
            }
        }
        from = 0;
        while let Some(number) = self.transfers.next_receiver(from) {
            from = number + 1;
            if let Some(peer) = self.transfers.receiver(number).map(|inbound| inbound.half.peer()) {
                self.notify(peer);
            }
        }
    }

    /// Returns whether [`Engine::tell_time`] is worth its cost.
    #[inline(always)]
    #[must_use]
    pub fn wants_time(&self) -> bool {
        self.transfers.is_sending() && self.tuning.transfer == Transfer::Auto
    }

    /// Sets the time, in nanoseconds since any fixed moment, so that transfers can be compared.
    #[inline(always)]
    pub const fn tell_time(&mut self, nanoseconds: u64) {
        self.transfers.tell_time(nanoseconds);
    }

    /// Returns a piece of a large message that this side should move now, or `None` if there is
    /// nothing to move. The piece is claimed: move it at once, before any other call, and report
    /// the result with [`Engine::transfer_done`].
    ///
    /// # Errors
    ///
    /// [`ProgressError::Corrupt`].
    #[inline]
    pub fn poll_transfer(&mut self) -> Result<Option<CopyJob>, ProgressError> {
        if self.transfers.is_empty() || self.stopped {
            return Ok(None);
        }
        let job = self.transfers.next_job(&self.segment)?;
        if job.is_some() {
            reached(Step::ChunkClaimed);
        }
        Ok(job)
    }

    /// Takes the result of a job: all bytes are in their place, or the job failed. After one
    /// failure no job of this kind is tried with this peer again. The message of the failed job
    /// still arrives.
    ///
    /// # Errors
    ///
    /// [`ProgressError::Corrupt`].
    pub fn transfer_done(
        &mut self,
        job: &CopyJob,
        result: Result<(), Refused>,
    ) -> Result<(), ProgressError> {
        let (half, grains) = (job.ticket.half, job.ticket.grains);
        let segment = self.segment;
        if result.is_ok() {
            reached(Step::ChunkMoved);
        }
        match job.direction {
            Direction::Write => {
                let Some(outbound) = self.transfers.sender_mut(half) else { return Ok(()) };
                if result.is_ok() {
                    outbound.half.copied(grains);
                    outbound.half.home().of(&segment).chunks.finish(grains.count);
                    reached(Step::ChunkFinished);
                    self.advance_sender(half)?;
                } else {
                    outbound.half.refused(grains)?;
                    self.peers[job.peer as usize].large.write_refused();
                }
            }
            Direction::Read => {
                let Some(inbound) = self.transfers.receiver_mut(half) else { return Ok(()) };
                let descriptor = inbound.half.home().of(&segment);
                if result.is_ok() {
                    descriptor.chunks.finish(grains.count);
                    reached(Step::ChunkFinished);
                    self.advance_receiver(half)?;
                } else {
                    inbound.half.refused(descriptor, grains);
                    self.peers[job.peer as usize].large.read_refused();
                }
            }
        }
        // The peer may wait for the result, whatever it is.
        self.notify(job.peer);
        Ok(())
    }
}
