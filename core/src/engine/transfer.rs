//! The copy jobs of large messages: bytes that the embedder moves between two processes for the
//! engine.

use super::{Engine, ProgressError};
use crate::buffer::Direction;
use crate::lmt::{CopyJob, Refused, Transfer};
use crate::memory::Memory;
use crate::sync::{Step, reached};
use crate::wire::Corrupt;

impl<M: Memory + Clone> Engine<M> {
    /// Returns whether no large message is under way.
    #[inline(always)]
    pub(super) fn no_transfers(&self) -> bool {
        self.senders.is_empty() && self.receivers.is_empty()
    }

    /// Advances every large message under way.
    #[cold]
    pub(super) fn advance_transfers(&mut self) -> Result<bool, ProgressError> {
        let mut moved = false;
        let mut from = 0;
        while let Some((number, _)) = self.senders.next_from(from) {
            from = number + 1;
            moved |= self.advance_sender(number)?;
        }
        from = 0;
        while let Some((number, _)) = self.receivers.next_from(from) {
            from = number + 1;
            moved |= self.advance_receiver(number)?;
        }
        Ok(moved)
    }

    /// Returns whether [`Engine::tell_time`] is worth its cost.
    #[inline(always)]
    #[must_use]
    pub fn wants_time(&self) -> bool {
        !self.senders.is_empty() && self.tuning.transfer == Transfer::Auto
    }

    /// Sets the time, in nanoseconds since any fixed moment, so that transfers can be compared.
    #[inline(always)]
    pub const fn tell_time(&mut self, nanoseconds: u64) {
        self.now = nanoseconds;
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
        if self.no_transfers() || self.stopped {
            return Ok(None);
        }
        // The two directions take turns, so that messages in one do not delay those in the other.
        self.reads_first = !self.reads_first;
        let first = self.claim(self.reads_first)?;
        let job = match first {
            None => self.claim(!self.reads_first)?,
            job => job,
        };
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
                let Some(outbound) = self.senders.get_mut(half) else { return Ok(()) };
                if result.is_ok() {
                    outbound.half.home().of(&segment).chunks.finish(grains.count);
                    reached(Step::ChunkFinished);
                    self.advance_sender(half)?;
                } else {
                    outbound.half.refused(grains)?;
                    self.peers[job.peer as usize].large.write_refused();
                }
            }
            Direction::Read => {
                let Some(inbound) = self.receivers.get_mut(half) else { return Ok(()) };
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

    fn claim(&self, reads: bool) -> Result<Option<CopyJob>, Corrupt> {
        if reads {
            for (number, inbound) in self.receivers.iter() {
                let half = &inbound.half;
                if let Some(job) = half.claim(half.home().of(&self.segment), number)? {
                    return Ok(Some(job));
                }
            }
        } else {
            for (number, outbound) in self.senders.iter() {
                let half = &outbound.half;
                if let Some(job) = half.claim(half.home().of(&self.segment), number)? {
                    return Ok(Some(job));
                }
            }
        }
        Ok(None)
    }

    /// Takes every buffer of a large message out of the reach of its peer. Returns whether none is
    /// in use any more; call again after false. `is_gone` returns whether a rank can no longer
    /// touch any memory.
    pub(super) fn hush(&mut self, is_gone: impl Fn(u32) -> bool) -> bool {
        let segment = self.segment;
        let mut quiet = true;
        let mut from = 0;
        while let Some((number, _)) = self.senders.next_from(from) {
            from = number + 1;
            let Some(outbound) = self.senders.get_mut(number) else { continue };
            let descriptor = outbound.half.home().of(&segment);
            let out = outbound.half.withdraw(descriptor).unwrap_or(false);
            quiet &= out || is_gone(outbound.half.peer());
        }
        from = 0;
        while let Some((number, _)) = self.receivers.next_from(from) {
            from = number + 1;
            let Some(inbound) = self.receivers.get_mut(number) else { continue };
            let (peer, descriptor) = (inbound.half.peer(), inbound.half.home().of(&segment));
            quiet &= inbound.half.close(descriptor).unwrap_or(false) || is_gone(peer);
        }
        quiet
    }
}
