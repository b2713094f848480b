//! Downloads what later rungs need, while others run.

use crate::shell::Shell;
use crate::stop::{self, Stop};
use crate::{mpi, vm};

/// Runs `cargo xtask fetch`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    stop::all(vec![
        ("packages of MPIs", mpi::fetch(shell)),
        ("the virtual machine", vm::fetch(shell)),
    ])
}
