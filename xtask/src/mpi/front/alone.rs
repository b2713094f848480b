//! What hosts do without the front, where the front has to do the same.

use super::{Host, LIMIT, compile, intel, mpich, open_mpi, standard};
use crate::shell::{Shell, Step};
use crate::stop::{self, Stop};

/// The constant of a binary interface that says whether its hosts refuse to free a window in an
/// epoch.
const REFUSES: &str = "pub(crate) const REFUSES_FREE_IN_EPOCH: bool = ";

/// Frees windows in epochs with each host, and compares what happens with the front's constant.
pub(super) fn free_in_epoch(shell: &Shell) -> Result<(), Stop> {
    let compare = |host: Result<Host, Stop>, interface: &str| {
        let host = host?;
        let table = shell.read(&format!("ffi/mpi/abi/{interface}_windows.rs"))?;
        let expected = if refuses(&table)? { "refused" } else { "freed" };
        let program = compile(shell, &host, "free_in_epoch", interface)?;
        // Open MPI writes warnings about a component that it does not use.
        let said = launch(shell, &host).arg(program).output()?.stdout;
        let said = String::from_utf8_lossy(&said);
        match said.trim() == expected {
            true => Ok(()),
            false => Err(Stop::Failed(format!("expected {expected:?}, the host: {said}"))),
        }
    };
    stop::all(vec![
        ("MPICH", compare(mpich(shell), "mpich")),
        ("MPI-5 ABI", compare(standard(shell), "standard")),
        ("Open MPI", compare(open_mpi(shell), "openmpi")),
        ("Intel MPI", compare(intel(shell), "mpich")),
    ])
}

fn refuses(table: &str) -> Result<bool, Stop> {
    let value = table.lines().find_map(|line| line.strip_prefix(REFUSES)?.strip_suffix(';'));
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| Stop::Failed("REFUSES_FREE_IN_EPOCH is missing".to_owned()))
}

/// Returns the launcher of a host for two ranks, without the front.
fn launch<'a>(shell: &'a Shell, host: &Host) -> Step<'a> {
    let step = shell.step("timeout", &format!("-k 5 {LIMIT}")).arg(&host.launcher);
    let step = host.options.split_whitespace().fold(step, Step::arg).arg("-n").arg("2");
    let step = host.environment.iter().fold(step, |step, (name, value)| step.env(name, value));
    step.env("I_MPI_ROOT", &host.home).env("LD_LIBRARY_PATH", host.home.join("lib"))
}

#[cfg(test)]
mod tests {
    use super::refuses;

    #[test]
    fn the_constant_is_read() {
        assert_eq!(refuses("a\npub(crate) const REFUSES_FREE_IN_EPOCH: bool = true;"), Ok(true));
        assert!(refuses("").is_err());
    }
}
