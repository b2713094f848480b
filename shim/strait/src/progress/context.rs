//! The progress context: the engine, and the OS resources that work for it.

use std::time::Instant;

use strait_core::buffer::Cursor;
use strait_core::engine::{
    MessageId, Owner, ProgressError, Received, RequestId, SendMode, Sent, StartError,
};
use strait_core::layout::RingPart;
use strait_core::matching::Pattern;
use strait_core::memory::OutOfMemory;
use strait_core::wire::Key;
use strait_platform::Rank;
use strait_platform::cma::Cma;
use strait_platform::liveness::LivenessWatch;
use strait_platform::sleep;

use super::place::RankContext;
use crate::NetworkError;
use crate::memory::ShmEngine;
use crate::network::Network;
use crate::network::job::OptionalNetwork;
use crate::network::resources::JobNetwork;

/// Pieces of large messages that one progress call moves; each takes at most 100 µs.
const JOBS_PER_PROGRESS: u32 = 4;

/// The OS resources that an engine uses.
pub(crate) struct OsResources {
    /// Dropped before the engine, because it accesses buffers that the engine names.
    pub(crate) network: OptionalNetwork,
    pub(crate) watch: LivenessWatch,
    pub(crate) cma: Cma,
}

/// A borrow of the engine and its OS resources, for the holder of the progress lock.
pub(crate) struct ProgressContext<'a> {
    pub(super) place: &'a RankContext,
    pub(crate) engine: &'a mut ShmEngine,
    pub(crate) resources: &'a mut OsResources,
}

impl ProgressContext<'_> {
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
        // Each loop ends when the engine has no memory for an answer: it would ask again.
        while let Some(part) = self.engine.wants_ring(destination, &data)
            && self.back_ring(destination, part)
        {}
        while let Some(set) = self.engine.wants_parcels(destination, &data) {
            let backed = self.place.map.back_parcels(self.place.rank, destination, set).is_ok();
            if !self.engine.parcels_backed(destination, set, backed) {
                break;
            }
        }
        self.engine.time_line(destination, data.remaining(), |look| {
            let begin = Instant::now();
            let came = look();
            // 64 bits of nanoseconds last for over 500 years.
            (begin.elapsed().as_nanos() as u64, came)
        });
        let fill = self.engine.is_fill_due(destination, data.remaining()).then(Instant::now);
        // SAFETY: the caller guarantees the same (contract of `isend`).
        let sent = unsafe { self.engine.isend_by(mode, destination, key, data, owner) };
        if let Some(begin) = fill {
            self.engine.fill_timed(destination, begin.elapsed().as_nanos() as u64);
        }
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

    /// Takes in what has come from other nodes, and receives a message with a receive that is not
    /// posted. Returns `None` if none has met it, or there is no network.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ShmEngine::recv_from_network`].
    pub(crate) unsafe fn recv_from_network(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Option<Received>, ProgressError> {
        let Some(network) = self.resources.network.as_deref_mut() else { return Ok(None) };
        network.poll();
        network.admit(self.engine)?;
        // SAFETY: the caller guarantees the same (contract of `recv_from_network`).
        unsafe { self.engine.recv_from_network(pattern, buffer, owner, network) }
    }

    /// Posts a receive that asks for a named message. The RTR leaves at once.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`ShmEngine::ask`].
    pub(crate) unsafe fn ask(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Option<RequestId>, StartError> {
        // SAFETY: the caller guarantees the same (contract of `ask`).
        let asked = unsafe { self.engine.ask(pattern, buffer, owner) };
        self.serve_wants();
        if matches!(asked, Ok(Some(_))) {
            // The next progress call meets and reports an error.
            let _ = self.poll_network();
        }
        asked
    }

    /// Takes in what has arrived, if an RTR for the message may be among it. Returns whether one is
    /// here.
    pub(crate) fn look_for_rtr(&mut self, destination: Rank, key: Key, length: usize) -> bool {
        if self.engine.may_be_asked(destination, key, length) {
            self.progress_first();
        }
        self.engine.is_asked(destination, key)
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

    /// Moves messages from and to other nodes as far as possible. Returns whether any moved.
    #[inline(always)]
    pub(super) fn poll_network(&mut self) -> Result<bool, ProgressError> {
        match self.resources.network.as_deref_mut() {
            Some(network) => poll(self.engine, network),
            None => Ok(false),
        }
    }

    /// Fails once with the reason why a link could not be made.
    #[inline]
    pub(crate) fn refusal(&mut self) -> Result<(), NetworkError> {
        match self.resources.network.as_deref_mut() {
            Some(network) if network.has_refused() => network.take_refusal().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Arranges that data from other nodes make an event. Returns false when that is not possible
    /// yet.
    pub(crate) fn arm_wakeups(&mut self) -> bool {
        self.resources.network.as_deref_mut().is_none_or(Network::arm_wakeups)
    }

    /// Backs the fastboxes that the engine wants, and wakes the ranks that it names.
    pub(super) fn serve_wants(&mut self) {
        while let Some(peer) = self.engine.poll_want() {
            let backed = self.place.map.back_fastbox(self.place.rank, peer).is_ok();
            self.engine.fastbox_backed(peer, backed);
        }
        while let Some(peer) = self.engine.poll_bell() {
            sleep::wake(&self.place.segment(), peer);
        }
    }

    /// Backs a part of the copy ring to a peer, and returns whether the engine knows. A peer that
    /// the kernel lets this rank write to can do without most of the ring at first.
    #[cold]
    fn back_ring(&mut self, peer: Rank, part: RingPart) -> bool {
        let backed = self.place.map.back_ring(self.place.rank, peer, part).is_ok();
        let taken = self.engine.ring_backed(peer, part, backed);
        let segment = self.place.segment();
        if part == RingPart::Heads && self.resources.cma.already_reaches(&segment, peer) {
            self.engine.defer_granules(peer);
        }
        taken
    }

    /// Does for a peer on this node what the first large message to it would wait for. Where the
    /// kernel refuses the copy, or there is no memory, that message tries again.
    pub(crate) fn prepare_large(&mut self, peer: Rank) {
        let segment = self.place.segment();
        if self.resources.cma.already_reaches(&segment, peer)
            && self.engine.prepare_large(peer) == Ok(true)
        {
            self.back_ring(peer, RingPart::Heads);
        }
    }

    /// Tells the engine the time, if it wants to know it.
    #[inline(always)]
    pub(super) fn tell_time(&mut self) {
        if self.engine.wants_time() {
            // 64 bits of nanoseconds last for over 500 years.
            self.engine.tell_time(self.place.begin.elapsed().as_nanos() as u64);
        }
    }

    /// Moves a few pieces of large messages, so that the queues do not wait long.
    pub(super) fn move_large(&mut self) -> Result<bool, ProgressError> {
        for number in 0..JOBS_PER_PROGRESS {
            let Some(job) = self.engine.poll_transfer()? else {
                if let Some(peer) = self.engine.poll_ring_want() {
                    self.back_ring(peer, RingPart::Granules);
                }
                return Ok(number > 0);
            };
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
fn poll(engine: &mut ShmEngine, network: &mut JobNetwork) -> Result<bool, ProgressError> {
    network.poll();
    network.admit(engine)?;
    let moved = engine.poll_network(network)?;
    let served = network.serve(|rank| !engine.has_peer(rank) || engine.gone(rank).is_some())?;
    Ok(network.take_nearer() | served | moved)
}
