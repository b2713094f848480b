//! The jobs of large messages: what the embedder moves between two processes for the engine.

use super::{Engine, ProgressError};
use crate::layout::Corrupt;
use crate::lmt::{Direction, Job, Refused, Transfer};
use crate::memory::Memory;
use crate::sync::{Step, reached};

impl<M: Memory + Clone> Engine<M> {
    /// True when no large message is under way.
    #[inline(always)]
    pub(super) fn no_transfers(&self) -> bool {
        self.senders.is_empty() && self.receivers.is_empty()
    }

    /// Looks after every large message under way.
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

    /// True when [`Engine::tell_time`] is worth its cost.
    #[inline(always)]
    #[must_use]
    pub fn wants_time(&self) -> bool {
        !self.senders.is_empty() && self.tuning.transfer == Transfer::Auto
    }

    /// Says what time it is, in nanoseconds from any one moment, so that transfers can be compared.
    #[inline(always)]
    pub const fn tell_time(&mut self, nanoseconds: u64) {
        self.now = nanoseconds;
    }

    /// A piece of a large message that this side should move now. It is claimed: move it at once, before any other call,
    /// and say with [`Engine::transfer_done`] how it went. `None`: there is nothing to move.
    ///
    /// # Errors
    ///
    /// [`ProgressError::Corrupt`].
    #[inline]
    pub fn poll_transfer(&mut self) -> Result<Option<Job>, ProgressError> {
        if self.no_transfers() || self.stopped {
            return Ok(None);
        }
        // By turns, so that messages in one direction do not hold up those in the other.
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

    /// The result of a job: all of it is where it belongs, or it could not be done. After one failure nothing of the kind
    /// is tried with this peer again; this very message arrives all the same.
    ///
    /// # Errors
    ///
    /// [`ProgressError::Corrupt`].
    pub fn transfer_done(
        &mut self,
        job: &Job,
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
                    self.peers[job.peer as usize].may_write = false;
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
                    self.peers[job.peer as usize].may_read = false;
                }
            }
        }
        // Whatever the result, the peer may wait for it.
        self.notify(job.peer);
        Ok(())
    }

    fn claim(&self, reads: bool) -> Result<Option<Job>, Corrupt> {
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

    /// Takes every buffer of a large message out of the reach of its peer. True when none is in use any more; otherwise
    /// ask again. `is_gone` says which ranks can no longer touch anything.
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
