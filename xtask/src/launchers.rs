//! Strait programs under other launchers than our own.

use crate::setup::{self, Tool};
use crate::shell::Shell;
use crate::stop::Stop;

/// `cargo xtask launchers`. The tests are ignored in `unit`, where nobody sees to hydra.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    setup::need(shell, Tool::Hydra)?;
    // Those called `rank_…` are what hydra starts.
    shell.cargo("test -p strait-tests --test launchers -- --ignored hydra_").run()
}
