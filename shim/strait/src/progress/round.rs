//! A round of progress: messages, large messages, the network, and what this rank serves for its
//! windows.

use strait_core::engine::{FailureCause, Gone, ProgressError};
use strait_core::layout::Life;

use super::context::{OsResources, ProgressContext};
use super::windows::{ServedWindows, WindowServers};
use crate::Error;
use crate::network::Network;

/// A borrow of everything that makes progress, for the holder of the progress lock.
pub(crate) struct Round<'a> {
    pub(crate) context: ProgressContext<'a>,
    pub(crate) windows: &'a mut WindowServers,
}

impl Round<'_> {
    /// Moves all data that can move without waiting, and some of the large messages. Returns
    /// whether anything moved.
    pub(crate) fn progress(&mut self) -> Result<bool, ProgressError> {
        self.progress_serving(ServedWindows::All)
    }

    /// Makes progress as [`Round::progress`] does, and serves only some of this rank's windows.
    #[inline]
    pub(crate) fn progress_serving(
        &mut self,
        windows: ServedWindows,
    ) -> Result<bool, ProgressError> {
        let context = &mut self.context;
        context.tell_time();
        let moved = context.engine.progress();
        let carried = context.move_large();
        let remote = context.poll_network();
        let served = if self.windows.lock_managers.is_open() {
            self.serve_lock_managers(windows)
        } else {
            Ok(false)
        };
        let packed = if self.windows.baselines.is_open() {
            self.serve_baselines(windows)
        } else {
            Ok(false)
        };
        self.context.serve_wants();
        Ok(moved? | carried? | remote? | served? | packed?)
    }

    /// Tells the engine which ranks died or left since the last call. Returns false when some
    /// deaths could not be settled yet.
    pub(crate) fn detect_failures(&mut self) -> Result<bool, Error> {
        let ProgressContext { place, engine, resources } = &mut self.context;
        let (segment, own) = (place.segment(), place.rank);
        resources.watch.check(&segment, own);
        resources.network.as_deref_mut().into_iter().for_each(Network::probe);
        let mut settled = true;
        for rank in (0..place.size).filter(|rank| *rank != own) {
            let how = match segment.rank_block(rank).liveness.state() {
                Life::Unborn | Life::Alive => {
                    // Where no launcher reports it, the link alone shows the end of a rank on
                    // another node.
                    if engine.gone(rank).is_some() {
                        self.windows.lock_managers.revoke(rank);
                    }
                    continue;
                }
                Life::Finished => Gone::Finished,
                Life::Dead => Gone::Failed(FailureCause::Ended),
            };
            settled &= engine.peer_gone(rank, how)?;
            self.windows.lock_managers.revoke(rank);
        }
        if engine.has_deaths_to_tell() {
            // The caller may leave the library for a long time. The next progress call meets an
            // error again.
            let _ = self.context.poll_network();
        }
        self.context.serve_wants();
        Ok(settled)
    }

    /// Handles the requests to lock managers, and answers them.
    #[inline(never)]
    fn serve_lock_managers(&mut self, windows: ServedWindows) -> Result<bool, ProgressError> {
        let ProgressContext { place, engine, resources } = &mut self.context;
        let OsResources { network, .. } = &mut **resources;
        self.windows.lock_managers.serve(engine, network.as_deref_mut(), place.rank, windows)
    }

    /// Carries out operations that arrived in messages, and sends the messages that are due.
    #[inline(never)]
    fn serve_baselines(&mut self, windows: ServedWindows) -> Result<bool, ProgressError> {
        self.windows.baselines.serve(&mut self.context, windows)
    }
}
