//! Runs Strait programs under launchers other than `strait run`.

use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::Stop;

/// Runs `cargo xtask launchers`. The rung `unit` ignores these tests, because it does not install
/// hydra.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Hydra)?;
    // The tests called `rank_…` are the programs that hydra starts.
    // The whole workspace has the features of the rung `unit`, so nothing is built again.
    shell.cargo("test --workspace --test launchers -- --ignored hydra_").run()
}
