//! One test, round after round: for faults that come once in a while.

use core::time::Duration;

use super::machine::{self, Task};
use super::{Guest, KINDS, guest, passed, program};
use crate::shell::Shell;
use crate::stop::Stop;

/// Longest that one round may take. A test that hangs is killed earlier by its own watchdog, which says what it waited for.
const ROUND: Duration = Duration::from_secs(150);

/// What the guest does. Devices are named as for the jobs of the rung; tests of the bare device find theirs by themselves.
const SCRIPT: &str = include_str!("repeat");

/// What to repeat.
#[derive(clap::Args)]
pub(crate) struct Repeat {
    /// Has the guest run one test again and again in place of the rung's: FILE::TEST, a test of tests/tests/FILE.rs.
    #[arg(long, value_name = "FILE::TEST", group = "own")]
    test: Option<String>,
    /// Rounds of that test. The first that fails is the last.
    #[arg(long, default_value_t = 200, requires = "test")]
    rounds: u32,
    /// Processes that do nothing but use the guest's two processors meanwhile.
    #[arg(long, default_value_t = 0, requires = "test")]
    burn: u32,
}

impl Repeat {
    /// Whether a test is to be repeated.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.test.is_some()
    }
}

/// `cargo xtask vm --test FILE::TEST`.
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
    let rounds_passed = passed(&said);
    if rounds_passed != *rounds {
        return Err(Stop::Failed(format!(
            "{rounds_passed} rounds passed; the guest said:\n{said}"
        )));
    }
    eprintln!("vm: {device}: {wanted} passed {rounds_passed} times beside {burn} busy processes");
    Ok(())
}
