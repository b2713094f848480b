//! Repeats one test for many rounds, to find faults that occur rarely.

use core::time::Duration;

use super::machine::{self, Task};
use super::{Guest, KINDS, guest, program};
use crate::shell::Shell;
use crate::stop::Stop;

/// Time limit of one round. The watchdog of a test that hangs kills it earlier and prints what it
/// waited for.
const ROUND: Duration = Duration::from_secs(150);

/// The script of the guest. Devices are named as for the jobs of the rung. Tests of the bare device
/// find their devices by themselves.
const SCRIPT: &str = include_str!("repeat");

/// The test to repeat.
#[derive(clap::Args)]
pub(crate) struct Repeat {
    /// Test that the guest repeats instead of the rung's tests: FILE::TEST, a test of
    /// tests/tests/FILE.rs.
    #[arg(long, value_name = "FILE::TEST", group = "own")]
    test: Option<String>,
    /// Rounds of that test. The first failure ends the run.
    #[arg(long, default_value_t = 200, requires = "test")]
    rounds: u32,
    /// Processes that keep the guest's two processors busy meanwhile.
    #[arg(long, default_value_t = 0, requires = "test")]
    burn: u32,
}

impl Repeat {
    /// Returns whether a test is to be repeated.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.test.is_some()
    }
}

/// Runs `cargo xtask vm --test FILE::TEST`.
pub(crate) fn run(shell: &Shell, device: &str, repeat: &Repeat) -> Result<(), Stop> {
    let Repeat { test, rounds, burn } = repeat;
    let wanted = test.as_deref().unwrap_or_default();
    let (file, test) = wanted.split_once("::").ok_or_else(|| {
        Stop::Failed(format!("`{wanted}` is no FILE::TEST, such as registrations::{{a test}}"))
    })?;
    let Guest { folder, image, siw } = guest(shell)?;
    if device == KINDS[1] {
        siw?;
    }
    let command = format!("test -p strait-tests --test {file} --no-run");
    let programs = [("tests", program(shell, &command)?)];
    let script = format!("test={test} rounds={rounds} burn={burn}\n{SCRIPT}");
    let task = Task { device, script: &script, programs: &programs, limit: ROUND * (rounds + 1) };
    let said = machine::boot(shell, &folder, &image, &task)?;
    // The serial port may repeat lines while the guest is short of processor time, so the guest
    // counts.
    if !said.contains(&format!("{rounds} rounds passed")) {
        return Err(Stop::Failed(format!("some rounds failed; output of the guest:\n{said}")));
    }
    eprintln!("vm: {device}: {wanted} passed {rounds} times beside {burn} busy processes");
    Ok(())
}
