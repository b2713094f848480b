//! What makes progress: the engine, and all that the system has to do for it.

use std::sync::Arc;
use std::time::Instant;

use strait_core::layout::Life;
use strait_core::matching::Pattern;
use strait_core::memory::OutOfMemory;
use strait_core::progress::{
    Cursor, Gone, MessageId, Owner, ProgressError, Received, SendMode, Sent, Sign, StartError,
};
use strait_core::shm::DoorbellPtr;
use strait_core::wire::Key;

use super::{ShmEngine, network};
use crate::cma::Cma;
use crate::liveness::Watch;
use crate::network::{Network, NetworkError};
use crate::segment::SegmentMap;
use crate::sleep::{self, Sleep};
use crate::window::{Baselines, Desks};
use crate::{Error, Rank};

/// Pieces of large messages that are moved between two looks at everything else; each takes 100 µs at most.
const JOBS_PER_PROGRESS: u32 = 4;

/// Where a rank is, and how it sleeps there. It stays as it is.
pub(super) struct Place {
    pub(super) map: Arc<SegmentMap>,
    pub(super) rank: Rank,
    pub(super) size: u32,
    pub(super) sleep: Sleep,
    /// From when the engine's time is counted.
    pub(super) begin: Instant,
}

impl Place {
    /// This rank's bell.
    pub(super) fn bell(&self) -> DoorbellPtr {
        self.map.segment().doorbell(self.rank)
    }
}

/// What an engine has beside it.
pub(super) struct Gear {
    /// Touches buffers that the engine names, so it ends before the engine.
    pub(super) network: network::Way,
    pub(super) watch: Watch,
    pub(super) cma: Cma,
    /// The lock managers of windows.
    pub(super) desks: Desks,
    /// The windows by messages.
    pub(super) baselines: Baselines,
}

/// All of it, for whoever has it now.
pub(crate) struct Motor<'a> {
    pub(super) place: &'a Place,
    pub(crate) engine: &'a mut ShmEngine,
    pub(super) gear: &'a mut Gear,
}

impl Motor<'_> {
    /// Moves everything that can move without waiting, and some of the large messages. Says whether anything did.
    pub(super) fn progress(&mut self) -> Result<bool, ProgressError> {
        self.tell_time();
        let moved = self.engine.progress();
        let carried = self.move_large();
        let far = self.poll_network();
        let served = if self.gear.desks.is_open() { self.serve_desks() } else { Ok(false) };
        let packed = if self.gear.baselines.is_open() { self.serve_baselines() } else { Ok(false) };
        self.serve_wants();
        Ok(moved? | carried? | far? | served? | packed?)
    }

    /// Begins to send, after parcels or copy ring are backed if the message is the first that wants them.
    ///
    /// # Safety
    ///
    /// As for [`ShmEngine::isend`].
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
        // SAFETY: by the contract.
        let sent = unsafe { self.engine.isend_by(mode, destination, key, data, owner) };
        self.serve_wants();
        if self.gear.network.is_some() && matches!(sent, Ok(Sent::Pending(_))) {
            // An error is met again, and reported, by progress.
            let _ = self.poll_network();
        }
        sent
    }

    /// Begins to receive. An RTR leaves at once, and what was announced begins to be read.
    ///
    /// # Safety
    ///
    /// As for [`ShmEngine::irecv`].
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
        // SAFETY: by the contract.
        let received = unsafe { self.engine.irecv(pattern, buffer, owner) };
        self.serve_wants();
        if announced && matches!(received, Ok(Received::Pending(_))) {
            // An error is met again, and reported, by progress.
            let _ = self.poll_network();
        }
        if let Some(network) = self.gear.network.as_deref_mut()
            && matches!(received, Ok(Received::Pending(_)))
        {
            // Who never comes has to be known to be gone.
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

    /// Begins to receive a message that a probe has matched: its sender hears so at once if it keeps it.
    ///
    /// # Safety
    ///
    /// As for [`ShmEngine::imrecv`].
    pub(crate) unsafe fn imrecv(
        &mut self,
        message: MessageId,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        // SAFETY: by the contract.
        let received = unsafe { self.engine.imrecv(message, buffer, owner) };
        self.serve_wants();
        if matches!(received, Ok(Received::Pending(_))) {
            // An error is met again, and reported, by progress.
            let _ = self.poll_network();
        }
        received
    }

    /// The initial progress call of `[SpecRndv09]` §3.1.1 before a message begins to be sent or received, where what has come may
    /// make a difference. It moves no other large message: what begins here would leave that much later, and the caller, who means
    /// to compute, would do alone what is done by both, or by whoever waits.
    fn progress_first(&mut self) {
        self.tell_time();
        // An error is met again, and reported, by the next progress.
        let _ = self.engine.take_in();
        let _ = self.poll_network();
    }

    /// Tells the engine who died or left since the last look. False: not all of it could be settled yet.
    pub(super) fn look_for_the_gone(&mut self) -> Result<bool, Error> {
        let (segment, own) = (self.place.map.segment(), self.place.rank);
        self.gear.watch.check(&segment, own);
        self.gear.network.as_deref_mut().into_iter().for_each(Network::probe);
        let mut settled = true;
        for rank in (0..self.place.size).filter(|rank| *rank != own) {
            let how = match segment.rank_block(rank).liveness.state() {
                Life::Unborn | Life::Alive => {
                    // Where no launcher tells of it, the end of a rank on another node is known from its link alone.
                    if self.engine.gone(rank).is_some() {
                        self.gear.desks.revoke(rank);
                    }
                    continue;
                }
                Life::Finished => Gone::Finished,
                Life::Dead => Gone::Failed(Sign::Ended),
            };
            settled &= self.engine.peer_gone(rank, how)?;
            self.gear.desks.revoke(rank);
        }
        self.serve_wants();
        Ok(settled)
    }

    /// Moves messages from and to other nodes, as far as they go. Says whether any did.
    #[inline(always)]
    fn poll_network(&mut self) -> Result<bool, ProgressError> {
        match self.gear.network.as_deref_mut() {
            Some(network) => poll(self.engine, network),
            None => Ok(false),
        }
    }

    /// Takes in what was said to lock managers, and answers.
    #[inline(never)]
    fn serve_desks(&mut self) -> Result<bool, ProgressError> {
        let Gear { network, desks, .. } = &mut *self.gear;
        desks.serve(self.engine, network.as_deref_mut(), self.place.rank)
    }

    /// Carries out what was asked for by messages, and sends what is to leave.
    #[inline(never)]
    fn serve_baselines(&mut self) -> Result<bool, ProgressError> {
        // Whoever serves has the whole motor, and finds none of them in it.
        let mut baselines = core::mem::take(&mut self.gear.baselines);
        let served = baselines.serve(self);
        self.gear.baselines = baselines;
        served
    }

    /// Fails with why a link could not be made, once.
    #[inline]
    pub(super) fn refusal(&mut self) -> Result<(), NetworkError> {
        match self.gear.network.as_deref_mut() {
            Some(network) if network.has_refused() => network.take_refusal().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Sees to it that what comes from other nodes makes an event. False: not yet.
    pub(super) fn keep_vigil(&mut self) -> bool {
        self.gear.network.as_deref_mut().is_none_or(Network::keep_vigil)
    }

    /// Backs the fastboxes that the engine wants, and wakes whom it wants awake.
    fn serve_wants(&mut self) {
        while let Some(peer) = self.engine.poll_want() {
            let backed = self.place.map.back_fastbox(self.place.rank, peer).is_ok();
            self.engine.fastbox_backed(peer, backed);
        }
        while let Some(peer) = self.engine.poll_bell() {
            sleep::wake(&self.place.map.segment(), peer);
        }
    }

    /// Tells the engine the time, if it wants to know.
    #[inline(always)]
    fn tell_time(&mut self) {
        if self.engine.wants_time() {
            // Over 500 years fit.
            self.engine.tell_time(self.place.begin.elapsed().as_nanos() as u64);
        }
    }

    /// Moves pieces of large messages, few enough that the queues are not kept waiting.
    fn move_large(&mut self) -> Result<bool, ProgressError> {
        for number in 0..JOBS_PER_PROGRESS {
            let Some(job) = self.engine.poll_transfer()? else { return Ok(number > 0) };
            // SAFETY: the engine gave it just now.
            let result = if unsafe { job.copy() } {
                Ok(())
            } else {
                self.gear.cma.perform(&self.place.map.segment(), &job)
            };
            self.tell_time();
            self.engine.transfer_done(&job, result)?;
        }
        Ok(true)
    }
}

#[inline(never)]
fn poll(engine: &mut ShmEngine, network: &mut network::Device) -> Result<bool, ProgressError> {
    network.poll();
    network::admit(engine, network)?;
    let moved = engine.poll_network(network)?;
    let served = network.serve(|rank| !engine.has_peer(rank) || engine.gone(rank).is_some())?;
    Ok(network.take_nearer() | served | moved)
}
