//! Information about the start of this process, for diagnostics.

use super::BootError;
use super::join::{LaunchContext, connect, once};
use super::pmi;
use crate::nodes::Nodes;

/// The launcher that started this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Launcher {
    /// `strait run`, or a program that uses [`super::Launch`].
    Strait,
    /// Another launcher that speaks PMI-1: hydra and its relatives, or Slurm's `pmi2` plugin.
    Pmi,
}

/// The rank of this process in a job that it does not join.
#[derive(Clone, Debug)]
pub struct JobStart {
    /// The launcher that started it.
    pub launcher: Launcher,
    /// Its rank.
    pub rank: u32,
    /// The nodes of all ranks.
    pub nodes: Nodes,
}

impl JobStart {
    /// Returns whether a launcher has started this process as a rank. It reads only the
    /// environment.
    ///
    /// # Errors
    ///
    /// [`BootError`] when the environment has invalid values.
    pub fn is_asked() -> Result<bool, BootError> {
        Ok(pmi::client::PmiContext::from_env()?.is_some())
    }

    /// Reads the environment, and asks the launcher for the nodes. Returns `None` when no launcher
    /// started this process as a rank.
    ///
    /// To the launcher this process has come and left, so it cannot join any more.
    ///
    /// # Errors
    ///
    /// [`BootError`] when it was started as a rank, but the launcher does not answer correctly.
    pub fn ask() -> Result<Option<Self>, BootError> {
        let ours =
            LaunchContext::from_env()?.map(|place| (Launcher::Strait, place.rank, place.size));
        let Some(pmi) = pmi::client::PmiContext::from_env()? else { return Ok(None) };
        let (launcher, rank, size) = ours.unwrap_or((Launcher::Pmi, pmi.rank, pmi.size));
        once()?;
        // SAFETY: the launcher made the socket for this process to own, and `once` lets one caller
        // take it.
        let (mut store, nodes) = connect(unsafe { pmi.take() }?, rank, size)?;
        store.finalize()?;
        Ok(Some(Self { launcher, rank, nodes }))
    }
}
