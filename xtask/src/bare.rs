//! Runs the core without an operating system: boots an image of it on a virtual machine
//! (`linker/bare`).
//!
//! The image boots twice. In the first boot every self-test must pass. In the second boot every
//! self-test is broken and must fail, which shows that each self-test really checks something.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};

use crate::qemu::{self, Ended};
use crate::setup::{self, BARE_TARGET, Tool};
use crate::shell::{self, Shell};
use crate::stop::{self, Stop};

/// Time after which an image that hangs is ended.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Exit statuses of QEMU for the two verdicts of the image (`linker/bare/src/machine.rs`).
const PASSED: i32 = 0x10 << 1 | 1;
const FAILED: i32 = 0x11 << 1 | 1;

/// Runs `cargo xtask bare`.
pub(crate) fn run(shell: &Shell) -> Result<(), Stop> {
    for tool in [Tool::BareTarget, Tool::Qemu] {
        setup::need(shell, tool)?;
    }
    let image = build(shell)?;
    let folder = shell.target().join("bare");
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    stop::all(vec![
        ("the image", boot(shell, &image, &folder.join("whole.log"), false)),
        ("the image with broken self-tests", boot(shell, &image, &folder.join("broken.log"), true)),
    ])
}

fn build(shell: &Shell) -> Result<PathBuf, Stop> {
    let arguments = format!(
        "build --quiet -p strait-bare --features image --target {BARE_TARGET} --release \
         --message-format json"
    );
    let mut built = shell::artifacts(&shell.cargo(&arguments).stdout()?).into_iter();
    let image = built.find(|(name, _)| name == "bare").map(|(_, path)| path);
    image.ok_or_else(|| Stop::Failed("cargo made no image".into()))
}

fn boot(shell: &Shell, image: &Path, log: &Path, broken: bool) -> Result<(), Stop> {
    let words = if broken { "broken" } else { "" };
    let machine = qemu::machine(shell).arg("-m").arg("64").arg("-append").arg(words);
    let ended = qemu::run(machine.arg("-kernel").arg(image), log, WATCHDOG)?;
    judge(&ended, broken).map_err(|why| Stop::Failed(format!("{why}; output:\n{}", ended.said)))
}

/// Checks that a boot ended with the expected status, and that the line of each self-test agrees.
fn judge(ended: &Ended, broken: bool) -> Result<(), String> {
    let Some(status) = ended.status else {
        return Err(format!("it was ended after {} seconds", WATCHDOG.as_secs()));
    };
    let (expected, wrong) = if broken { (FAILED, ": passed") } else { (PASSED, ": FAILED") };
    if status.code() != Some(expected) {
        return Err(format!("it ended with {status}, not {expected}"));
    }
    let lines = |sign: &str| ended.said.lines().filter(|line| line.contains(sign)).count();
    if lines(wrong) > 0 || lines(": passed") + lines(": FAILED") == 0 {
        let outcome = if broken { "fail" } else { "pass" };
        return Err(format!("not every self-test did {outcome}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn ended(code: i32, said: &str) -> Ended {
        Ended { status: Some(ExitStatus::from_raw(code << 8)), said: said.into() }
    }

    #[test]
    fn a_whole_image_passes_and_a_broken_one_fails_as_a_whole() {
        let (whole, broken) =
            ("queue: passed\nlock: passed\n", "queue: FAILED: 1\nlock: FAILED: 2\n");
        assert_eq!(judge(&ended(PASSED, whole), false), Ok(()));
        assert_eq!(judge(&ended(FAILED, broken), true), Ok(()));
        // Swapped verdicts, no output, a machine that reset itself, and a self-test that cannot
        // fail.
        assert!(judge(&ended(FAILED, broken), false).is_err());
        assert!(judge(&ended(PASSED, whole), true).is_err());
        assert!(judge(&ended(PASSED, ""), false).is_err());
        assert!(judge(&ended(0, whole), false).is_err());
        assert!(judge(&ended(FAILED, "queue: FAILED: 1\nlock: passed\n"), true).is_err());
    }

    #[test]
    fn a_machine_that_hangs_has_failed() {
        let hung = Ended { status: None, said: "queue: passed\n".into() };
        assert!(judge(&hung, false).is_err());
    }
}
