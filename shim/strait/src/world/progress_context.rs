//! The progress context: the engine, and the OS resources that work for it.

use std::sync::Arc;
use std::time::Instant;

use strait_core::buffer::Cursor;
use strait_core::engine::{
    FailureCause, Gone, MessageId, Owner, ProgressError, Received, SendMode, Sent, StartError,
};
use strait_core::layout::{Life, Segment};
use strait_core::matching::Pattern;
use strait_core::memory::OutOfMemory;
use strait_core::shm::DoorbellPtr;
use strait_core::wire::Key;
use strait_platform::Rank;
use strait_platform::cma::Cma;
use strait_platform::liveness::LivenessWatch;
use strait_platform::segment::SegmentMap;
use strait_platform::sleep::{self, Sleep};

use super::{ShmEngine, network};
use crate::Error;
use crate::network::{Network, NetworkError};
use crate::window::{Baselines, WindowLockManagers};

/// Pieces of large messages that one progress call moves; each takes at most 100 µs.
const JOBS_PER_PROGRESS: u32 = 4;

/// The place of a rank in its segment, and its means to sleep. It never changes.
pub(super) struct RankContext {
    pub(super) map: Arc<SegmentMap>,
    pub(super) rank: Rank,
    pub(super) size: u32,
    pub(super) sleep: Sleep,
    /// The zero of the engine's clock.
    pub(super) begin: Instant,
}

impl RankContext {
    /// Returns this rank's doorbell.
    pub(super) fn bell(&self) -> DoorbellPtr {
        self.segment().doorbell(self.rank)
    }

    /// Returns the view of the segment. The world and its progress thread use none after they have
    /// dropped this value.
    pub(super) fn segment(&self) -> Segment {
        // SAFETY: this value keeps the map, and no view is used later (contract of this function).
        unsafe { self.map.segment() }
    }
}

/// The OS resources that an engine uses.
pub(super) struct OsResources {
    /// Dropped before the engine, because it accesses buffers that the engine names.
    pub(super) network: network::OptionalNetwork,
    pub(super) watch: LivenessWatch,
    pub(super) cma: Cma,
    /// The lock managers of windows.
    pub(super) lock_managers: WindowLockManagers,
    /// The windows by messages.
    pub(super) baselines: Baselines,
}

/// A borrow of everything that makes progress, for the holder of the progress lock.
pub(crate) struct ProgressContext<'a> {
    pub(super) place: &'a RankContext,
    pub(crate) engine: &'a mut ShmEngine,
    pub(super) resources: &'a mut OsResources,
}

impl ProgressContext<'_> {
    /// Moves all data that can move without waiting, and some of the large messages. Returns
    /// whether anything moved.
    pub(super) fn progress(&mut self) -> Result<bool, ProgressError> {
        self.tell_time();
        let moved = self.engine.progress();
        let carried = self.move_large();
        let remote = self.poll_network();
        let served = if self.resources.lock_managers.is_open() {
            self.serve_lock_managers()
        } else {
            Ok(false)
        };
        let packed =
            if self.resources.baselines.is_open() { self.serve_baselines() } else { Ok(false) };
        self.serve_wants();
        Ok(moved? | carried? | remote? | served? | packed?)
    }

    /// Starts a send. It first backs the parcels or the copy ring if this message is the first that
    /// wants them.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ShmEngine::isend`].
    pub(crate) unsafe fn isend(
        &mut self,
        mode: SendMode,
        destination: Rank,
        key: Key,
        data: Cursor,
        owner: Owner,
    ) -> Result<Sent, StartError> {
        if self.engine.may_be_asked(destination, key, data.remaining()) {
            self.progress_first();
        }
        if self.engine.wants_parcels(destination, data.remaining()) {
            let backed = self.place.map.back_parcels(self.place.rank, destination).is_ok();
            self.engine.parcels_backed(destination, backed);
        }
        if self.engine.wants_ring(destination, data.remaining()) {
            let backed = self.place.map.back_ring(self.place.rank, destination).is_ok();
            self.engine.ring_backed(destination, backed);
        }
        // SAFETY: the caller guarantees the same (contract of `isend`).
        let sent = unsafe { self.engine.isend_by(mode, destination, key, data, owner) };
        self.serve_wants();
        if self.resources.network.is_some() && matches!(sent, Ok(Sent::Pending(_))) {
            // The next progress call meets and reports an error.
            let _ = self.poll_network();
        }
        sent
    }

    /// Starts a receive. An RTR leaves at once, and the read of an announced message begins.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ShmEngine::irecv`].
    pub(crate) unsafe fn irecv(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        let announced = self.engine.may_be_announced(&pattern, buffer.remaining(), owner);
        if announced {
            self.progress_first();
        }
        // SAFETY: the caller guarantees the same (contract of `irecv`).
        let received = unsafe { self.engine.irecv(pattern, buffer, owner) };
        self.serve_wants();
        if announced && matches!(received, Ok(Received::Pending(_))) {
            // The next progress call meets and reports an error.
            let _ = self.poll_network();
        }
        if let Some(network) = self.resources.network.as_deref_mut()
            && matches!(received, Ok(Received::Pending(_)))
        {
            // A source that never connects must be found to be gone.
            network.call(pattern.source);
        }
        received
    }

    /// Gives a message that a probe has matched back to matching.
    pub(crate) fn put_back(&mut self, message: MessageId) -> Result<(), OutOfMemory> {
        let result = self.engine.put_back(message);
        self.serve_wants();
        result
    }

    /// Starts the receive of a message that a probe has matched. A sender that keeps the message
    /// learns of it at once.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ShmEngine::imrecv`].
    pub(crate) unsafe fn imrecv(
        &mut self,
        message: MessageId,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        // SAFETY: the caller guarantees the same (contract of `imrecv`).
        let received = unsafe { self.engine.imrecv(message, buffer, owner) };
        self.serve_wants();
        if matches!(received, Ok(Received::Pending(_))) {
            // The next progress call meets and reports an error.
            let _ = self.poll_network();
        }
        received
    }

    /// Makes the initial progress call of `[SpecRndv09]` §3.1.1, before a send or receive for which
    /// arrived packets may matter. It moves no other large message. Otherwise the new operation
    /// would start that much later, and this caller, which is about to compute, would copy alone
    /// what both sides can share.
    fn progress_first(&mut self) {
        self.tell_time();
        // The next progress call meets and reports an error.
        let _ = self.engine.take_in();
        let _ = self.poll_network();
    }

    /// Tells the engine which ranks died or left since the last call. Returns false when some
    /// deaths could not be settled yet.
    pub(super) fn detect_failures(&mut self) -> Result<bool, Error> {
        let (segment, own) = (self.place.segment(), self.place.rank);
        self.resources.watch.check(&segment, own);
        self.resources.network.as_deref_mut().into_iter().for_each(Network::probe);
        let mut settled = true;
        for rank in (0..self.place.size).filter(|rank| *rank != own) {
            let how = match segment.rank_block(rank).liveness.state() {
                Life::Unborn | Life::Alive => {
                    // Where no launcher reports it, the link alone shows the end of a rank on
                    // another node.
                    if self.engine.gone(rank).is_some() {
                        self.resources.lock_managers.revoke(rank);
                    }
                    continue;
                }
                Life::Finished => Gone::Finished,
                Life::Dead => Gone::Failed(FailureCause::Ended),
            };
            settled &= self.engine.peer_gone(rank, how)?;
            self.resources.lock_managers.revoke(rank);
        }
        if self.engine.has_deaths_to_tell() {
            // The caller may leave the library for a long time. The next progress call meets an
            // error again.
            let _ = self.poll_network();
        }
        self.serve_wants();
        Ok(settled)
    }

    /// Moves messages from and to other nodes as far as possible. Returns whether any moved.
    #[inline(always)]
    fn poll_network(&mut self) -> Result<bool, ProgressError> {
        match self.resources.network.as_deref_mut() {
            Some(network) => poll(self.engine, network),
            None => Ok(false),
        }
    }

    /// Handles the requests to lock managers, and answers them.
    #[inline(never)]
    fn serve_lock_managers(&mut self) -> Result<bool, ProgressError> {
        let OsResources { network, lock_managers, .. } = &mut *self.resources;
        lock_managers.serve(self.engine, network.as_deref_mut(), self.place.rank)
    }

    /// Carries out operations that arrived in messages, and sends the messages that are due.
    #[inline(never)]
    fn serve_baselines(&mut self) -> Result<bool, ProgressError> {
        // `serve` gets the whole progress context, so the windows are taken out of it meanwhile.
        let mut baselines = core::mem::take(&mut self.resources.baselines);
        let served = baselines.serve(self);
        self.resources.baselines = baselines;
        served
    }

    /// Fails once with the reason why a link could not be made.
    #[inline]
    pub(super) fn refusal(&mut self) -> Result<(), NetworkError> {
        match self.resources.network.as_deref_mut() {
            Some(network) if network.has_refused() => network.take_refusal().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Arranges that data from other nodes make an event. Returns false when that is not possible
    /// yet.
    pub(super) fn arm_wakeups(&mut self) -> bool {
        self.resources.network.as_deref_mut().is_none_or(Network::arm_wakeups)
    }

    /// Backs the fastboxes that the engine wants, and wakes the ranks that it names.
    fn serve_wants(&mut self) {
        while let Some(peer) = self.engine.poll_want() {
            let backed = self.place.map.back_fastbox(self.place.rank, peer).is_ok();
            self.engine.fastbox_backed(peer, backed);
        }
        while let Some(peer) = self.engine.poll_bell() {
            sleep::wake(&self.place.segment(), peer);
        }
    }

    /// Tells the engine the time, if it wants to know it.
    #[inline(always)]
    fn tell_time(&mut self) {
        if self.engine.wants_time() {
            // 64 bits of nanoseconds last for over 500 years.
            self.engine.tell_time(self.place.begin.elapsed().as_nanos() as u64);
        }
    }

    /// Moves a few pieces of large messages, so that the queues do not wait long.
    fn move_large(&mut self) -> Result<bool, ProgressError> {
        for number in 0..JOBS_PER_PROGRESS {
            let Some(job) = self.engine.poll_transfer()? else { return Ok(number > 0) };
            let segment = self.place.segment();
            // SAFETY: the engine issued the job just now, so its memory is still claimed.
            let result = unsafe {
                match job.copy() {
                    true => Ok(()),
                    false => self.resources.cma.perform(&segment, &job),
                }
            };
            self.tell_time();
            self.engine.transfer_done(&job, result)?;
        }
        Ok(true)
    }
}

#[inline(never)]
fn poll(
    engine: &mut ShmEngine,
    network: &mut network::NetworkDevice,
) -> Result<bool, ProgressError> {
    network.poll();
    network::admit(engine, network)?;
    let moved = engine.poll_network(network)?;
    let served = network.serve(|rank| !engine.has_peer(rank) || engine.gone(rank).is_some())?;
    Ok(network.take_nearer() | served | moved)
}
