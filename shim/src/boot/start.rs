//! How this process was started, for people who ask.

use super::BootError;
use super::join::{Place, connect, once};
use super::pmi;
use crate::nodes::Nodes;

/// Who started this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Launcher {
    /// `strait run`, or a program that uses [`super::Launch`].
    Strait,
    /// Another launcher that speaks PMI-1: hydra and its relatives, or Slurm's `pmi2` plugin.
    Pmi,
}

/// This process's place in a job that it does not join.
#[derive(Clone, Debug)]
pub struct Start {
    /// Who started it.
    pub launcher: Launcher,
    /// Its rank.
    pub rank: u32,
    /// Where all ranks are.
    pub nodes: Nodes,
}

impl Start {
    /// Whether a launcher has started this process as a rank. Asks the environment alone.
    ///
    /// # Errors
    ///
    /// [`BootError`]: what the environment says of it cannot be.
    pub fn is_asked() -> Result<bool, BootError> {
        Ok(pmi::client::Place::from_env()?.is_some())
    }

    /// Asks the environment, and the launcher for the nodes. `None`: nobody started this process as a rank. To the launcher
    /// this process has come and left, so it cannot join any more.
    ///
    /// # Errors
    ///
    /// [`BootError`]: it was started as a rank, but the launcher does not answer as it should.
    pub fn ask() -> Result<Option<Self>, BootError> {
        let ours = Place::from_env()?.map(|place| (Launcher::Strait, place.rank, place.size));
        let Some(pmi) = pmi::client::Place::from_env()? else { return Ok(None) };
        let (launcher, rank, size) = ours.unwrap_or((Launcher::Pmi, pmi.rank, pmi.size));
        once()?;
        // SAFETY: the launcher made the socket for this process to own, and `once` lets one caller take it.
        let (mut store, nodes) = connect(unsafe { pmi.take() }?, rank, size)?;
        store.finalize()?;
        Ok(Some(Self { launcher, rank, nodes }))
    }
}
