//! How a rank leaves its job: in good order, or by a panic.

use strait_core::layout::Life;
use strait_platform::boot::BootError;

use super::World;
use crate::Error;

/// Number of ranks that a rank looks at to wake them when it leaves in good order.
pub(super) const WOKEN_BY_LEAVING: usize = 16;

impl World {
    /// Leaves the job: waits until all sent messages have been handed over, then tells the peers.
    ///
    /// ```
    /// let worlds = strait::World::in_process(1)?;
    /// for world in worlds {
    ///     world.finalize()?;
    /// }
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] when a sent message could not be handed over, or the profile for
    /// `STRAIT_RENDEZVOUS_PROFILE_OUT` not written. The rank has left nevertheless.
    ///
    /// # Source
    ///
    /// MPI-4.1 §11.2.2, `MPI_FINALIZE`.
    pub fn finalize(mut self) -> Result<(), Error> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), Error> {
        self.engine.stop_threads();
        if self.map.rank_block(self.rank).liveness.state() >= Life::Dead {
            return Ok(());
        }
        let flushed = self.hand_over_all();
        for (_, meeting) in self.meetings().iter_mut() {
            meeting.close_mailboxes(self);
        }
        let left = self.leave_network();
        let written = self.write_profile();
        for (_, mut meeting) in self.meetings.take() {
            meeting.leave(self);
        }
        self.end(Life::Finished);
        let finalized = self.store.lock().finalize();
        flushed.and(left)?;
        written?;
        Ok(finalized.map_err(BootError::Store)?)
    }

    /// Publishes how this rank ends, and wakes sleeping ranks. The ranks of a job mostly leave
    /// together, so a rank that leaves in good order wakes only a few of the others. The rest look
    /// soon.
    pub(super) fn end(&self, how: Life) {
        self.map.rank_block(self.rank).liveness.end(how);
        let most = if how == Life::Finished { WOKEN_BY_LEAVING } else { self.size as usize };
        let others = (self.rank + 1..self.size).chain(0..self.rank);
        self.wake_sleepers(others.take(most));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.stop_threads();
            // Peers learn of the end at once. Waiting for them could hide the panic for ever.
            self.end(Life::Dead);
        } else {
            let _ = self.leave();
        }
    }
}
