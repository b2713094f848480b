//! Runs one loom test in a process of its own, with one ordering weakened or none.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use wait_timeout::ChildExt as _;

use crate::loom;
use crate::shell::Shell;

/// Time limit of a test, which normally takes seconds. A test that reaches the limit decides
/// nothing.
const BACKOFF: Duration = Duration::from_secs(120);

/// The result of a mutant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The test failed: the ordering is needed.
    Killed,
    /// The test passed.
    Survived,
    /// The test did not end by itself, or failed for another reason.
    Undecided(String),
}

impl Verdict {
    /// Describes the verdict of a test without a mutation, which should pass.
    pub(super) fn unmutated(&self) -> &str {
        match self {
            Self::Killed => "fails",
            Self::Survived => "passes",
            Self::Undecided(why) => why,
        }
    }
}

/// A process to run.
pub(super) struct Trial<'a> {
    program: Option<&'a PathBuf>,
    /// The path of the test within the program.
    function: &'a str,
    mutation: Option<String>,
    log: PathBuf,
}

impl<'a> Trial<'a> {
    /// Creates a trial of `test`, which is `file::function`. Its output goes to a file in `logs`.
    pub(super) fn new(
        programs: &'a BTreeMap<String, PathBuf>,
        logs: &Path,
        test: &'a str,
        mutation: Option<String>,
    ) -> Self {
        let (file, function) = test.split_once("::").unwrap_or((test, ""));
        let name = mutation.as_deref().unwrap_or(test);
        let log = logs.join(format!("{}.log", name.replace(['/', ':', '='], "_")));
        Self { program: programs.get(file), function, mutation, log }
    }

    /// Runs the trial until it ends or [`BACKOFF`] has passed.
    pub(super) fn run(&self, shell: &Shell) -> Verdict {
        let outcome = self.spawn(shell).map_err(|error| error.to_string());
        let status = match outcome {
            Ok(Some(status)) => status,
            Ok(None) => {
                return self.undecided(&format!("no end after {} s", BACKOFF.as_secs()));
            }
            Err(error) => return self.undecided(&format!("the test did not start: {error}")),
        };
        let log = std::fs::read(&self.log).unwrap_or_default();
        match decide(status, &String::from_utf8_lossy(&log)) {
            Ok(verdict) => verdict,
            Err(why) => self.undecided(why),
        }
    }

    fn undecided(&self, why: &str) -> Verdict {
        Verdict::Undecided(format!("{why} (see {})", self.log.display()))
    }

    fn spawn(&self, shell: &Shell) -> std::io::Result<Option<ExitStatus>> {
        let Some(program) = self.program else {
            return Err(std::io::Error::other("loom-tests/tests has no such file"));
        };
        let log = File::create(&self.log)?;
        let mut step = loom::environment(shell.step(program, "--exact")).arg(self.function);
        // A failure is the expected result. Its backtrace is of no use and takes longer than the
        // model.
        step = step.env("RUST_BACKTRACE", "0");
        if let Some(mutation) = &self.mutation {
            step = step.env("STRAIT_WEAKEN", mutation);
        }
        let mut child = step.spawn_into(log)?;
        let status = child.wait_timeout(BACKOFF)?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        Ok(status)
    }
}

/// Returns the verdict for the exit status, or the reason why there is none.
fn decide(status: ExitStatus, log: &str) -> Result<Verdict, &'static str> {
    // `test result: ok. 0 passed`: the filter matched nothing.
    if log.contains(" 0 passed; 0 failed") {
        return Err("the file has no such test");
    }
    // The standard library rejects some pairs of operation and ordering, and the facade rejects
    // unknown names. Neither is the failure that the mutant is meant to cause.
    if log.contains("there is no such thing as") || log.contains("STRAIT_WEAKEN: ") {
        return Err("the weakened ordering is not allowed there");
    }
    if status.success() {
        return Ok(Verdict::Survived);
    }
    // A model that fails during unwinding aborts, which counts as a failure. A process that was
    // killed from outside decides nothing.
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(9) {
        return Err("it was killed from outside, perhaps for lack of memory");
    }
    Ok(Verdict::Killed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const PASSED: &str = "test result: ok. 1 passed; 0 failed; 0 ignored";
    const FAILED: &str = "message lost\ntest result: FAILED. 0 passed; 1 failed; 0 ignored";

    #[test]
    fn a_failing_test_kills_its_mutant() {
        let exit = |code| ExitStatus::from_raw(code << 8);
        assert_eq!(decide(exit(0), PASSED), Ok(Verdict::Survived));
        assert_eq!(decide(exit(101), FAILED), Ok(Verdict::Killed));
        assert_eq!(decide(ExitStatus::from_raw(6), "abort"), Ok(Verdict::Killed));
    }

    #[test]
    fn other_failures_decide_nothing() {
        let exit = |code| ExitStatus::from_raw(code << 8);
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out";
        assert!(decide(exit(0), none).is_err());
        assert!(decide(exit(101), "there is no such thing as a relaxed fence").is_err());
        assert!(decide(exit(101), "STRAIT_WEAKEN: no ordering is called AcqRel").is_err());
        assert!(decide(ExitStatus::from_raw(9), "").is_err());
    }

    /// Creates a stand-in for a test program. It passes unless it is given the mutation that it
    /// watches for.
    fn stand_in(directory: &Path) -> PathBuf {
        let path = directory.join("stand-in.sh");
        let script = "#!/bin/sh\necho 'test result: 1 passed; 0 failed'\n\
                      [ \"$1 $2\" = '--exact a::watches' ] || exit 3\n\
                      [ \"$STRAIT_WEAKEN\" != q/1=Relaxed ]\n";
        std::fs::write(&path, script).unwrap();
        path
    }

    #[test]
    fn the_mutation_reaches_the_process() {
        let directory = std::env::temp_dir().join(format!("strait-trial-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let script = stand_in(&directory);
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, executable).unwrap();
        let programs = BTreeMap::from([("queue".to_owned(), script)]);
        let shell = Shell::new(false);
        let run = |test: &str, mutation: Option<&str>| {
            Trial::new(&programs, &directory, test, mutation.map(str::to_owned)).run(&shell)
        };
        assert_eq!(run("queue::a::watches", None), Verdict::Survived);
        assert_eq!(run("queue::a::watches", Some("q/1=Relaxed")), Verdict::Killed);
        assert_eq!(run("queue::a::watches", Some("q/2=Relaxed")), Verdict::Survived);
        assert!(matches!(run("other::watches", None), Verdict::Undecided(_)));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
