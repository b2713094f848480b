//! Runs jobs of random programs, with the chaos driver of the crate `strait-tests`. The driver
//! kills and stops ranks at any moment.
//!
//! The driver has debug assertions, so that ranks also die at the named steps.

use crate::shell::Shell;
use crate::stop::Stop;

/// Runs `cargo xtask chaos`. The driver is the one that `unit` builds, unless it is to be
/// `optimized`.
pub(crate) fn run<S: AsRef<str>>(
    shell: &Shell,
    optimized: bool,
    arguments: &[S],
) -> Result<(), Stop> {
    let (command, profile) = match optimized {
        true => ("build -p strait-tests --bin chaos --profile chaos", "chaos"),
        // cargo builds the driver with this suite, as it does for all suites.
        false => ("test --workspace --no-run --test chaos", "debug"),
    };
    shell.cargo(&format!("{command} --quiet")).run()?;
    let driver = shell.step(shell.target().join(profile).join("chaos"), "");
    arguments.iter().fold(driver, |driver, argument| driver.arg(argument.as_ref())).run()
}
