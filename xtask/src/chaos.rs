//! Jobs of random programs whose ranks are killed and stopped at any moment: the chaos driver of the crate `strait-tests`.
//!
//! It is built with optimization and with debug assertions: so it is quick, and ranks die at the named steps, too.

use crate::shell::{self, Shell};
use crate::stop::Stop;

/// What the ladder asks for. A job on a slow machine is not stuck: it has three minutes.
pub(crate) const LADDER: [&str; 4] = ["--seconds", "60", "--limit", "180"];

/// `cargo xtask chaos`.
pub(crate) fn run<S: AsRef<str>>(shell: &Shell, arguments: &[S]) -> Result<(), Stop> {
    let build = "build --quiet -p strait-tests --bin chaos --profile chaos --message-format json";
    let mut built = shell::artifacts(&shell.cargo(build).stdout()?).into_iter();
    let program = built.find(|(name, _)| name == "chaos").map(|(_, path)| path);
    let program = program.ok_or_else(|| Stop::Failed("cargo made no chaos driver".into()))?;
    let driver = shell.step(program, "");
    arguments.iter().fold(driver, |driver, argument| driver.arg(argument.as_ref())).run()
}
