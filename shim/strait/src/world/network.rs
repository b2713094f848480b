//! A world's use of its network.

use strait_core::buffer::Cursor;
use strait_core::engine::{Gone, Owner, Received};
use strait_core::matching::{ANY_SOURCE, Pattern};
use strait_core::rma::LaneError;
use strait_core::sync::spin_hint;
use strait_platform::Rank;
use strait_platform::backoff::POLLS_PER_PROGRESS;

use super::World;
use crate::network::job::DEFAULT_DEVICE;
use crate::network::resources::{self, JobNetwork};
use crate::network::{Network, RemotePeers};
use crate::{Error, Fault, NetworkError, WindowError, env};

impl World {
    /// Runs `act` on the network, if there is one.
    pub(crate) fn with_network<R>(&self, act: impl FnOnce(&mut JobNetwork) -> R) -> Option<R> {
        self.lock_progress().context().resources.network.as_deref_mut().map(act)
    }

    /// Polls the network a short time for a message that `pattern` wants, with a receive that is
    /// not posted (`[Nemesis07]` §3.3). Returns `None` if it has not come or has to be received in
    /// another way. An error is met again, and reported, by the next progress call.
    ///
    /// # Safety
    ///
    /// The caller guarantees the contract of [`Engine::recv_from_network`].
    ///
    /// [`Engine::recv_from_network`]: strait_core::engine::Engine::recv_from_network
    pub(crate) unsafe fn recv_from_network(
        &self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Option<Received> {
        // The servers of windows take their messages from among the unexpected ones.
        if self.needs_rounds() || !self.lock_progress().may_come_by_network(pattern.source) {
            return None;
        }
        // Once at least: a message that has come already needs no posted receive.
        for _ in 0..(self.spin().polls() / POLLS_PER_PROGRESS).max(1) {
            let mut guard = self.lock_progress();
            if guard.has_work_in_queues() || guard.others_have_lines(ANY_SOURCE) {
                return None;
            }
            // SAFETY: the caller guarantees the same (contract of `recv_from_network`).
            let received = unsafe { guard.context().recv_from_network(pattern, buffer, owner) };
            if let Some(received) = received.ok()? {
                return Some(received);
            }
            drop(guard);
            spin_hint();
        }
        None
    }

    /// Opens a network to processes outside this segment, which have the numbers from
    /// [`World::size`] on.
    pub(crate) fn enter_network(&self, others: RemotePeers) -> Result<(), Error> {
        let choice = env::hca()?.unwrap_or(DEFAULT_DEVICE);
        let device = resources::lone(choice, self.rank, self.size, others.config())?;
        let device = device.ok_or(NetworkError::None)?;
        let network = Network::new(device, others);
        self.lock_progress().context().resources.network = Some(Box::new(network));
        Ok(())
    }

    /// Allows messages to the process with this number, if there is a network.
    pub(crate) fn meet(&self, rank: Rank) -> Result<(), Error> {
        let mut guard = self.lock_progress();
        let context = guard.context();
        let Some(network) = context.resources.network.as_deref_mut() else { return Ok(()) };
        network.meet(rank);
        Ok(network.admit(context.engine)?)
    }

    /// Connects to `rank` if it is on another node and has no link yet, so that a waiting caller
    /// learns of its end.
    #[inline(always)]
    pub(crate) fn await_from(&self, rank: Rank) {
        self.with_network(|network| network.call(rank));
    }

    /// Makes this rank and its peers on other nodes tell each other of deaths, unless the launcher
    /// does.
    pub(super) fn tell_deaths_unless(&self, deaths_are_told: bool) {
        if !deaths_are_told {
            self.lock_progress().tell_deaths();
        }
    }

    /// Makes sure that this rank learns of the death of `rank`, whatever its node.
    pub(crate) fn watch_over(&self, rank: Rank) {
        self.lock_progress().context().resources.watch.expect(rank);
        self.with_network(|network| network.watch_over(rank));
    }

    /// Returns whether devices of peers write what this rank waits for, and ring no doorbell:
    /// signals of windows that span nodes, and messages in mailboxes.
    pub(super) fn is_written_silently(&self) -> bool {
        self.with_network(|network| network.is_written_silently()).unwrap_or(false)
    }

    /// Tells all peers on other nodes that this rank leaves, and waits until they know or are gone.
    pub(super) fn leave_network(&self) -> Result<(), Error> {
        let unmet = self.with_network(|network| {
            // A peer with a pending connection also learns that this rank leaves.
            network.poll_listener();
            network.unmet()
        });
        if let Some(unmet) = unmet {
            for rank in unmet {
                self.lock_progress().peer_gone(rank, Gone::Finished)?;
            }
            // Operations with these peers end here.
            self.progress()?;
            self.lock_progress().leave_network();
            let what = || self.lock_progress().wait_of_leaving();
            self.wait_until(what, || self.lock_progress().is_flushed().then_some(()))?;
            self.wait_until(what, || self.network_is_drained().then_some(()))?;
        }
        Ok(())
    }

    /// Returns whether this rank knows of a rank that has died.
    pub(super) fn has_lost_a_rank(&self) -> bool {
        let engine = self.lock_progress();
        let has_failed = |rank| matches!(engine.gone(rank), Some(Gone::Failed(_)));
        engine.is_any_gone() && (0..self.size).any(has_failed)
    }

    /// Returns the reason why a member of a window is no longer reached.
    #[cold]
    pub(crate) fn lane_failure(&self, rank: Rank, error: LaneError) -> Error {
        match self.lock_progress().gone(rank) {
            Some(how) => how.fault(rank).into(),
            None => match error.sign() {
                Some(sign) => Fault::PeerFailed { rank, sign }.into(),
                None => WindowError::Device { rank, error }.into(),
            },
        }
    }

    fn network_is_drained(&self) -> bool {
        self.lock_progress()
            .context()
            .resources
            .network
            .as_deref_mut()
            .is_none_or(JobNetwork::drain)
    }
}

#[cfg(test)]
mod tests;
