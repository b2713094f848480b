//! Runs jobs of random programs, with the chaos driver of the crate `strait-tests`. The driver
//! kills and stops ranks at any moment.
//!
//! The driver is built with optimization, which makes it quick. It is built with debug assertions,
//! so that ranks also die at the named steps.

use crate::shell::{self, Shell};
use crate::stop::Stop;

/// Runs `cargo xtask chaos`.
pub(crate) fn run<S: AsRef<str>>(shell: &Shell, arguments: &[S]) -> Result<(), Stop> {
    let build = "build --quiet -p strait-tests --bin chaos --profile chaos --message-format json";
    let mut built = shell::artifacts(&shell.cargo(build).stdout()?).into_iter();
    let program = built.find(|(name, _)| name == "chaos").map(|(_, path)| path);
    let program = program.ok_or_else(|| Stop::Failed("cargo made no chaos driver".into()))?;
    let driver = shell.step(program, "");
    arguments.iter().fold(driver, |driver, argument| driver.arg(argument.as_ref())).run()
}
